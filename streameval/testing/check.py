"""One call that holds a metric to every law."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any

from streameval.catalogue import metric_of
from streameval.catalogue.metric import Metric
from streameval.errors import MetricLawError
from streameval.events import Event
from streameval.testing import laws
from streameval.testing.laws import Law
from streameval.testing.shrinking import smallest
from streameval.testing.traffic import traffic

Twin = Callable[[Sequence[Event]], float]

LAWS: Mapping[str, Law] = {
    "name goes round": laws.name_goes_round,
    "undefined without evidence": laws.undefined_without_evidence,
    "takes any event": laws.takes_any_event,
    "within its bounds": laws.within_bounds,
    "reading changes nothing": laws.reading_changes_nothing,
    "any order": laws.any_order,
    "any split and merge": laws.any_split,
    "any form": laws.any_form,
    "the state returns": laws.state_returns,
}
"""Every law by its name, in the order in which they are tried; "equals its twin" comes last."""

_DIGITS = 1e-9
_WITHOUT_EVENTS = ("name goes round", "undefined without evidence")


def check_metric(
    metric: str | Metric | Callable[..., Any],
    *,
    twin: Twin | None = None,
    events: int = 40,
    seeds: int = 5,
) -> None:
    """Hold a metric to every law that the metrics of the catalogue are held to.

    Args:
        metric: its text, or the decorated function, as for an Accumulator.
        twin: the same metric again, slow and plain: from a sequence of Events to the value, NaN
            where there is none. `streameval.testing.INPUTS` has the catalogue, popularity and
            similarity that the metric is given.
        events: how many are drawn for each law and seed.
        seeds: how often they are drawn.

    Raises:
        MetricLawError: it breaks a law; has the law and the smallest events found that show it.
        MetricError: it cannot be understood.

    Example:
        >>> check_metric("ndcg@3")
    """
    chosen = metric_of(metric)
    known = dict(LAWS) if twin is None else {**LAWS, "equals its twin": _equals(twin)}
    for name, law in known.items():
        for seed in range(1 if name in _WITHOUT_EVENTS else seeds):
            drawn = traffic(events, seed=seed, plain=name == "within its bounds")
            _check(chosen, name, law, drawn)


def _check(metric: Metric, name: str, law: Law, events: Sequence[Event]) -> None:
    if _broken(metric, law, events) is None:
        return
    found = smallest(events, lambda fewer: _broken(metric, law, fewer) is not None)
    detail = _broken(metric, law, found) or "it is broken on some tries and kept on others"
    raise MetricLawError(metric.text, name, detail, found)


def _broken(metric: Metric, law: Law, events: Sequence[Event]) -> str | None:
    try:
        # A formula that changes its events must not spoil the next try.
        return law(metric, deepcopy(events))
    except Exception as error:  # noqa: BLE001  whatever a formula raises on a valid event is wrong
        return f"it raises {type(error).__name__}: {error}"


def _equals(twin: Twin) -> Law:
    def equals_its_twin(metric: Metric, events: Sequence[Event]) -> str | None:
        value, expected = laws.value_of(laws.counted(metric, events)), twin(events)
        if math.isnan(value) and math.isnan(expected):
            return None
        if math.isclose(value, expected, rel_tol=_DIGITS, abs_tol=_DIGITS**2):
            return None
        return f"its value is {value!r}, by its twin {expected!r}"

    return equals_its_twin
