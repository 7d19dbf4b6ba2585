"""Running statistics of one slice of events, and the metrics asked of them."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any

from streameval.answers import answer, check_inputs
from streameval.catalogue import parse
from streameval.errors import MetricError, NoHitsWarning, StateVersionError, UnlikeStateError
from streameval.events import Batch, Event, Id, Interactions, plain
from streameval.evidence import Evidence
from streameval.intake import COLLECTIONS, LISTS, Pair, columns, event
from streameval.metric import Catalog, Metric
from streameval.plan import planned
from streameval.reading import Reading
from streameval.statistics.exposures import MAX_ITEMS

VERSION = 1
_SUSPICIOUS = 10_000
"""So many lists with interactions and not one hit: the ids are probably of two kinds."""


class Accumulator:
    """Consumes events one at a time and gives the online value of every metric.

    The state is integers only and a function of the multiset of events: any order, any split
    over accumulators that are merged, and any save and load give the same bits.

    Args:
        metrics: for example "ndcg@10", "recbole:map@10", "rbp(p=0.8)@10"; at least one.
        catalog: how many items there are, or their ids; needed by item_coverage.
        depth: ranks kept; by default the largest cut-off asked for, or whole lists where a
            metric has none.
        max_items: most distinct items counted exactly for coverage; beyond it is estimated.

    Raises:
        MetricError: a metric cannot be understood, or lacks its inputs.

    Example:
        >>> accumulator = Accumulator("hit_rate@2", "mrr")
        >>> accumulator.update(["a", "b", "c"], {"b"})
        >>> accumulator.update(["a", "b", "c"], ["z"])
        >>> {text: reading.value for text, reading in accumulator.compute().items()}
        {'hit_rate@2': 0.5, 'mrr': 0.25}
    """

    def __init__(
        self,
        *metrics: str,
        catalog: int | Collection[Id] | None = None,
        depth: int | None = None,
        max_items: int = MAX_ITEMS,
    ) -> None:
        self.metrics: tuple[Metric, ...] = tuple(dict.fromkeys(map(parse, metrics)))
        self.catalog: Catalog | None = _catalog(catalog)
        for metric in self.metrics:
            check_inputs(metric, self.catalog)
        self._plan = planned(self.metrics, depth, max_items)
        self._evidence = Evidence(self._plan)
        self._readings: dict[str, Reading] = {}
        self.version = 0
        self.lists = 0

    def update(
        self,
        recommendations: Sequence[Id],
        interactions: Interactions,
        positions: Sequence[int] | None = None,
    ) -> None:
        """Count one list with its outcome.

        Args:
            recommendations: item ids as shown, rank 1 first.
            interactions: ids of the items interacted with, or item id -> gain.
            positions: rank (from 1) of each item; None means 1, 2, 3, ...

        Raises:
            InvalidEventError: it is not a valid event; nothing was counted.
        """
        plain = type(recommendations) in LISTS and type(interactions) in COLLECTIONS
        if positions is not None or not plain:
            row = event(recommendations, interactions, positions)
            recommendations, interactions, positions = row
        for statistic in self._evidence.statistics:
            statistic.update(recommendations, interactions, positions)
        self.lists += 1
        self.version += 1
        self._readings.clear()

    def update_many(self, batch: Batch | Iterable[Event] | Iterable[Pair]) -> None:
        """Count many lists: the same bits as one by one, faster.

        Args:
            batch: Events, (recommendations, interactions) pairs, or their columns.

        Raises:
            InvalidEventError: one is not a valid event; nothing was counted.
        """
        checked = columns(batch)
        self._evidence.update_many(checked)
        self._touch(len(checked))

    def read(self, metric: str) -> Reading:
        """One metric now: any that the statistics kept can answer, not only those named.

        Returns:
            Its value with evidence; NaN without evidence.

        Raises:
            MetricError: it cannot be understood or answered.
        """
        found = self._readings.get(metric)
        if found is None:
            found = answer(parse(metric), self._evidence, self.catalog)
            self._readings[metric] = found
        return found

    def compute(self) -> dict[str, Reading]:
        """Every metric named at the start, by its canonical text."""
        advice = self.advice()
        if advice is not None:
            warnings.warn(advice, NoHitsWarning, stacklevel=2)
        return {metric.text: self.read(metric.text) for metric in self.metrics}

    def advice(self) -> str | None:
        """A sentence when the events look as if the two lists held ids of different kinds."""
        for hits in self._evidence.hits.values():
            tables = hits.tables()
            engaged = tables.count - tables.without_interactions
            if engaged >= _SUSPICIOUS and not tables.hits:
                return (
                    f"{engaged:,} lists with interactions and not one hit: do recommendations "
                    "and interactions name items in the same way?"
                )
        return None

    def merge(self, other: Accumulator) -> None:
        """Add what another accumulator counted: the same bits as if this one had seen it all.

        Raises:
            UnlikeStateError: it was made with other metrics, depth, caps or catalogue.
        """
        if _identity(self.catalog) != _identity(other.catalog):
            raise UnlikeStateError("catalog", _identity(self.catalog), _identity(other.catalog))
        self._evidence.merge(other._evidence)
        self._touch(other.lists)

    def reset(self) -> None:
        """Forget everything counted."""
        self._evidence = Evidence(self._plan)
        self._touch(-self.lists)

    def copy(self) -> Accumulator:
        """An independent accumulator with the same content."""
        twin = self._empty()
        twin.merge(self)
        return twin

    def state_dict(self) -> dict[str, Any]:
        """Everything counted as plain integers and strings; equal content gives equal state."""
        return {
            "version": VERSION,
            "metrics": [metric.text for metric in self.metrics],
            "depth": self._plan.depth,
            "catalog": _identity(self.catalog),
            "lists": self.lists,
            **self._evidence.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take the place of the content by what `state_dict` gave.

        Raises:
            StateVersionError: this release does not know the version.
            UnlikeStateError: it was made with other metrics, depth, caps or catalogue.
        """
        if state.get("version") != VERSION:
            raise StateVersionError("accumulator", state.get("version"), VERSION)
        if state["catalog"] != _identity(self.catalog):
            raise UnlikeStateError("catalog", _identity(self.catalog), state["catalog"])
        fresh = Evidence(self._plan)
        fresh.load_state_dict(state)
        self._evidence = fresh
        self._touch(state["lists"] - self.lists)

    def _touch(self, lists: int) -> None:
        self.lists += lists
        self.version += 1
        self._readings.clear()

    def _empty(self) -> Accumulator:
        twin = object.__new__(Accumulator)
        twin.metrics, twin.catalog, twin._plan = self.metrics, self.catalog, self._plan
        twin._evidence = Evidence(self._plan)
        twin._readings, twin.version, twin.lists = {}, 0, 0
        return twin


def _catalog(given: Any) -> Catalog | None:
    if given is None:
        return None
    if isinstance(given, (str, bytes)) or not isinstance(given, (int, Collection)):
        raise MetricError(f"catalog={given!r:.80}: give how many items there are, or their ids")
    if (given if isinstance(given, int) else len(given)) < 1:
        raise MetricError(f"catalog={given!r}: a catalogue has at least one item")
    return given if isinstance(given, int) else frozenset(given)


def _identity(catalog: Catalog | None) -> int | str | None:
    if not isinstance(catalog, frozenset):
        return catalog
    digest = blake2b(digest_size=16)
    for item in sorted(f"{type(item).__name__}:{item}" for item in map(plain, catalog)):
        digest.update(f"{len(item)}:{item}".encode("utf-8", "surrogatepass"))
    return f"{len(catalog)} items, blake2b {digest.hexdigest()}"
