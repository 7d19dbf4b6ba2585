"""All statistics with the input that each counts, for laws that hold for all of them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from streameval.events import Batch, Event, Id, columns_of
from streameval.statistics.distributions import Values, ValuesOptions
from streameval.statistics.exposures import ExposuresOptions, ItemsShown
from streameval.statistics.hits import Hits
from streameval.statistics.lists import HitsOptions
from streameval.statistics.pairings import ItemPairings, PairingsOptions
from streameval.statistics.placements import ItemPlacements, PlacementsOptions
from streameval.statistics.scores import (
    RankSumsOfLists,
    RankSumsOptions,
    ScoredItems,
    ScoresOptions,
)
from streameval.statistics.statistic import Statistic
from streameval.statistics.vocabulary import Items
from tests.strategies import WORDS, gains, lists

Valued = tuple[float, int]
"""A value and its count."""

Piece = tuple[int, Any]
"""A cell and the input counted there."""


@dataclass(frozen=True)
class Kind:
    """make: an empty one; unlike: one that must not be mixed with it; piece: what it counts;
    count: how, in a cell.
    """

    name: str
    make: Callable[[], Statistic]
    unlike: Callable[[], Statistic]
    piece: SearchStrategy[Any]
    count: Callable[[Any, int, Any], None]

    def counted(self, pieces: Iterable[Piece]) -> Any:
        statistic = self.make()
        for cell, piece in pieces:
            self.count(statistic, cell, piece)
        return statistic


def state(statistic: Statistic) -> bytes:
    """The content of a statistic, with items by name."""
    statistic.reduce()
    rows_by_table = {}
    for name, relation in statistic.relations.items():
        rows: list[list[Any]] = relation.rows()
        if relation.shape.items is not None:
            for row in rows:
                item: Id = statistic.items.names[row[relation.shape.items]]
                row[relation.shape.items] = [type(item).__name__, item]
            rows.sort(key=repr)
        rows_by_table[name] = rows
    return json.dumps(rows_by_table).encode()


def batch(*events: Event) -> Batch:
    return columns_of(list(events))


def _put(statistic: Values, cell: int, piece: Valued) -> None:
    value, count = piece
    statistic.add(np.array([cell]), np.array([value]), np.array([count]))


def _wait(statistic: Values, cell: int, piece: Event) -> None:
    """A value, which may be left out, infinite or undefined."""
    shown, interactions = len(piece.recommendations), len(piece.interactions)
    ratio = shown / interactions if interactions else math.inf if shown % 2 else math.nan
    statistic.add_events(np.array([cell]), [ratio if shown else None])


def _count(statistic: Statistic, cell: int, piece: Event) -> None:
    statistic.count(batch(piece), cell)


finite = st.floats(allow_nan=False, allow_infinity=False)
valued = st.tuples(finite, st.integers(1, 2**31))
events = lists(WORDS, gains)
graded = HitsOptions(repeats="every", min_gain=0.5)


def _of(made: Any, options: Any) -> Callable[[], Statistic]:
    def empty() -> Statistic:
        statistic: Statistic = made(options, Items())
        return statistic

    return empty


def _placements(by: str) -> Callable[[], Statistic]:
    def empty() -> Statistic:
        statistic = ItemPlacements(PlacementsOptions(by=by), Items())
        statistic.kinds_of = lambda item: (str(item)[-1:], "all")
        return statistic

    return empty


def _kind(name: str, made: Any, options: Any, unlike: Any) -> Kind:
    return Kind(name, _of(made, options), _of(made, unlike), events, _count)


def _values(name: str, cap: int, unlike: int) -> Kind:
    options, other = ValuesOptions(cap=cap), ValuesOptions(cap=unlike)
    return Kind(name, _of(Values, options), _of(Values, other), valued, _put)


KINDS = (
    _kind("hits", Hits, HitsOptions(depth=5), graded),
    _kind("hits of gains", Hits, graded, HitsOptions()),
    _kind("exposures", ItemsShown, ExposuresOptions(), ExposuresOptions(cutoff=3)),
    _kind("users", ItemsShown, ExposuresOptions(of="users"), ExposuresOptions()),
    _kind(
        "exposures above max_items",
        ItemsShown,
        ExposuresOptions(cutoff=3, max_items=3),
        ExposuresOptions(cutoff=3),
    ),
    _values("values", 65_536, 3),
    _values("values above the cap", 3, 65_536),
    Kind(
        "values of events",
        _of(Values, ValuesOptions()),
        _of(Values, ValuesOptions(cap=3)),
        events,
        _wait,
    ),
    _kind("scores", ScoredItems, ScoresOptions(), ScoresOptions(single=True)),
    _kind("scores above the cap", ScoredItems, ScoresOptions(cap=3), ScoresOptions()),
    _kind(
        "rank sums",
        RankSumsOfLists,
        RankSumsOptions(),
        RankSumsOptions(positive="one"),
    ),
    Kind("placements", _placements("kind"), _placements("other"), events, _count),
    _kind("pairings", ItemPairings, PairingsOptions(cutoff=3), PairingsOptions()),
    _kind("pairings above max_rows", ItemPairings, PairingsOptions(max_rows=3), PairingsOptions()),
)
