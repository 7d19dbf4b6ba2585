"""The settings of gaps, and what is wrong with them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import msgspec

from streameval.engine.analysis import Kept, Problem
from streameval.events.errors import unknown_name_problem


class GapOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A gap that is watched.

    Attributes:
        by: label or segment whose values are compared.
        metrics: metrics compared; empty: all means that are kept by it.
        at_most: largest accepted difference; `StreamevalGap` fires when it is certainly larger.

    Example:
        >>> GapOptions(by="country", metrics=["ndcg@10"], at_most=0.05).by
        'country'
    """

    by: str
    metrics: list[str] = []
    at_most: float | None = None

    @property
    def problem(self) -> str | None:
        """Why `at_most` is not valid, or None."""
        if self.at_most is None or 0 < self.at_most < math.inf:
            return None
        return f"found {self.at_most!r}; give a difference above 0, in the unit of the metric."


def gap_problems(gaps: Sequence[GapOptions], kept: Kept) -> Iterator[Problem]:
    """A gap without intervals, by an unknown label, without a mean to compare, or twice."""
    if kept.intervals is None:
        yield "gap", "a gap needs intervals; add intervals = { confidence = 0.95 }."
    watched: dict[tuple[str, str], str] = {}
    for number, options in enumerate(gaps):
        where = f"gap[{number}]"
        names = [*kept.labels, *kept.segments]
        if problem := unknown_name_problem(options.by, names, "`labels` and `segments`"):
            yield f"{where}.by", f"{options.by!r} is {problem}"
            continue
        if options.problem is not None:
            yield f"{where}.at_most", options.problem
        means = [metric.text for metric in kept.by(options.by) if metric.has_interval]
        if not means:
            yield f"{where}.by", f"no mean over lists or items is kept by {options.by!r}."
        for index, name in enumerate(options.metrics):
            if problem := unknown_name_problem(name, means, f"the means kept by {options.by!r}"):
                yield f"{where}.metrics[{index}]", f"{name!r} is {problem}"
        for name in options.metrics or means:
            first = watched.setdefault((options.by, name), where)
            if first != where:
                yield where, f"it repeats the gap of {name} in {first}; remove one."
