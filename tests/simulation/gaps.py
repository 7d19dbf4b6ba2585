"""Gaps of rare clicks: 40 equal values have none, and one that is far worse is found."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from streameval.accumulator.objections import SliceSums
from streameval.analyses.gaps.statistics import Gap, gap_of
from streameval.analyses.gaps.words import gap_text
from streameval.catalogue import parse
from streameval.statistics.intervals import GroupSums, Intervals
from tests.simulation.bars import GROUPS, Bar, at_least, at_most

VALUES: Final = 40


class RareClicks(NamedTuple):
    """A world of values of 200 to 20,000 users who seldom click.

    Attributes:
        rate: clicks of a list.
        visits: mean number of lists of a user.
        worst: the rate of a value in the middle, by that of the others.
    """

    rate: float
    visits: float
    worst: float = 1.0

    def gap(self, seed: int) -> Gap:
        """The gap of one look."""
        draw = np.random.default_rng([seed, 48])
        users = np.geomspace(200, 20_000, VALUES).astype(np.int64)
        values = {}
        for number, size in enumerate(users.tolist()):
            rate = self.rate * (self.worst if number == 3 * VALUES // 4 else 1.0)
            group = draw.integers(0, GROUPS, size)
            lists = 1 + draw.poisson(self.visits - 1.0, size)
            # The taste of users varies by half of its mean.
            clicks = draw.poisson(lists * rate * draw.gamma(4.0, 0.25, size))
            x, n = (np.bincount(group, part, GROUPS)[None] for part in (clicks, lists))
            sums = GroupSums(np.array([0]), x.astype(np.float64), n.astype(np.int64))
            values[f"v{number:02}"] = SliceSums(sums, None)
        return gap_of(parse("ctr"), values, Intervals(), "fixed")


WORLDS: Final = {
    "ctr 0.3 %": RareClicks(0.003, 3.0),
    "ctr 0.2 %": RareClicks(0.002, 3.0),
    "ctr 0.1 %, 1.5 visits": RareClicks(0.001, 1.5),
}


def differs(found: Gap) -> bool:
    """Whether the gap says that values surely differ."""
    return (found.low or 0.0) > 0.0


def bars(seed: int, runs: int) -> Iterator[Bar]:
    """The promises about gaps of rare clicks."""
    for name, world in WORLDS.items():
        gaps = [world.gap(seed * 100_000 + run) for run in range(runs)]
        differing = [differs(gap) for gap in gaps]
        yield at_most(f"{VALUES} equal values, {name}: said to differ", 0.05, differing)
        words = [not gap_text(gap).endswith("which may be chance.") for gap in gaps]
        yield at_most(f"{VALUES} equal values, {name}: a sentence says so", 0.05, words)
    common = WORLDS["ctr 0.3 %"]._replace(worst=0.4)
    differing = [differs(common.gap(seed * 100_000 + run)) for run in range(runs)]
    yield at_least(f"{VALUES} values, one of 0.4 times the ctr: found", 0.8, differing)
