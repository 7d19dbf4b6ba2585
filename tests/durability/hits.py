"""The smallest accumulator of which readings can be taken; quick, so that many schedules are."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from streameval.catalogue import parse
from streameval.events import Batch
from streameval.metric import Metric
from streameval.reading import Reading

METRIC = "hit_rate@1"


class Hits:
    """Counts lists, and those whose first item was interacted with."""

    metrics: tuple[Metric, ...] = (parse(METRIC),)

    def __init__(self) -> None:
        self.version = self.lists = self.hits = 0

    def update_many(self, batch: Batch) -> None:
        pairs = zip(batch.recommendations, batch.interactions, strict=True)
        self._add(len(batch), sum(shown[0] in had for shown, had in pairs))

    def merge(self, other: Hits) -> None:
        self._add(other.lists, other.hits)

    def copy(self) -> Hits:
        twin = Hits()
        twin.merge(self)
        return twin

    def dump(self) -> Iterator[bytes]:
        yield msgspec.msgpack.encode([self.lists, self.hits])

    def adopt(self, data: bytes) -> frozenset[str]:
        self.lists, self.hits = msgspec.msgpack.decode(data, type=tuple[int, int])
        self.version += 1
        return frozenset()

    def read(self, metric: str) -> Reading:
        value = self.hits / self.lists if self.lists else float("nan")
        return Reading(
            metric=metric, value=value, count=self.lists, lists=self.lists, total=float(self.hits)
        )

    def needs(self, metric: str | Metric) -> frozenset[str]:  # noqa: ARG002  there is one only
        return frozenset({"hits"})

    def advice(self) -> str | None:
        return None

    def _add(self, lists: int, hits: int) -> None:
        self.lists += lists
        self.hits += hits
        self.version += 1
