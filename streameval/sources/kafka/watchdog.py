"""The watchdog: a second connection reads the ends of the logs and notices a stalled reader."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from streameval.errors import SourceError
from streameval.events.records import Partition
from streameval.sources.kafka.client import UNUSABLE, unusable
from streameval.sources.kafka.cluster import Cluster, Topics
from streameval.sources.kafka.connections import REASONS, addresses, failure_of
from streameval.sources.options import LATEST

_PAUSE_SECONDS: Final = 1.0
_FIRST_PATIENCE_MS: Final = 1_000
_LAST_PATIENCE_MS: Final = 8_000
_ANSWER_MS: Final = 5_000
"""A broker that is silent for this long is in trouble; the reader itself waits as configured."""

Remedy: TypeAlias = Literal["seek", "rejoin", "give up"]

_REMEDIES: Final[tuple[Remedy, ...]] = ("seek", "rejoin", "give up")
_LONGEST_STEP: Final = 5.0
"""More than this many seconds between two looks is time in which we did not look (suspended)."""


class ClusterMonitor:
    """A thread that asks the cluster once a second, over a connection of its own.

    So the source learns of ends, new partitions and trouble without ever waiting for an answer.
    Each attribute but the counts is replaced as a whole, never changed in place.

    Attributes:
        first: those of them that were there at the first look.
        ends: the offset after the last committed record of each partition, as last known.
        trouble: one sentence while something is not as it should be, else None.
        failure: what no waiting will mend, else None.
    """

    def __init__(self, topics: Sequence[str], config: Mapping[str, Any]) -> None:
        self._topics = topics
        self._config = config
        self._identities: dict[str, str] = {}
        self._cluster: Cluster | None = None
        self._patience = _FIRST_PATIENCE_MS
        self._found = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kafka-monitor", daemon=True)
        self.cluster = ""
        self.looked = False
        self.partitions: frozenset[Partition] = frozenset()
        self.first: frozenset[Partition] = frozenset()
        self.ends: Mapping[Partition, int] = {}
        self.answers = False
        self.trouble: str | None = f"connecting to Kafka at {', '.join(addresses(config))}."
        self.failures: dict[str, int] = dict.fromkeys(REASONS, 0)
        self.failure: SourceError | None = None

    def start(self) -> None:
        """Begin to ask."""
        self._thread.start()

    def wait_for_partitions(self, seconds: float) -> None:
        """Wait until there are any, or something failed; no longer than that."""
        if not self.partitions:
            self._found.wait(seconds)

    def sleep(self, seconds: float) -> None:
        """Wait, but not beyond `stop`."""
        self._stopping.wait(seconds)

    def stop(self) -> None:
        """Stop asking; an attempt to connect that is under way ends by itself soon after."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout=2.0)

    def _run(self) -> None:
        while not self._stopping.is_set() and self.failure is None:
            self._try()
            self._stopping.wait(_PAUSE_SECONDS)
        self._disconnect()

    def _try(self) -> None:
        try:
            self._look()
        except SourceError as error:
            self._fail(error)
        except UNUSABLE as error:
            self._fail(unusable(error, self._config))
        except Exception as error:  # noqa: BLE001  were this thread to end, nobody would look again
            self.answers = False
            failure = failure_of(error, self._config)
            self.failures[failure.reason] += 1
            self.trouble = f"{failure}; still trying."
            self._disconnect()

    def _look(self) -> None:
        cluster = self._cluster or self._connect()
        self.cluster = self.cluster or cluster.identity()
        topics = cluster.topics(self._topics)
        self._refuse_recreated(topics)
        self.ends = cluster.offsets(topics.partitions, LATEST)
        if not self.looked:
            self.first = frozenset(topics.partitions)
        if not self.partitions.issuperset(topics.partitions):
            self.partitions |= frozenset(topics.partitions)
        self.trouble = topics.trouble
        self.looked = self.answers = True
        if self.partitions:
            self._found.set()

    def _connect(self) -> Cluster:
        """A fresh connection; each failed attempt is given more time, for a slow network."""
        patience = self._patience
        self._patience = min(2 * patience, _LAST_PATIENCE_MS)
        limits = {"bootstrap_timeout_ms": patience, "request_timeout_ms": _ANSWER_MS}
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
                    name, "was deleted and made again", "start anew; offsets begin at 0 again"
                )

    def _fail(self, error: SourceError) -> None:
        self.failure = error
        self._found.set()


class Stall(NamedTuple):
    """Stalled partitions, and what to try next.

    Attributes:
        remedy: go to the position once more, join the group once more, or give up.
        positions: where each of them stands.
    """

    remedy: Remedy
    positions: Mapping[Partition, int]


class _Standing(NamedTuple):
    position: int
    seconds: float
    tried: int


class Watchdog:
    """Notices partitions that do not advance although their logs grow.

    Only time counts in which the broker answers, and in which we look. A partition that goes
    further than before, or has come to its end, begins from nothing, its remedies too; one that is
    not ours for a while (we join once more) does not.

    `timeout`: seconds that a partition may stand before the next remedy; above 0.
    """

    def __init__(self, timeout: float, clock: Callable[[], float]) -> None:
        self._timeout = timeout
        self._clock = clock
        self._looked_at = clock()
        self._standing: dict[Partition, _Standing] = {}

    def look(
        self, positions: Mapping[Partition, int], ends: Mapping[Partition, int], *, answers: bool
    ) -> Stall | None:
        """What to do now; None where all is well, or only slow.

        `answers`: whether the broker did, lately.
        """
        now = self._clock()
        step = min(now - self._looked_at, _LONGEST_STEP) if answers else 0.0
        self._looked_at = now
        for partition, position in positions.items():
            if ends.get(partition, 0) > position:
                self._standing[partition] = self._longer(partition, position, step)
            else:
                self._standing.pop(partition, None)
        mine = {p: each for p, each in self._standing.items() if p in positions}
        due = {p: each for p, each in mine.items() if each.seconds >= self._timeout}
        return self._stall(due) if due else None

    def _longer(self, partition: Partition, position: int, step: float) -> _Standing:
        before = self._standing.get(partition)
        if before is None or position > before.position:
            return _Standing(position, 0.0, 0)
        return before._replace(seconds=before.seconds + step)

    def _stall(self, due: Mapping[Partition, _Standing]) -> Stall:
        """The furthest remedy that any of them is due; each is then given its time again."""
        tried = max(each.tried for each in due.values())
        for partition, each in due.items():
            self._standing[partition] = each._replace(seconds=0.0, tried=tried + 1)
        remedy = _REMEDIES[min(tried, len(_REMEDIES) - 1)]
        return Stall(remedy, {p: each.position for p, each in due.items()})
