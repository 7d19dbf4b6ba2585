"""The formulas by plain loops and integrals, to 1e-9."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import NormalDist, median
from typing import NamedTuple

import pytest

from streameval.inference.interval_formulas import log_evidence
from tests.changes.test_golden import ALARM, PRECISION, e_value, golden, golden_sums, z_value

WEEKS = 2

Cells = Sequence[Sequence[float]]
"""By day and group."""


class TwinShift(NamedTuple):
    effect: float
    error: float
    freedom: float


def mean(values: Cells, lists: Cells, days: Sequence[int], without: int = -1) -> float:
    total = [
        sum(cell for group, cell in enumerate(cells[day]) if group != without)
        for cells in (values, lists)
        for day in days
    ]
    return sum(total[: len(days)]) / sum(total[len(days) :])


def reference(day: int, before: int) -> list[int]:
    return [other for other in range(before) if other % 7 == day % 7][-WEEKS:]


def weights(lists: Cells, tau: int, days: range) -> list[float]:
    whole = [sum(row) for row in lists]
    sizes = [
        1 / (1 / whole[day] + 1 / sum(whole[other] for other in reference(day, tau)))
        for day in days
    ]
    return [size / sum(sizes) for size in sizes]


def moves(values: Cells, lists: Cells, days: Sequence[int]) -> list[float]:
    """What leaving out each group takes from a mean."""
    whole = mean(values, lists, days)
    return [whole - mean(values, lists, days, group) for group in range(len(values[0]))]


def by_users(values: Cells, lists: Cells, tau: int) -> TwinShift:
    days, groups = range(tau, len(values)), len(values[0])
    shares = weights(lists, tau, days)
    means, apart, squares = [], [], []
    for places in ([[day] for day in days], [reference(day, tau) for day in days]):
        pairs = list(zip(shares, places, strict=True))
        means.append(sum(share * mean(values, lists, place) for share, place in pairs))
        rows = [moves(values, lists, place) for place in places]
        apart.append(
            [sum(w * row[g] for w, row in zip(shares, rows, strict=True)) for g in range(groups)]
        )
        parts = [
            sum(w * sum(lists[d][g] for d in p) / sum(sum(lists[d]) for d in p) for w, p in pairs)
            for g in range(groups)
        ]
        squares.append(sum(part**2 for part in parts))
    relative = [apart[0][g] / means[0] - apart[1][g] / means[1] for g in range(groups)]
    variance = (groups - 1) / groups * sum(move**2 for move in relative)
    effect = math.log(means[0] / means[1])
    return TwinShift(effect, math.sqrt(variance), 1 / max(squares) - 1)


def by_days(values: Cells, lists: Cells, tau: int) -> tuple[float, float]:
    """The variance of a day's logarithm, and its degrees of freedom."""
    logs, chance = [], []
    for day in range(7, tau):
        here, there = (moves(values, lists, [at]) for at in (day, day - 7))
        now, then = (mean(values, lists, [at]) for at in (day, day - 7))
        logs.append(math.log(now / then))
        groups = len(here)
        apart = [a / now - b / then for a, b in zip(here, there, strict=True)]
        chance.append((groups - 1) / groups * sum(move**2 for move in apart))
    rests = [log - median(logs) for log in logs]
    spread = (1.4826 * median([abs(rest) for rest in rests])) ** 2
    pairs = pairwise(rests)
    alike = sum(a * b for a, b in pairs) / sum(rest**2 for rest in rests)
    alike = min(max(alike, 0.0), 0.8)
    variance = max(0.0, (spread - median(chance)) / 2) * (1 + alike) / (1 - alike)
    return variance, 0.37 * len(logs)


def day_squares(lists: Cells, tau: int) -> float:
    days = range(tau, len(lists))
    shares = weights(lists, tau, days)
    parts = [0.0] * len(lists)
    for share, day in zip(shares, days, strict=True):
        parts[day] += share
        others = reference(day, tau)
        total = sum(sum(lists[other]) for other in others)
        for other in others:
            parts[other] -= share * sum(lists[other]) / total
    return sum(part**2 for part in parts)


def whole(values: Cells, lists: Cells, tau: int) -> TwinShift:
    users = by_users(values, lists, tau)
    variance, freedom = by_days(values, lists, tau)
    days = variance * day_squares(lists, tau)
    both = users.error**2 + days
    spread = users.error**4 / users.freedom + days**2 / freedom
    return TwinShift(users.effect, math.sqrt(both), min(users.freedom, both**2 / spread))


def z_of(shift: TwinShift, tolerate: float) -> float:
    t = max(0.0, -shift.effect - tolerate) / shift.error
    return -NormalDist().inv_cdf(student_tail(t, shift.freedom))


def student_tail(t: float, freedom: float, steps: int = 4_000) -> float:
    """The chance to exceed t, by Simpson's rule over the angle whose tangent is t/sqrt(freedom)."""
    start = math.atan(t / math.sqrt(freedom))
    step = (math.pi / 2 - start) / steps
    heights = [math.cos(start + at * step) ** (freedom - 1) for at in range(steps)]
    area = sum((4 if at % 2 else 2) * height for at, height in enumerate(heights)) - heights[0]
    scale = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)
    return float(math.exp(scale) / math.sqrt(math.pi) * area * step / 3)


@pytest.mark.parametrize("after", [17, 20])
@pytest.mark.parametrize("moved", [0.0, 0.03])
def test_a_shift_is_that_of_plain_loops_to_the_ninth_digit(after: int, moved: float) -> None:
    sums = golden_sums(after)
    scale = [[math.exp(moved * math.sin(day * day))] for day in range(28)]
    sums = sums._replace(numerators=sums.numerators * scale)
    values, lists = sums.numerators.tolist(), sums.denominators.tolist()
    for shift in golden(after, sums).latest():
        twin = whole(values, lists, shift.day)
        assert shift.effect == pytest.approx(twin.effect, rel=1e-9)
        assert shift.error == pytest.approx(twin.error, rel=1e-9)
        assert shift.freedom == pytest.approx(twin.freedom, rel=1e-9)
        z = z_of(twin, 0.01)
        assert z_value(shift, 0.01) == pytest.approx(z, rel=1e-9, abs=1e-9)
        e = math.exp(log_evidence(z, 1 / ALARM, twin.error / PRECISION))
        assert e_value(shift, 0.01) == pytest.approx(e, rel=1e-8)
