"""A second look at the cluster, beside the reading: what there is, and how far it goes."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any, Final

from kafka.errors import KafkaError

from streameval.errors import SourceError
from streameval.records import Partition
from streameval.sources.kafka_client import UNUSABLE, addresses, explanation, unusable
from streameval.sources.kafka_cluster import Cluster, Topics
from streameval.sources.kafka_start import EARLIEST, LATEST, checked_positions, require_partitions

_PAUSE_SECONDS: Final = 1.0
_FIRST_PATIENCE_MS: Final = 1_000
_LAST_PATIENCE_MS: Final = 8_000
_ANSWER_MS: Final = 5_000
"""A broker that is silent for this long is in trouble; the reader itself waits as configured."""


class ClusterWatch:
    """A thread that asks the cluster once a second, over a connection of its own.

    So the reader learns of ends, new partitions and trouble without ever waiting for an answer.
    Each attribute is replaced as a whole, never changed in place.

    Attributes:
        starts: every partition found so far -> the offset at which its reading begins.
        ends: the offset after the last committed record of each partition, as last known.
        trouble: one sentence while something is not as it should be, else None.
        failure: what no waiting will mend, else None.

    Args:
        topics: which topics.
        config: settings of the client.
        start: EARLIEST, LATEST, or milliseconds since the epoch.
    """

    def __init__(self, topics: Sequence[str], config: Mapping[str, Any], start: int) -> None:
        self._topics = topics
        self._config = config
        self._start = start
        self._positions: Mapping[Partition, int] = {}
        self._identities: dict[str, str] = {}
        self._cluster: Cluster | None = None
        self._looked = False
        self._patience = _FIRST_PATIENCE_MS
        self._news = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kafka-watch", daemon=True)
        self.starts: Mapping[Partition, int] = {}
        self.ends: Mapping[Partition, int] = {}
        self.trouble: str | None = f"connecting to Kafka at {', '.join(addresses(config))}."
        self.failure: SourceError | None = None

    def begin(self, positions: Mapping[Partition, int]) -> None:
        """Begin to ask; partitions in `positions` start there, others where configured."""
        self._positions = positions
        self._thread.start()

    def await_starts(self, seconds: float) -> Mapping[Partition, int]:
        """`starts`, waited for where there are none yet."""
        if not self.starts:
            self._news.wait(seconds)
        return self.starts

    def pause(self, seconds: float) -> None:
        """Wait, but not beyond the end."""
        self._stopping.wait(seconds)

    def end(self) -> None:
        """Stop asking; an attempt to connect that is under way ends by itself soon after."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout=2.0)

    def _run(self) -> None:
        while not self._stopping.is_set() and self.failure is None:
            self._look_safely()
            self._stopping.wait(_PAUSE_SECONDS)
        self._disconnect()

    def _look_safely(self) -> None:
        try:
            self._look()
        except SourceError as error:
            self._fail(error)
        except UNUSABLE as error:
            self._fail(unusable(error, self._config))
        except (KafkaError, OSError) as error:
            self.trouble = f"{explanation(error, self._config)}; still trying."
            self._disconnect()

    def _look(self) -> None:
        cluster = self._cluster or self._connect()
        topics = cluster.topics(self._topics)
        self._refuse_replaced(topics)
        require_partitions(self._positions, topics.partitions, topics.identities)
        ends = cluster.offsets(topics.partitions, LATEST)
        found = [partition for partition in topics.partitions if partition not in self.starts]
        if found:
            first = self._first_offsets(cluster, found, ends)
            self.starts = {**self.starts, **first}
            self._news.set()
        self._looked, self.ends, self.trouble = True, ends, topics.trouble

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

    def _first_offsets(
        self, cluster: Cluster, found: Sequence[Partition], ends: Mapping[Partition, int]
    ) -> dict[Partition, int]:
        """Where reading begins in partitions that were not known before."""
        begins = cluster.offsets(found, EARLIEST)
        # What appears while we watch is new as a whole: even "latest" reads it from its beginning.
        spec = EARLIEST if self._looked and self._start == LATEST else self._start
        at = begins if spec == EARLIEST else cluster.offsets(found, spec)
        configured = {p: ends[p] if at[p] < 0 else at[p] for p in found}
        return {**configured, **checked_positions(self._positions, begins, ends)}

    def _refuse_replaced(self, topics: Topics) -> None:
        for name, identity in topics.identities.items():
            if self._identities.setdefault(name, identity) != identity:
                raise SourceError(
                    name, "was deleted and made again", "start anew; offsets begin at 0 again"
                )

    def _fail(self, error: SourceError) -> None:
        self.failure = error
        self._news.set()
