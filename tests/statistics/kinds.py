"""The statistics there are, each with what it counts, for laws that hold for all of them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from streameval.events import Batch, Event
from streameval.statistics.cells import Cells
from streameval.statistics.distributions import Distribution
from streameval.statistics.exact import ExactSum
from streameval.statistics.exposures import Exposures, ExposuresOptions
from streameval.statistics.hits import Hits
from streameval.statistics.pairings import Pairings, PairingsOptions
from streameval.statistics.profiles import HitsOptions
from streameval.statistics.ranksums import RankSums, RankSumsOptions
from streameval.statistics.samples import Sampling
from streameval.statistics.scores import Scores, ScoresOptions
from streameval.statistics.values import Values
from tests.metrics.preparation import Shown
from tests.strategies import WORDS, gains, lists

Valued = tuple[float, int]
"""A value and how often it came."""

Cell = tuple[int, int, int]
"""Two keys and a count."""


@dataclass(frozen=True)
class Kind:
    """make: an empty one; unlike: one that must not be mixed with it, None where all are alike;
    piece: what it counts; count: how; state: its content as plain data.
    """

    name: str
    make: Callable[[], Any]
    unlike: Callable[[], Any] | None
    piece: SearchStrategy[Any]
    count: Callable[[Any, Any], None]
    state: Callable[[Any], Any]

    def counted(self, pieces: Iterable[Any]) -> Any:
        statistic = self.make()
        for piece in pieces:
            self.count(statistic, piece)
        return statistic

    def bytes(self, statistic: Any) -> bytes:
        return json.dumps(self.state(statistic)).encode()


def dumped(statistic: Any) -> bytes:
    """All pieces of a dump together."""
    several = isinstance(statistic, Values)
    return b"".join(statistic.dump("ratio") if several else statistic.dump())


def adopt(statistic: Any, saved: bytes) -> None:
    """Load what was dumped."""
    if isinstance(statistic, Values):
        statistic.adopt("ratio", saved)
    else:
        statistic.adopt(saved)


def _add(statistic: Distribution | ExactSum, piece: Valued) -> None:
    statistic.add(np.array([piece[0]]), np.array([piece[1]]))


def _add_cell(cells: Cells, piece: Cell) -> None:
    first, second, count = piece
    cells.add([np.array([first]), np.array([second])], [np.array([count])])


def _update(statistic: Hits | Exposures, piece: Shown) -> None:
    statistic.update(*piece[:3])


def _update_many(
    statistic: Scores | RankSums | Pairings | Values | Exposures, piece: Shown
) -> None:
    statistic.update_many(
        Batch(
            recommendations=[piece.recommendations],
            interactions=[piece.interactions],
            positions=[piece.positions] if piece.positions else None,
            scores=[piece.scores],
            users=[piece.user],
        )
    )


def _ratio(event: Event) -> float | None:
    """A value that may be left out, infinite or undefined."""
    shown, acts = len(event.recommendations), len(event.interactions)
    if not shown:
        return None
    return shown / acts if acts else math.inf if shown % 2 else math.nan


def _state(statistic: Any) -> Any:
    return statistic.state_dict()


finite = st.floats(allow_nan=False, allow_infinity=False)
valued = st.tuples(finite, st.integers(1, 2**31))
events = lists(WORDS, gains)
cell = st.tuples(st.integers(0, 3), st.integers(0, 5), st.integers(1, 2**53))
graded = HitsOptions(repeats="every", min_gain=0.5)
hit_users = ExposuresOptions(cutoffs=(1, 3), whole=True, max_items=3, of="users_with_hits")
thinned = ExposuresOptions(cutoffs=(1, 3), whole=True, max_items=6)

KINDS = (
    Kind("hits", lambda: Hits(HitsOptions(depth=5)), lambda: Hits(graded), events, _update, _state),
    Kind(
        "hits of gains", lambda: Hits(graded), lambda: Hits(HitsOptions()), events, _update, _state
    ),
    Kind(
        "exposures",
        lambda: Exposures(ExposuresOptions(cutoffs=(1, 3), whole=True)),
        lambda: Exposures(ExposuresOptions(cutoffs=(1,), whole=True)),
        events,
        _update,
        _state,
    ),
    Kind(
        "exposures above max_items",
        lambda: Exposures(thinned),
        lambda: Exposures(ExposuresOptions(cutoffs=(1, 3), whole=True)),
        events,
        _update,
        _state,
    ),
    Kind(
        "users with hits above max_items",
        lambda: Exposures(hit_users),
        lambda: Exposures(ExposuresOptions(cutoffs=(1, 3), whole=True, max_items=3, of="users")),
        events,
        _update_many,
        _state,
    ),
    Kind("distribution", Distribution, lambda: Distribution(cap=3), valued, _add, _state),
    Kind(
        "distribution above its cap",
        lambda: Distribution(cap=3),
        Distribution,
        valued,
        _add,
        _state,
    ),
    Kind(
        "scores",
        lambda: Scores(ScoresOptions()),
        lambda: Scores(ScoresOptions(sampling=Sampling(single=True))),
        events,
        _update_many,
        _state,
    ),
    Kind(
        "scores above the cap",
        lambda: Scores(ScoresOptions(cap=3)),
        lambda: Scores(ScoresOptions()),
        events,
        _update_many,
        _state,
    ),
    Kind(
        "rank sums",
        lambda: RankSums(RankSumsOptions()),
        lambda: RankSums(RankSumsOptions(sampling=Sampling(positive="one"))),
        events,
        _update_many,
        _state,
    ),
    Kind(
        "pairings",
        lambda: Pairings(PairingsOptions(cutoff=3)),
        lambda: Pairings(PairingsOptions()),
        events,
        _update_many,
        _state,
    ),
    Kind(
        "pairings above max_cells",
        lambda: Pairings(PairingsOptions(max_cells=3)),
        lambda: Pairings(PairingsOptions()),
        events,
        _update_many,
        _state,
    ),
    Kind(
        "values of events",
        lambda: Values({"ratio": _ratio}),
        lambda: Values({"another": _ratio}),
        events,
        _update_many,
        _state,
    ),
    Kind("exact sum", ExactSum, None, valued, _add, lambda total: hex(total.scaled)),
    Kind(
        "cells", lambda: Cells(keys=2, counts=1), None, cell, _add_cell, lambda cells: cells.rows()
    ),
)
