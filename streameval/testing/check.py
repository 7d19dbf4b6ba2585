"""One call that holds a metric to every law, and finds the smallest events that break one."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any

from msgspec.structs import replace

from streameval.catalogue import metric_of
from streameval.catalogue.metric import Metric
from streameval.errors import MetricLawError
from streameval.events import Event, Interactions
from streameval.testing import laws
from streameval.testing.laws import Law
from streameval.testing.traffic import traffic

_MOST_TRIES = 2_000


def smallest(events: Sequence[Event], fails: Callable[[Sequence[Event]], bool]) -> list[Event]:
    """Fewer and simpler events on which it fails as well: none of them can be left out.

    Args:
        events: it fails on these.
        fails: says so of others.
    """
    found, tries = list(events), 0
    steps = _simpler(found)
    while tries < _MOST_TRIES and (candidate := next(steps, None)) is not None:
        tries += 1
        if fails(candidate):
            found, steps = candidate, _simpler(candidate)
    return found


def _simpler(events: list[Event]) -> Iterator[list[Event]]:
    size = len(events)
    while size:
        for start in range(0, len(events), size):
            yield events[:start] + events[start + size :]
        size //= 2
    for row, event in enumerate(events):
        for plainer in _plainer(event):
            yield [*events[:row], plainer, *events[row + 1 :]]


def _plainer(event: Event) -> Iterator[Event]:
    for name in ("scores", "baseline", "positions", "typed", "history", "user"):
        nothing = () if name == "typed" else None
        if getattr(event, name) != nothing:
            yield replace(event, **{name: nothing})
    if isinstance(event.interactions, dict):
        yield replace(event, interactions=list(event.interactions))
    for row in range(len(event.recommendations)):
        yield _without_item(event, row)
    for row in range(len(event.interactions)):
        yield replace(event, interactions=_without(event.interactions, row))


def _without_item(event: Event, row: int) -> Event:
    columns: dict[str, Any] = {"recommendations": _but(event.recommendations, row)}
    for name in ("positions", "scores"):
        column = getattr(event, name)
        columns[name] = None if column is None else _but(column, row)
    return replace(event, **columns)


def _without(acts: Interactions, row: int) -> Interactions:
    if isinstance(acts, dict):
        return {item: gain for place, (item, gain) in enumerate(acts.items()) if place != row}
    return _but(list(acts), row)


def _but(column: Sequence[Any], row: int) -> list[Any]:
    return [*column[:row], *column[row + 1 :]]


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
