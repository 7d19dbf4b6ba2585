"""Declarations in the signature of a metric's function: its statistic, inputs and parameters."""

from __future__ import annotations

import inspect
import math
import re
import typing
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from types import SimpleNamespace
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

import msgspec

from streameval.catalogue.grammar import format_value
from streameval.events.errors import MetricTextError, OwnMetricError
from streameval.statistics.asked import BY_CELL

ParameterValue: TypeAlias = str | int | float | bool
"""A value of a metric parameter."""


Per: TypeAlias = Literal["list", "item", "total", "slice"]
"""Unit of the mean: lists or items shown; "total" is a sum, "slice" a property of a slice."""


Empty: TypeAlias = Literal["skip", "zero", "nan", "error"]
"""How a list without interactions counts: left out, as 0, or the mean is NaN or raises."""


def readable() -> tuple[str, ...]:
    """The statistics that a metric can read: the names of its function's first argument."""
    return ("hits", "lists", "event", *BY_CELL)


SUMMARY = ("statistic", "q", "confidence", "per")
"""Parameters of the summary of all lists, which do not affect the value of a list."""


PER_USER = "per"
"""Parameter of the summary: the mean is over lists, or over the means of users."""


class By(NamedTuple):
    """Default of the parameter `by`, which names the attribute of items that a metric reads.

    Write `attribute: Annotated[Attribute, By("genre")]`. If it may be None, the default names
    something else, such as "item", and gives None. A metric of one value of an attribute has the
    parameter `among` instead: `attribute: Attribute, *, among: str = "tier:tail"`.

    Example:
        >>> from typing import Annotated
        >>> from streameval import Accumulator, Attribute, metric, metric_at
        >>> @metric(bounds=(0, 1), source="our own")
        ... def first_is_known(event, attribute: Annotated[Attribute, By("genre")]):
        ...     return float(attribute.knows(event.recommendations[0]))
        >>> attributes = {"genre": {"a": "noir"}}
        >>> accumulator = Accumulator(metric_at(first_is_known), attributes=attributes)
        >>> accumulator.update(["a", "b"], [])
        >>> [reading.value for reading in accumulator.compute().values()]
        [1.0]
    """

    default: str


BY, AMONG, EACH_ITEM = "by", "among", "item"
"""Parameters that name an attribute of items (`by=genre`) or a value of it (`among=tier:tail`)."""


class Span(NamedTuple):
    """Range of a parameter: `p: Annotated[float, Span(0, 1)] = 0.8`."""

    low: float
    high: float


class Percentiles(NamedTuple):
    """Range, without its ends, of percentiles that may stand for a parameter's number: `cap=p99.5`.

    The number is that percentile of the values of all lists that are compared.
    """

    low: float
    high: float


_PERCENTILE = re.compile(r"p(\d+(?:\.\d+)?)", re.ASCII)


def percentile_of(value: ParameterValue) -> float | None:
    """The percentile that a value names, such as 99.5 for "p99.5"; None for other values.

    Example:
        >>> percentile_of("p99.5"), percentile_of("p"), percentile_of(100.0)
        (99.5, None, None)
    """
    match = _PERCENTILE.fullmatch(value) if isinstance(value, str) else None
    return None if match is None else float(match[1])


class Reference(NamedTuple):
    """A value with a meaning, and a verdict for each side; `{name}` stands for a parameter.

    Attributes:
        between: verdict if the interval covers the value.
        unknown: verdict without an interval.
        widest: how far from the value an interval may reach to be evidence for it.
        wide: verdict if the interval covers the value, and reaches further.
    """

    value: float
    below: str
    above: str
    between: str = "not enough evidence"
    unknown: str = "too few users"
    widest: float = math.inf
    wide: str = "not enough evidence"

    @property
    def is_choice(self) -> bool:
        """True if its sides are two outcomes; else one checks that a value is near it."""
        return self.widest == math.inf


VALUE_KINDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a word"}


INPUT_NAMES = ("k", "catalog", "popularity", "similarity", "attribute", "examination")


def parameter_error(metric: str, parameter: str, found: object, allowed: str) -> MetricTextError:
    """The error for a parameter that a metric lacks, or whose value it does not allow."""
    problem = f"metric {metric!r}: {parameter} = {found!r} is not allowed; {allowed}."
    return MetricTextError(problem, metric=metric, parameter=parameter)


def declaration_error(problem: str, function: Callable[..., Any]) -> OwnMetricError:
    """The error for a function that `@metric` refuses."""
    name = getattr(function, "__name__", repr(function))
    return OwnMetricError(f"@metric of {name}: {problem}.", metric=name)


class Parameter(msgspec.Struct, frozen=True):
    """A keyword of a metric's function.

    Attributes:
        choices: allowed values; None allows any value of the default's type.
        span: smallest and largest number allowed.
        percentiles: limits of percentiles that may stand for the number; None without any.
    """

    name: str
    default: ParameterValue
    choices: tuple[ParameterValue, ...] | None = None
    span: tuple[float, float] = (-math.inf, math.inf)
    percentiles: tuple[float, float] | None = None

    def check(self, metric: str, value: ParameterValue) -> ParameterValue:
        """The value, converted to the parameter's type.

        Raises:
            MetricTextError: the value is not one of the choices, or has another type.
        """
        if remedy := self.remedy(value):
            raise parameter_error(metric, self.name, value, remedy)
        if self.percentiles is not None and (percentile := percentile_of(value)) is not None:
            return f"p{format_value(percentile)}"
        return value if self.choices is not None else type(self.default)(value)

    @property
    def or_percentile(self) -> str:
        """Words after "a number" for percentiles that may stand for it; empty if none may."""
        if self.percentiles is None:
            return ""
        least, most = self.percentiles
        return f", or a percentile above p{least:g} and below p{most:g}"

    def remedy(self, value: ParameterValue) -> str | None:
        """Suggest what to give instead of a value that is not allowed."""
        kind, (low, high) = type(self.default), self.span
        if self.choices is not None:
            allowed = ", ".join(map(str, self.choices))
            return None if value in self.choices else f"choose one of {allowed}"
        if self.percentiles is not None and isinstance(value, str):
            (least, most), percentile = self.percentiles, percentile_of(value)
            if percentile is not None and least < percentile < most:
                return None
            return f"give {VALUE_KINDS[kind]}{self.or_percentile}, like p99.5"
        if type(value) is not kind and not (kind is float and type(value) is int):
            return f"give {VALUE_KINDS[kind]}"
        if isinstance(value, (int, float)) and not low <= value <= high:
            return f"give a number from {low:g} to {high:g}"
        return None


_OPTIONS: Mapping[str, tuple[object, ...]] = {
    "higher_is_better": (True, False, None),
    "per": typing.get_args(Per),
    "empty": typing.get_args(Empty),
}


def declaration_problems(
    function: Callable[..., Any],
    bounds: object,
    options: Mapping[str, object],
    others: Mapping[str, object],
) -> Iterator[str]:
    """Yield the problems of a declaration, in sentences."""
    match bounds:
        case [int() | float() as low, int() | float() as high] if low < high:
            pass
        case _:
            yield f"bounds={bounds!r} must be the smallest and the largest value, like (0, 1)"
    for name, option in options.items():
        # Compare texts, because 1 == True.
        allowed = list(map(repr, _OPTIONS[name]))
        if repr(option) not in allowed:
            yield f"{name}={option!r} is not one of {', '.join(allowed)}"
    for name, other in others.items():
        if other is not None and not callable(other):
            yield f"{name}={other!r:.80} is not a function"
    of_class = inspect.ismethod(function) or inspect.isclass(function)
    if of_class or not getattr(function, "__name__", "").rstrip("_").isidentifier():
        yield "the metric needs a name; write a function with def"
        return
    if inspect.iscoroutinefunction(function):
        yield "a coroutine cannot be a metric; write def without async"
    arguments = [*inspect.signature(function).parameters.values()]
    if not arguments or arguments[0].name not in readable():
        found = f"{arguments[0].name!r} is not" if arguments else "is missing; give"
        yield f"the first argument {found} one of {', '.join(readable())}"
        return
    if options["per"] not in units_of(function):
        fitting = " or ".join(map(repr, units_of(function)))
        yield f"per={options['per']!r} does not fit {arguments[0].name}; give {fitting}"
    for argument in arguments[1:]:
        name, kind, default = argument.name, argument.kind, argument.default
        if kind is argument.KEYWORD_ONLY:
            if name in INPUT_NAMES:
                yield f"{name} is an input, not a parameter; write it before the *"
            elif type(default) not in VALUE_KINDS:
                yield f"parameter {name} needs a default: a number, true or false, or a word"
        elif kind is argument.POSITIONAL_OR_KEYWORD and name not in INPUT_NAMES:
            inputs, example = ", ".join(INPUT_NAMES), f"(event, *, {name}=1)"
            yield f"{name} is not one of {inputs}; write parameters after a *, as in {example}"
        elif default is not argument.empty and default is not None:
            yield f"the default of {name} is never used; write {name} without it"


_UNITS: Mapping[str, tuple[Per, ...]] = {
    "hits": ("list", "item", "total"),
    "lists": ("list",),
    "event": ("list", "item"),
}
"""First argument -> the units that its values can have, the default first."""


def units_of(function: Callable[..., Any]) -> tuple[Per, ...]:
    """The units that the values of a function can have, the default first."""
    first = next(iter(inspect.signature(function).parameters), "")
    return _UNITS.get(first, ("slice",))


def fields_of(
    function: Callable[..., Any], graded: Callable[..., Any] | None = None
) -> dict[str, Any]:
    """The fields of a Definition that a function declares, and its formula for gains.

    Raises:
        OwnMetricError: a type cannot be evaluated, or does not allow the default.
    """
    arguments = inspect.signature(function).parameters
    inputs = tuple(name for name in arguments if name in INPUT_NAMES)
    hints, optional = {**_hints(function), "k": int}, []
    for name in inputs:
        hint = hints.get(name)
        if typing.get_origin(hint) is Annotated:
            hint = typing.get_args(hint)[0]
        if arguments[name].default is None or type(None) in typing.get_args(hint):
            optional.append(name)
    return {
        "reads": next(iter(arguments)),
        "inputs": inputs,
        "optional": tuple(optional),
        "parameters": _parameters(function) | (_parameters(graded) if graded else {}),
    }


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    """The annotations of inputs and parameters; others may exist only for type checkers."""
    unwrapped = inspect.unwrap(function)
    names = {name for name in inspect.signature(function).parameters if name in INPUT_NAMES} - {"k"}
    names |= {*keywords_of(function)}
    try:
        hints = {name: hint for name, hint in unwrapped.__annotations__.items() if name in names}
        annotated: Any = SimpleNamespace(__annotations__=hints)
        return typing.get_type_hints(annotated, unwrapped.__globals__, include_extras=True)
    except NameError as error:
        problem = f"an annotation names {error.name!r}; import it outside of `if TYPE_CHECKING`"
        raise declaration_error(problem, function) from error


@lru_cache(maxsize=256)
def keywords_of(function: Callable[..., Any]) -> tuple[str, ...]:
    """The names of the keyword-only arguments, also of a function in a wrapper."""
    arguments = inspect.signature(function).parameters.values()
    return tuple(argument.name for argument in arguments if argument.kind is argument.KEYWORD_ONLY)


def _parameters(function: Callable[..., Any]) -> dict[str, Parameter]:
    hints, arguments = _hints(function), inspect.signature(function).parameters
    accepted = {}
    for name in keywords_of(function):
        hint, default, limits = hints.get(name), arguments[name].default, (-math.inf, math.inf)
        percentiles = None
        if typing.get_origin(hint) is Annotated:
            hint, *notes = typing.get_args(hint)
            limits = next((note for note in notes if isinstance(note, Span)), limits)
            percentiles = next((note for note in notes if isinstance(note, Percentiles)), None)
        choices = typing.get_args(hint) if typing.get_origin(hint) is Literal else None
        # Type checkers accept a whole number as a float, too.
        if hint is float and type(default) is int:
            default = float(default)
        accepted[name] = Parameter(name, default, choices, limits, percentiles)
    for note in typing.get_args(hints.get("attribute")):
        if isinstance(note, By):
            accepted[BY] = Parameter(BY, note.default)
    for name, parameter in accepted.items():
        if remedy := parameter.remedy(parameter.default):
            problem = f"the default of {name} is {parameter.default!r}; {remedy}"
            raise declaration_error(problem, function)
    return accepted
