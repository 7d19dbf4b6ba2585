"""Gaps that take the extremes of many values for two values chosen before; tests must notice."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np

from streameval.analyses.gaps import statistics as gap
from streameval.analyses.gaps.statistics import _LabelValue, _Pairs, _Tests
from streameval.inference.interval_formulas import Estimate, effective_groups
from tests.mutation.mistake import Mistake, around, replaced, with_its_cases
from tests.uncertainty import test_gap


def _of_one_pair(kept: Any) -> Any:
    """Each pair has its own 95 %, as if no other were looked at."""

    def init(tests: _Tests, *given: Any) -> None:
        kept(tests, *given)
        tests._level = tests._alpha

    return init


def _bootstrapped(kept: Any) -> Any:
    """The percentiles of the differences that resampled groups have."""

    def judge(values: Any, metric: Any, rows: list[_LabelValue], intervals: Any) -> Any:
        judged, worst = kept(values, metric, rows, intervals)
        draw, width = np.random.default_rng(1), test_gap.GROUPS
        gaps = []
        for _ in range(100):
            chosen = draw.integers(0, width, width)
            means = [
                row.sums.numerators[0][chosen].sum() / row.sums.denominators[0][chosen].sum()
                for row in rows
            ]
            gaps.append(max(means) - min(means))
        low, high = np.quantile(gaps, [0.025, 0.975])
        return msgspec.structs.replace(judged, low=float(low), high=float(high)), worst

    return judge


def _above_zero(kept: Any) -> Any:
    def of(name: str, counted: Any) -> _LabelValue:
        row: _LabelValue = kept(name, counted)
        return row if row.estimate.value > 0 else row._replace(left_out="It is 0.")

    return of


def _plain(means: Any, moves: Any, errors: Any, rows: Any) -> Any:
    return _Pairs.of(means, moves, errors, rows), float(means.max())


def _by_lists_alone(estimate: Estimate, *_: float) -> float:
    return estimate.groups


def _by_its_own_clicks(kept: Any) -> Any:
    return lambda self, *_: kept(self)


def _by_other_lists(estimate: Estimate, foretold: float = math.inf) -> float:
    return float(effective_groups(1.0 / (estimate.groups + 1.0), foretold, math.inf))


def _eight() -> None:
    assert test_gap.alarms(8) <= 10


MISTAKES = (
    Mistake("each pair of a gap is tested alone", _eight, around(_Tests, "__init__", _of_one_pair)),
    Mistake(
        "a gap has the percentiles of a bootstrap", _eight, around(gap, "_judge", _bootstrapped)
    ),
    Mistake(
        "a fixed interval is sold as anytime in a gap",
        test_gap.test_equal_values_have_no_gap_for_certain_however_often_one_looks,
        around(
            gap,
            "half_width",
            lambda kept: lambda *given, **level: kept(*given[:3], "fixed", given[4], **level) / 1.4,
        ),
    ),
    Mistake(
        "a value at 0 is left out",
        test_gap.test_a_value_at_0_is_the_worst_and_is_compared,
        around(_LabelValue, "of", _above_zero),
    ),
    Mistake(
        "a value at 0 has no error",
        test_gap.test_a_gap_of_rare_clicks_is_that_of_square_roots,
        replaced(gap, "_own_errors", lambda rows, _: np.zeros(len(rows))),
    ),
    Mistake(
        "limits of half widths are too narrow",
        with_its_cases(test_gap.test_a_large_gap_is_certain_and_its_bounds_cover_it),
        around(gap, "half_width", lambda kept: lambda *given, **level: kept(*given, **level) / 9),
    ),
    Mistake(
        "few clicks are enough if many users saw the lists",
        test_gap.test_a_value_of_a_few_clicks_by_chance_is_left_out,
        replaced(Estimate, "worth", _by_lists_alone),
    ),
    Mistake(
        "a value without a click is left out, whatever its lists promise",
        test_gap.test_a_value_at_0_is_the_worst_and_is_compared,
        around(Estimate, "worth", _by_its_own_clicks),
    ),
    Mistake(
        "many clicks on few lists do not count",
        test_gap.test_many_clicks_on_few_lists_are_enough,
        replaced(Estimate, "worth", _by_other_lists),
    ),
    Mistake(
        "rare clicks are compared by their difference",
        test_gap.test_a_gap_of_rare_clicks_is_that_of_square_roots,
        replaced(gap, "_scaled_pairs", _plain),
    ),
)
