"""Applies the function of a metric: its arguments, the lists in its mean, its group sums."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from numbers import Real
from typing import Any, Final, Protocol, TypeAlias

import numpy as np
from msgspec.structs import replace

from streameval.catalogue.context import ATTRIBUTES, Context
from streameval.catalogue.metric import Metric
from streameval.catalogue.signature import AMONG, BY, Empty, parameter_error
from streameval.events import Event
from streameval.events.errors import MissingInputError, OwnMetricError, StreamevalError
from streameval.events.event import gains_of_type
from streameval.events.previews import are_hidden, describe_error, preview
from streameval.events.printable import first_names
from streameval.events.spelling import nearest
from streameval.statistics.arrays import FloatArray, IntArray, up_to
from streameval.statistics.distributions import single_values
from streameval.statistics.hits import HitsOfCells
from streameval.statistics.intervals import BOUNDED, WEIGHTED
from streameval.statistics.lists import POSITIONED, Lists

Formula: TypeAlias = Callable[[Event], float | Sequence[float] | None]
"""The value of an event or several values; None leaves the event out, NaN is undefined."""

EventValues: TypeAlias = Sequence[Sequence[float | Sequence[float] | None]]
"""For each event, the result of each formula."""


class Summed(Protocol):
    """The sum of the values of events: of a `Distribution`, or one that follows the events."""

    lists: int
    undefined: int

    @property
    def count(self) -> int:
        """Number of values."""
        ...

    @property
    def total(self) -> float:
        """Sum of the values, exact and rounded once."""
        ...


_NEEDS = {
    "catalog": ("a catalogue", "give catalog= the number of items there are, or their ids"),
    "popularity": ("the items' popularity", "give popularity= a Popularity(item -> users)"),
    "similarity": ("the items' similarity", "give similarity= a Similarity(ids, vectors=...)"),
    "examination": (
        "the chance that users look at each rank",
        "give examination= a list of them, for example [1, 0.6, 0.4]",
    ),
}


def check_inputs(metric: Metric, context: Context) -> None:
    """Refuse a metric without its inputs.

    Raises:
        MissingInputError: it needs an input that is missing.
        MetricTextError: no item has the value that it names, or the attribute has too many.
    """
    for name in needed_inputs(metric):
        if context.named(name) is None:
            if name.startswith(ATTRIBUTES):
                raise _missing_attribute(metric, name.removeprefix(ATTRIBUTES), context)
            raise _missing_input(metric, *_NEEDS[name])
    attributes = dict(context.attributes)
    attribute = attributes.get(metric.attribute or "")
    if attribute is not None and metric.definition.reads == "placements":
        kinds = len(attribute.values)
        if kinds > _MOST_KINDS:
            by = str(metric.values[BY])
            remedy = f"it has {kinds:,} values, of at most {_MOST_KINDS:,}; use gini(by={by})"
            raise parameter_error(metric.text, BY, by, remedy)
    among = str(metric.values.get(AMONG, ""))
    name, _, value = among.partition(":")
    if among and value not in attributes[name].values:
        existing = attributes[name].values
        near = nearest(value, existing)
        names = [*near, *(other for other in existing if other not in near)]
        named = first_names(names, _MOST_NAMES) or "none"
        remedy = f"no item has it; the values of {name} are {named}"
        raise parameter_error(metric.text, AMONG, among, remedy)


def _missing_attribute(metric: Metric, name: str, context: Context) -> MissingInputError:
    existing = [other for other, _ in context.attributes]
    names = ", ".join(dict.fromkeys((*nearest(name, existing), *existing)))
    what = f"the attribute {name!r} of items" + (f", and there is {names}" * bool(names))
    return _missing_input(metric, what, f"give attributes={{{name!r}: item -> values}}", name)


def _missing_input(
    metric: Metric, needs: str, remedy: str, attribute: str | None = None
) -> MissingInputError:
    return MissingInputError(
        f"metric {metric.text!r} needs {needs}; {remedy}.",
        metric=metric.text,
        needs=needs,
        remedy=remedy,
        attribute=attribute,
    )


def needed_inputs(metric: Metric) -> list[str]:
    """Names of the inputs that a metric requires besides events.

    Example:
        >>> from streameval.catalogue import parse
        >>> needed_inputs(parse("novelty@5")), needed_inputs(parse("list_diversity(by=genre)"))
        (['popularity'], ['attributes.genre'])
    """
    optional = {"k", "attribute"} | set(metric.definition.optional) - set(metric.values.values())
    if metric.attribute is not None and metric.definition.reads == "exposures":
        optional |= {"catalog"}  # the values of the attribute take its place
    needed = [name for name in metric.definition.inputs if name not in optional]
    return [*needed, *(f"{ATTRIBUTES}{name}" for name in metric.attributes_read)]


def input_among(among: str) -> str:
    """Name of the input that has the items of a value.

    Example:
        >>> input_among("tier:tail")
        'attributes.tier'
    """
    return f"{ATTRIBUTES}{among.partition(':')[0]}"


_MOST_KINDS: Final = 1_000
"""Values of an attribute that a statistic of placements counts."""

_MOST_NAMES: Final = 8
"""Values of an attribute that a message lists, the nearest first."""


def _failure(metric: Metric, error: Exception, event: Event | None = None) -> OwnMetricError:
    """The error for an exception of a user's function, which is its cause."""
    function = metric.definition.function
    where = ""
    if event is not None and not are_hidden():
        items, interactions = list(event.recommendations), event.interactions
        where = f" for recommendations {items!r:.80} and interactions {interactions!r:.80}"
    remedy = f"Correct {function.__name__} in {function.__module__}"
    problem = f"metric {metric.text!r} failed{where} ({describe_error(error)})"
    return OwnMetricError(f"{problem}. {remedy}.", metric=metric.text, remedy=remedy)


def _wrong_value(metric: Metric, returned: object, expected: str) -> OwnMetricError:
    remedy = f"return {expected}"
    text = preview(returned) if are_hidden() else f"{returned!r:.80}"
    problem = f"metric {metric.text!r} returned {text}; {remedy}."
    return OwnMetricError(problem, metric=metric.text, remedy=remedy)


def is_own(metric: Metric) -> bool:
    """True if a user wrote the metric, so that it may raise anything."""
    return not metric.definition.function.__module__.startswith("streameval.")


def call_metric(metric: Metric, statistic: object, context: Context) -> Any:
    """The result of the metric's function on a statistic.

    Raises:
        OwnMetricError: a user's function raised an exception.
    """
    function = metric.definition.function
    try:
        return function(statistic, *_inputs(metric, context), **metric.values_for(function))
    except Exception as error:
        if isinstance(error, (StreamevalError, MemoryError)) or not is_own(metric):
            raise
        raise _failure(metric, error) from error


def list_values(metric: Metric, lists: Lists, context: Context) -> FloatArray:
    """One value per list, shape (lists,)."""
    of_list = metric.definition.graded or metric.definition.function
    values = of_list(lists, *_inputs(metric, context), **metric.values_for(of_list))
    return array_of(metric, values, lists.kind.size)


def array_of(metric: Metric, result: object, size: int) -> FloatArray:
    """The result of a metric's function for lists or cells as floats, shape (size,).

    Raises:
        OwnMetricError: it is not such an array.
    """
    expected = (
        "one value for each list, an array as long as lists.kind"
        if metric.definition.reads == "lists"
        else "a sum over all lists, by rows.total(...)"
    )
    try:
        values: Any = np.asarray(result)
    except (TypeError, ValueError):
        raise _wrong_value(metric, result, expected) from None
    # Conversion would read None as NaN, text as numbers, and drop imaginary parts.
    if values.dtype.kind not in "biuf" or values.shape != (size,):
        raise _wrong_value(metric, result, expected)
    converted: FloatArray = values.astype(np.float64, copy=False)
    return converted


def number_of(metric: Metric, result: object, expected: str) -> float:
    """The result of a metric's function as a float.

    Raises:
        OwnMetricError: it is not a number.
    """
    try:
        if isinstance(result, (Real, np.bool_)):
            return float(result)
    except OverflowError:
        pass
    raise _wrong_value(metric, result, expected)


def formula(metric: Metric, context: Context) -> Formula:
    """The metric's function, as a function of one event."""
    function, inputs = metric.definition.function, _inputs(metric, context)
    values = metric.values_for(function)
    kind, is_users = str(metric.values.get("type", "")), is_own(metric)

    def value(event: Event) -> float | list[float] | None:
        read = event
        if kind:
            read = replace(event, interactions=gains_of_type(event.typed, kind))
        try:
            result = function(read, *inputs, **values)
        except Exception as error:
            if isinstance(error, (StreamevalError, MemoryError)) or not is_users:
                raise
            raise _failure(metric, error, event) from error
        return result if result is None or type(result) is float else _of_one(metric, result)

    return value


def _of_one(metric: Metric, result: Any) -> float | list[float]:
    """The value of an event, or the list of its values."""
    expected = "a number, several numbers, or None for an event without a value"
    # Arrays and tensors first, because a tensor of one number looks iterable.
    result = result.tolist() if hasattr(result, "tolist") else result
    if isinstance(result, Iterable) and not isinstance(result, (str, bytes, Mapping)):
        return [number_of(metric, number, expected) for number in result]
    return number_of(metric, result, expected)


def _inputs(metric: Metric, context: Context) -> list[Any]:
    attributes = dict(context.attributes)
    inputs = {"k": metric.k, "attribute": attributes.get(metric.attribute or "")}
    names = metric.definition.inputs
    return [inputs[name] if name in inputs else context.named(name) for name in names]


def lists_by_rule(metric: Metric, hits: HitsOfCells) -> Mapping[Empty, IntArray]:
    """Rule -> number of lists of each cell that it is for; those of "zero" are in the mean."""
    lists: dict[Empty, IntArray] = {
        rule: np.zeros(hits.cells, np.int64) for rule in ("zero", "skip", "nan")
    }
    lists["error"] = hits.refused
    for kind, rule in metric.empty_rules.items():
        lists[rule] = lists[rule] + hits.having[kind]
    return lists


def ungraded_lists(metric: Metric, hits: HitsOfCells, valued: IntArray) -> IntArray:
    """Number of lists with gains counted before their values were kept, which the mean lacks.

    If empty lists are left out, the result is too large by at most their number.
    """
    empty = 0 if metric.empty_rules[0, 1] == "zero" else hits.having[0, 1]
    return np.asarray(np.maximum(hits.graded - empty - valued, 0))


def mean_counts(metric: Metric, lists: Lists) -> IntArray:
    """1 for each list in the mean, 0 for those left out; shape (n,)."""
    count = np.ones(len(lists), np.int64)
    for (items, interactions), rule in metric.empty_rules.items():
        if rule != "zero":
            count[((lists.length > 0) == items) & ((lists.interacted > 0) == interactions)] = 0
    return np.asarray(count)


def items_recommended(metric: Metric, items: Callable[[int | None], IntArray]) -> IntArray:
    """Number of items in a mean per item, of each list or cell.

    `items`: gives the number of items shown up to a rank.
    """
    rank = int(metric.values.get("rank", 0))
    if not rank:
        return items(metric.k)
    last = rank if metric.k is None else min(rank, metric.k)
    above = rank - 1 if metric.k is None else min(rank - 1, metric.k)
    return items(last) - (items(above) if above else 0)


def largest_rounded(metric: Metric) -> float:
    """The largest value of a list that is rounded in sums by user; larger ones are exact."""
    if metric.definition.weighted:
        return WEIGHTED
    return BOUNDED if all(map(math.isfinite, metric.definition.bounds)) else 0.0


def of_events(
    results: Sequence[float | Sequence[float] | None],
) -> tuple[list[float], list[int]]:
    """Numerators and denominators of the values of events.

    Example:
        >>> of_events([None, 0.5, [1.0, math.nan, 2.0], [1e308, 1e308]])
        ([0.0, 0.5, 3.0, 0.0], [0, 1, 2, 0])
    """
    single = single_values(results)
    # A sum of finite numbers may overflow; then they are looked at one by one.
    if single is not None and math.isfinite(sum(single[0])):
        values, has_value = single
        if has_value is None:
            return values, [1] * len(results)
        left = iter(values)
        return [next(left) if has else 0.0 for has in has_value], list(map(int, has_value))
    numerators, denominators = [], []
    for result in results:
        of_event = [result] if isinstance(result, (int, float)) else result or ()
        finite = [value for value in of_event if math.isfinite(value)]
        numerator, denominator = 0.0, 0
        with suppress(OverflowError):  # the sum is infinite, so the event is left out
            numerator, denominator = math.fsum(finite), len(finite)
        numerators.append(numerator)
        denominators.append(denominator)
    return numerators, denominators


def sums_of_lists(metric: Metric, lists: Lists, context: Context) -> tuple[FloatArray, IntArray]:
    """Contributions of each list to the sums of a metric: numerators and denominators, (lists,)."""
    if metric.definition.per == "item":
        counts = np.where(lists.kind & POSITIONED, 0, items_recommended(metric, lists.items))
        return array_of(metric, call_metric(metric, lists, context), lists.kind.size), counts
    graded = lists.is_graded and metric.needs_gains
    values = (
        list_values(metric, lists, context)
        if graded or metric.needs_values
        else array_of(metric, call_metric(metric, lists, context), lists.kind.size)
    )
    # A list with an undefined or infinite value is left out of means with an interval.
    counts = mean_counts(metric, lists) * np.isfinite(values)
    return np.where(counts > 0, values, 0.0), counts


def items_at(metric: Metric, ranks: IntArray) -> IntArray:
    """True for each item at an explicit position that is in the mean."""
    return items_recommended(metric, lambda k: up_to(ranks, k).astype(np.int64))
