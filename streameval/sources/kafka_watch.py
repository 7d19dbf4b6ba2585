"""A second look at the cluster, beside the reading: what there is, and how far it goes."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any, Final

from kafka.errors import KafkaError

from streameval.errors import SourceError
from streameval.records import Assignment, Partition
from streameval.sources.kafka_assignments import assignments
from streameval.sources.kafka_client import UNUSABLE, addresses, explanation, unusable
from streameval.sources.kafka_cluster import Cluster, Topics
from streameval.sources.kafka_start import LATEST

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
        found: every partition so far, as it was when it was found.
        cluster: its id; empty before the first look.
        looked: whether the cluster has answered once.
        first: those of them that were there at the first look.
        ends: the offset after the last committed record of each partition, as last known.
        answers: whether the cluster did, the last time.
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
        self._identities: dict[str, str] = {}
        self._cluster: Cluster | None = None
        self._patience = _FIRST_PATIENCE_MS
        self._news = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kafka-watch", daemon=True)
        self.found: Mapping[Partition, Assignment] = {}
        self.cluster = ""
        self.looked = False
        self.first: frozenset[Partition] = frozenset()
        self.ends: Mapping[Partition, int] = {}
        self.answers = False
        self.trouble: str | None = f"connecting to Kafka at {', '.join(addresses(config))}."
        self.failure: SourceError | None = None

    def begin(self) -> None:
        """Begin to ask."""
        self._thread.start()

    def await_found(self, seconds: float) -> Mapping[Partition, Assignment]:
        """`found`, waited for where nothing was found yet."""
        if not self.found:
            self._news.wait(seconds)
        return self.found

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
            self.answers = False
            self.trouble = f"{explanation(error, self._config)}; still trying."
            self._disconnect()

    def _look(self) -> None:
        cluster = self._cluster or self._connect()
        self.cluster = self.cluster or cluster.identity()
        topics = cluster.topics(self._topics)
        self._refuse_replaced(topics)
        new = [partition for partition in topics.partitions if partition not in self.found]
        first = self.first if self.looked else frozenset(new)
        ends = cluster.offsets(topics.partitions, LATEST)
        described = assignments(cluster, topics, new, self._start, old=first)
        self.first = first
        self.found = {**self.found, **{each.partition: each for each in described}}
        self.ends, self.trouble = ends, topics.trouble
        self.looked = self.answers = True
        if self.found:
            self._news.set()

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

    def _refuse_replaced(self, topics: Topics) -> None:
        for name, identity in topics.identities.items():
            if self._identities.setdefault(name, identity) != identity:
                raise SourceError(
                    name, "was deleted and made again", "start anew; offsets begin at 0 again"
                )

    def _fail(self, error: SourceError) -> None:
        self.failure = error
        self._news.set()
