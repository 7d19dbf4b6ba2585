"""Worlds of users over days: how days move, how users come and go, and what falls, and when."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from streameval.analyses.changes.report import WEEKS, ChangeSettings
from streameval.analyses.changes.statistics import (
    Look,
    Traffic,
    WatchedSeries,
    WatchedSlice,
    judge_changes,
    look,
)
from streameval.statistics.intervals import GroupSums

GROUPS = 256


class DailyWorld(NamedTuple):
    """How a slice behaves, besides its users.

    Attributes:
        lists: a day.
        moves: standard deviation of the logarithm of a day.
        alike: autocorrelation of days.
        tail: degrees of freedom of the moves; 0 for normal ones.
        fall: relative change from the day `at` on, to the day before `ends`.
        decay: relative change a day from the day `at` on.
        stays: days for which a user comes; 0 for good.
        ctr: mean click rate.
    """

    days: int = 70
    lists: int = 5_200
    moves: float = 0.015
    alike: float = 0.0
    tail: int = 0
    at: int = 10_000
    ends: int = 10_000
    fall: float = 0.0
    decay: float = 0.0
    stays: int = 0
    ctr: float = 0.1
    users: int = 1_500


def common_moves(random: np.random.Generator, world: DailyWorld) -> list[float]:
    """The logarithm of each day, which all slices of a world may share."""
    log, logs = 0.0, []
    for _ in range(world.days):
        shock = random.normal()
        if world.tail:
            scale = math.sqrt(world.tail / (world.tail - 2))
            shock = random.standard_t(world.tail) / scale
        log = world.alike * log + math.sqrt(1.0 - world.alike**2) * world.moves * shock
        logs.append(log)
    return logs


def sums_of(
    random: np.random.Generator, world: DailyWorld, moves: Sequence[float] | None = None
) -> GroupSums:
    """The sums of a slice by day and group."""
    moves = common_moves(random, world) if moves is None else moves
    weights = random.pareto(2.0, world.users) + 0.2
    rates = random.beta(5.0, 45.0, world.users) * world.ctr / 0.1
    groups = random.integers(0, GROUPS, world.users)
    begins = random.integers(-max(world.stays, 1), world.days, world.users)
    values = np.zeros((world.days, GROUPS))
    lists = np.zeros((world.days, GROUPS), np.int64)
    for day in range(world.days):
        factor = math.exp(moves[day]) * (1.08 if day % 7 >= 5 else 1.0)
        if world.at <= day < world.ends:
            factor *= (1.0 + world.fall) * (1.0 + world.decay) ** (day - world.at + 1)
        here = weights
        if world.stays:
            here = np.where((begins <= day) & (day < begins + world.stays), weights, 0.0)
        season = 1.0 + 0.1 * math.sin(2 * math.pi * day / 7)
        impressions = random.poisson(world.lists * season * here / here.sum())
        clicked = random.binomial(impressions, np.clip(rates * factor, 0.0, 1.0))
        values[day] = np.bincount(groups, clicked, GROUPS)
        lists[day] = np.bincount(groups, impressions, GROUPS).astype(np.int64)
    return GroupSums(np.arange(world.days), values, lists)


def series_of(
    sums: GroupSums, other: GroupSums | None = None, name: str | None = None
) -> WatchedSeries:
    """A series of these sums."""
    lists = sums.denominators.sum(axis=1)
    some = lists > 0
    return WatchedSeries(
        "ctr",
        name,
        WEEKS if other is None else "others",
        higher_is_better=True,
        arm=WatchedSlice(sums),
        other=None if other is None else WatchedSlice(other),
        traffic=Traffic(sums.days[some], lists[some], np.zeros_like(lists[some])),
    )


def together(*parts: GroupSums) -> GroupSums:
    """The sums of several slices of the same days."""
    return GroupSums(
        parts[0].days,
        np.sum([part.numerators for part in parts], axis=0),
        np.sum([part.denominators for part in parts], axis=0),
    )


def first_alarm(
    series: WatchedSeries, days: range, settings: ChangeSettings, number: int = 1
) -> tuple[int, Look] | None:
    """The first day on which a series is worse, looked at daily; `number` of series share it."""
    for day in days:
        seen = look(series, day, settings)
        # Series that are never judged apart only share the rate.
        (change, *_) = judge_changes([seen] * number, settings, 0.02)
        if change.verdict == "worse":
            return day, seen
    return None
