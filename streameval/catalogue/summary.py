"""Median, quantile and standard error of the values of a metric over lists."""

from __future__ import annotations

import math
from typing import Literal, TypeAlias

import numpy as np

from streameval.catalogue.metric import Parameter
from streameval.statistics.distributions import Distribution

Statistic: TypeAlias = Literal["mean", "median", "quantile", "standard_error", "half_width"]

_MOST_CONFIDENT = 0.999_999
"""At 1 the interval would be everything."""

PARAMETERS = (
    Parameter("statistic", "mean", ("mean", "median", "quantile", "standard_error", "half_width")),
    Parameter("q", 0.5, span=(0.0, 1.0)),
    Parameter("method", "linear", ("linear", "lower")),
    Parameter("confidence", 0.95, span=(0.0, _MOST_CONFIDENT)),
    Parameter("deviation", "double", ("double", "single")),
)
"""How the values of all lists are summed up: the mean, unless said otherwise.

`q` is the quantile; `method` whether it lies between two values ("linear") or is one ("lower").
`confidence` is that of the normal interval whose half-width is given. It and the standard error
assume independent lists: where users have many, both are too small. `deviation=single` rounds the
standard deviation to a 32-bit float, and takes that of a single value to be 0.
"""


def summary(values: Distribution, chosen: dict[str, str | int | float | bool]) -> float:
    """The statistic asked for; NaN without evidence."""
    statistic = chosen["statistic"]
    if statistic == "mean":
        return values.total / values.count if values.count else math.nan
    if statistic in ("median", "quantile"):
        q = 0.5 if statistic == "median" else float(chosen["q"])
        return values.quantile(q, "lower" if chosen["method"] == "lower" else "linear")
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
    from statistics import NormalDist  # noqa: PLC0415  slow to import, seldom used

    return NormalDist().inv_cdf((1.0 + confidence) / 2.0)
