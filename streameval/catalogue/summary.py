"""Summary statistics of a metric's values over lists: mean, median, quantile, standard error."""

from __future__ import annotations

import math
from typing import Literal, TypeAlias, get_args

import numpy as np

from streameval.catalogue.signature import Parameter
from streameval.statistics.distributions import Distribution

Statistic: TypeAlias = Literal[
    "mean",
    "median",
    "quantile",
    "maximum",
    "zeros",
    "standard_error",
    "half_width",
    "effective_share",
]

_MOST_CONFIDENT = 0.999_999
"""Largest confidence; at 1 the interval would be infinite."""

PARAMETERS = (
    Parameter("statistic", "mean", get_args(Statistic)),
    Parameter("q", 0.5, span=(0.0, 1.0)),
    Parameter("method", "linear", ("linear", "lower")),
    Parameter("confidence", 0.95, span=(0.0, _MOST_CONFIDENT)),
    Parameter("deviation", "double", ("double", "single")),
)
"""Parameters of the summary of the values of all lists, by default their mean.

"zeros" is the share of values that are 0, and "maximum" the largest value. "effective_share" is
Kish's (sum)^2 / (n * sum of squares): the share of the values that would make a mean as exact if
all were equal. `q` is the quantile; `method` interpolates between values ("linear") or chooses one
("lower"). `confidence` is that of the normal interval for `half_width`. It and the standard error
assume independent lists, so both are too small if users have many lists. `deviation=single` rounds
the standard deviation to a 32-bit float; that of a single value is 0.
"""


def summary(values: Distribution, chosen: dict[str, str | int | float | bool]) -> float:
    """The chosen summary statistic; NaN without evidence."""
    statistic = chosen["statistic"]
    if statistic == "mean":
        return values.total / values.count if values.count else math.nan
    if statistic == "zeros":
        return values.zeros / values.count if values.count else math.nan
    if statistic in ("median", "quantile"):
        q = 0.5 if statistic == "median" else float(chosen["q"])
        return values.quantile(q, "lower" if chosen["method"] == "lower" else "linear")
    if statistic == "maximum":
        return values.maximum
    if statistic == "effective_share":
        return values.effective_share
    error = _standard_error(values, single=chosen["deviation"] == "single")
    return error if statistic == "standard_error" else error * _width(float(chosen["confidence"]))


def _standard_error(values: Distribution, *, single: bool) -> float:
    if not single:
        return values.standard_error
    if values.count == 1:
        return 0.0
    root = math.sqrt(values.count) if values.count else math.nan
    with np.errstate(over="ignore"):
        return float(np.float32(values.standard_error * root)) / root


def _width(confidence: float) -> float:
    from statistics import NormalDist  # noqa: PLC0415  slow to import, rarely used

    return NormalDist().inv_cdf((1.0 + confidence) / 2.0)
