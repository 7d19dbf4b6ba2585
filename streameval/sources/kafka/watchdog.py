"""The watchdog: a second connection reads end offsets and detects a stalled reader."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from streameval.errors import SourceError
from streameval.events.records import Partition
from streameval.sources.kafka.client import SETTINGS_ERRORS, settings_error
from streameval.sources.kafka.cluster import Cluster, Topics
from streameval.sources.kafka.connections import REASONS, addresses, failure_of
from streameval.sources.options import LATEST

_PAUSE_SECONDS: Final = 1.0
_FIRST_TIMEOUT_MS: Final = 1_000
_LAST_TIMEOUT_MS: Final = 8_000
_ANSWER_MS: Final = 5_000
"""Time limit of a request of the monitor; the reader itself waits as configured."""

Remedy: TypeAlias = Literal["seek", "rejoin", "give up"]

_REMEDIES: Final[tuple[Remedy, ...]] = ("seek", "rejoin", "give up")
_LONGEST_STEP: Final = 5.0
"""Most seconds between two checks that count; a longer gap means that the process was suspended."""


class ClusterMonitor:
    """A thread that queries the cluster once a second over a separate connection.

    The source learns of end offsets, new partitions and trouble without waiting for an answer. Each
    attribute except the counts is replaced as a whole, never changed in place.

    Attributes:
        partitions: all partitions seen so far.
        first: the partitions at the first answer.
        ends: partition -> offset after its last committed record, as last known.
        trouble: one sentence while the cluster cannot be read completely, else None.
        failure: an error that waiting will not fix, else None.
    """

    def __init__(self, topics: Sequence[str], config: Mapping[str, Any]) -> None:
        self._topics = topics
        self._config = config
        self._identities: dict[str, str] = {}
        self._cluster: Cluster | None = None
        self._timeout_ms = _FIRST_TIMEOUT_MS
        self._found = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kafka-monitor", daemon=True)
        self.cluster = ""
        self.ready = False
        self.partitions: frozenset[Partition] = frozenset()
        self.first: frozenset[Partition] = frozenset()
        self.ends: Mapping[Partition, int] = {}
        self.answers = False
        self.trouble: str | None = f"connecting to Kafka at {', '.join(addresses(config))}."
        self.failures: dict[str, int] = dict.fromkeys(REASONS, 0)
        self.failure: SourceError | None = None

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def wait_for_partitions(self, seconds: float) -> None:
        """Wait up to `seconds` for partitions or a failure."""
        if not self.partitions:
            self._found.wait(seconds)

    def sleep(self, seconds: float) -> None:
        """Wait for `seconds`, or until `stop`."""
        self._stopping.wait(seconds)

    def stop(self) -> None:
        """Stop the thread; a pending attempt to connect ends soon after."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout=2.0)

    def _run(self) -> None:
        while not self._stopping.is_set() and self.failure is None:
            self._run_once()
            self._stopping.wait(_PAUSE_SECONDS)
        self._disconnect()

    def _run_once(self) -> None:
        try:
            self._refresh()
        except SourceError as error:
            self._fail(error)
        except SETTINGS_ERRORS as error:
            self._fail(settings_error(error, self._config))
        except Exception as error:  # noqa: BLE001  the monitor must survive any error
            self.answers = False
            failure = failure_of(error, self._config)
            if failure.reason == "slow" and self._timeout_ms < _LAST_TIMEOUT_MS:
                # Only an attempt with more time shows what fails.
                self._timeout_ms = max(self._timeout_ms, 2 * _FIRST_TIMEOUT_MS)
                self._disconnect()
                return
            self.failures[failure.reason] += 1
            self.trouble = f"{failure}; still trying."
            self._disconnect()

    def _refresh(self) -> None:
        cluster = self._cluster or self._connect()
        self.cluster = self.cluster or cluster.identity()
        topics = cluster.topics(self._topics)
        self._refuse_recreated(topics)
        self.ends = cluster.offsets(topics.partitions, LATEST)
        if not self.ready:
            self.first = frozenset(topics.partitions)
        if not self.partitions.issuperset(topics.partitions):
            self.partitions |= frozenset(topics.partitions)
        self.trouble = topics.trouble
        self.ready = self.answers = True
        if self.partitions:
            self._found.set()

    def _connect(self) -> Cluster:
        """A new connection; the timeout doubles with each attempt, for a slow network."""
        timeout = self._timeout_ms
        self._timeout_ms = min(2 * timeout, _LAST_TIMEOUT_MS)
        limits = {"bootstrap_timeout_ms": timeout, "request_timeout_ms": _ANSWER_MS}
        self._cluster = Cluster({**self._config, **limits})
        return self._cluster

    def _disconnect(self) -> None:
        cluster, self._cluster = self._cluster, None
        if cluster is not None:
            cluster.close()

    def _refuse_recreated(self, topics: Topics) -> None:
        for name, identity in topics.identities.items():
            if self._identities.setdefault(name, identity) != identity:
                raise SourceError(
                    name, "was deleted and recreated", "restart; its offsets begin at 0 again"
                )

    def _fail(self, error: SourceError) -> None:
        self.failure = error
        self._found.set()


class Stall(NamedTuple):
    """Stalled partitions, and the remedy to try next.

    Attributes:
        remedy: seek to the position again, rejoin the group, or give up.
        positions: stalled partition -> position.
    """

    remedy: Remedy
    positions: Mapping[Partition, int]


class _Stalled(NamedTuple):
    position: int
    seconds: float
    tried: int


class Watchdog:
    """Detects partitions that do not advance although records wait.

    Only time counts during which the broker answers and checks are made. Time and remedies of a
    partition start over when it advances or reaches its end, but not when it is revoked for a while
    (rejoining).

    `timeout`: seconds without progress before the next remedy; above 0.
    """

    def __init__(self, timeout: float, clock: Callable[[], float]) -> None:
        self._timeout = timeout
        self._clock = clock
        self._looked_at = clock()
        self._stalled: dict[Partition, _Stalled] = {}

    def check(
        self, positions: Mapping[Partition, int], ends: Mapping[Partition, int], *, answers: bool
    ) -> Stall | None:
        """The stall to act on, or None.

        `answers`: whether the broker answered the last query.
        """
        now = self._clock()
        step = min(now - self._looked_at, _LONGEST_STEP) if answers else 0.0
        self._looked_at = now
        for partition, position in positions.items():
            if ends.get(partition, 0) > position:
                self._stalled[partition] = self._observed(partition, position, step)
            else:
                self._stalled.pop(partition, None)
        ours = {p: each for p, each in self._stalled.items() if p in positions}
        due = {p: each for p, each in ours.items() if each.seconds >= self._timeout}
        return self._stall(due) if due else None

    def _observed(self, partition: Partition, position: int, step: float) -> _Stalled:
        before = self._stalled.get(partition)
        if before is None or position > before.position:
            return _Stalled(position, 0.0, 0)
        return before._replace(seconds=before.seconds + step)

    def _stall(self, due: Mapping[Partition, _Stalled]) -> Stall:
        """The strongest remedy that is due; the time of each partition then starts over."""
        tried = max(each.tried for each in due.values())
        for partition, each in due.items():
            self._stalled[partition] = each._replace(seconds=0.0, tried=tried + 1)
        remedy = _REMEDIES[min(tried, len(_REMEDIES) - 1)]
        return Stall(remedy, {p: each.position for p, each in due.items()})
