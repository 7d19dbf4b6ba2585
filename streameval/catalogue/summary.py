"""Summary statistics of a metric's values over lists: mean, median, quantile, standard error."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal, TypeAlias, get_args

import numpy as np

from streameval.catalogue.signature import Parameter, ParameterValue
from streameval.statistics.distributions import Distribution

SummaryStatistic: TypeAlias = Literal[
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

SUMMARY_PARAMETERS = (
    Parameter("statistic", "mean", get_args(SummaryStatistic)),
    Parameter("q", 0.5, span=(0.0, 1.0)),
    Parameter("confidence", 0.95, span=(0.0, _MOST_CONFIDENT)),
)
"""Parameters of the summary of the values of all lists, by default their mean.

"zeros" is the share of values that are 0, and "maximum" the largest value. "effective_share" is
Kish's (sum)^2 / (n * sum of squares): the share of the values that would make a mean as exact if
all were equal. `q` is the quantile, `confidence` that of the normal interval for `half_width`. It
and the standard error assume independent lists, so both are too small if users have many lists.
"""


def summary(
    values: Distribution,
    parameters: Mapping[str, ParameterValue],
    rules: Mapping[str, ParameterValue],
) -> float:
    """The statistic that a metric's parameters name; NaN without evidence."""
    statistic = parameters["statistic"]
    if statistic == "mean":
        return values.total / values.count if values.count else math.nan
    if statistic == "zeros":
        return values.zeros / values.count if values.count else math.nan
    if statistic in ("median", "quantile"):
        q = 0.5 if statistic == "median" else float(parameters["q"])
        return values.quantile(q, "lower" if rules["method"] == "lower" else "linear")
    if statistic == "maximum":
        return values.maximum
    if statistic == "effective_share":
        return values.effective_share
    error = values.standard_error
    if rules["deviation"] == "single":
        root = math.sqrt(values.count) if values.count else math.nan
        with np.errstate(over="ignore"):
            error = 0.0 if values.count == 1 else float(np.float32(error * root)) / root
    if statistic == "half_width":
        from statistics import NormalDist  # noqa: PLC0415  slow to import, rarely used

        error *= NormalDist().inv_cdf((1.0 + float(parameters["confidence"])) / 2.0)
    return error
