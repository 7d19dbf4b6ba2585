"""A metric's function, called with what its signature asks for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from msgspec.structs import replace

from streameval.catalogue.context import Context
from streameval.catalogue.metric import Metric
from streameval.errors import MissingInputError
from streameval.events import Batch, Event
from streameval.statistics.arrays import FloatArray
from streameval.statistics.lists import Lists

Formula: TypeAlias = Callable[[Event], float | Sequence[float] | None]
"""The value of an event, several values, or None where it is left out; NaN where it has none."""

_REMEDIES = {
    "catalog": ("a catalogue", "give catalog= the number of items there are, or their ids"),
    "popularity": ("the items' popularity", "give popularity= a Popularity(item -> users)"),
    "similarity": ("the items' similarity", "give similarity= a Similarity(ids, vectors=...)"),
}


def check_inputs(metric: Metric, context: Context) -> None:
    """Refuse a metric whose inputs are not there.

    Raises:
        MissingInputError: it needs a catalogue, popularity or similarity, and there is none.
    """
    for name in needed_inputs(metric):
        if getattr(context, name) is None:
            raise MissingInputError(metric.text, *_REMEDIES[name])


def needed_inputs(metric: Metric) -> list[str]:
    """What a metric cannot do without besides the events, by name."""
    spared = {"k"} | set(metric.definition.optional) - set(metric.values.values())
    return [name for name in metric.definition.inputs if name not in spared]


def called(metric: Metric, statistic: object, context: Context) -> Any:
    """The metric's function of a statistic."""
    function = metric.definition.function
    return function(statistic, *_inputs(metric, context), **metric.values_for(function))


def values_of(metric: Metric, lists: Lists) -> FloatArray:
    """One value per list, shape (lists,)."""
    of_list = metric.definition.of_list
    cut = [metric.k] if "k" in metric.definition.inputs else []
    found: FloatArray = of_list(lists, *cut, **metric.values_for(of_list))
    return found


def formula(metric: Metric, context: Context) -> Formula:
    """The metric's function of one event."""
    function, inputs = metric.definition.function, _inputs(metric, context)
    chosen = metric.values_for(function)
    wanted = str(metric.values.get("type", ""))

    def value(event: Event) -> Any:
        read = _of_type(event, wanted) if wanted else event
        return function(read, *inputs, **chosen)

    return value


def _of_type(event: Event, name: str) -> Event:
    column = Batch(recommendations=[()], interactions=[()], typed=[event.typed]).of_type(name)
    return replace(event, interactions=column.interactions[0])


def _inputs(metric: Metric, context: Context) -> list[Any]:
    names = metric.definition.inputs
    return [metric.k if name == "k" else getattr(context, name) for name in names]
