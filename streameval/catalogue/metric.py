"""The definition of a metric: a documented function whose signature says what it reads."""

from __future__ import annotations

import inspect
import math
import typing
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias, TypeVar, cast

import msgspec

from streameval.catalogue.grammar import spelling
from streameval.errors import MetricDeclarationError, MetricParameterError

Value: TypeAlias = str | int | float | bool
"""What a metric parameter may hold."""

Per: TypeAlias = Literal["list", "item", "total", "slice"]
"""What a value is averaged over: lists, items shown, or nothing (sums; properties)."""

Empty: TypeAlias = Literal["skip", "zero", "nan", "error"]
"""What a list without interactions is to a mean: left out, 0, or the end of any value."""

Reads: TypeAlias = Literal[
    "hits", "lists", "exposures", "users", "pairings", "scores", "ranksums", "event"
]
"""What a metric is a function of; the name of its function's first argument."""

SUMMARY = ("statistic", "q", "method", "confidence", "deviation")
"""Parameters that say what is read from the values of all lists, not what a list's value is."""

F = TypeVar("F", bound=Callable[..., Any])


class Span(NamedTuple):
    """Smallest and largest number a parameter takes: `p: Annotated[float, Span(0, 1)] = 0.8`."""

    low: float
    high: float


KINDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a word"}
INPUTS = ("k", "catalog", "popularity", "similarity")


class Parameter(msgspec.Struct, frozen=True):
    """One keyword of a metric's function.

    Attributes:
        choices: allowed values, or None where any value of the default's kind is allowed.
        span: smallest and largest number allowed, where there are limits.
    """

    name: str
    default: Value
    choices: tuple[Value, ...] | None = None
    span: tuple[float, float] = (-math.inf, math.inf)

    def check(self, metric: str, found: Value) -> Value:
        """The value, in the parameter's own kind.

        Raises:
            MetricParameterError: the value is not among the choices or not of the kind.
        """
        if self.choices is not None:
            if found in self.choices:
                return found
            allowed = f"choose one of {', '.join(map(str, self.choices))}"
            raise MetricParameterError(metric, self.name, found, allowed)
        return self._number(metric, found)

    def _number(self, metric: str, found: Value) -> Value:
        kind, (low, high) = type(self.default), self.span
        if type(found) is not kind and not (kind is float and type(found) is int):
            raise MetricParameterError(metric, self.name, found, f"give {KINDS[kind]}")
        if isinstance(found, (int, float)) and not low <= found <= high:
            limits = f"give a number from {low:g} to {high:g}"
            raise MetricParameterError(metric, self.name, found, limits)
        return kind(found)


class Definition(msgspec.Struct, frozen=True, eq=False):
    """A metric of the catalogue, before a cut-off and parameters are chosen; see `metric`.

    Attributes:
        name: the field's name for it; the name of its file.
        function: the formula, see CONTRIBUTING.md "Add a metric".
        reads: the statistic it is a function of.
        inputs: what else the function takes, by name: "k", "catalog", "popularity", "similarity".
        optional: those of them that may be None unless a parameter's value names them.
        parameters: keywords of its functions.
    """

    name: str
    function: Callable[..., Any]
    reads: Reads
    inputs: tuple[str, ...]
    optional: tuple[str, ...]
    parameters: Mapping[str, Parameter]
    bounds: tuple[float, float]
    higher_is_better: bool | None
    per: Per
    empty: Empty
    graded: Callable[..., Any] | None
    finish: Callable[[float], float] | None
    listwise: Mapping[str, tuple[Value, ...]]
    source: str
    interactions: bool

    @property
    def summary(self) -> str:
        """First line of the documentation."""
        return self.documentation.splitlines()[0]

    @property
    def documentation(self) -> str:
        """The function's docstring, dedented."""
        return inspect.getdoc(self.function) or self.name

    @property
    def takes_k(self) -> bool:
        """Whether it may have a cut-off: an input of its function, or of what it reads."""
        return "k" in self.inputs or self.reads in ("exposures", "users", "pairings")

    @property
    def additive(self) -> bool:
        """Whether totals and counts of two slices add up to those of both."""
        return self.per != "slice" and self.finish is None

    @property
    def of_list(self) -> Callable[..., Any]:
        """The formula that gives one value per list."""
        return self.graded or self.function


class Metric:
    """A definition with its parameters and cut-off; equal and hashed by its canonical text.

    Attributes:
        values: every parameter with its value.
        options: only the parameters that were chosen, as written in the text.
        text: canonical spelling, for example "recbole:ndcg@10".
        per_list: the same without what is read from the values of all lists; names those values.
    """

    __slots__ = ("convention", "definition", "k", "options", "per_list", "text", "values")

    def __init__(
        self,
        definition: Definition,
        *,
        values: Mapping[str, Value],
        options: Mapping[str, Value],
        k: int | None,
        convention: str | None,
        text: str,
    ) -> None:
        self.definition, self.convention = definition, convention
        self.values, self.options = dict(values), dict(options)
        self.k, self.text = k, text
        self.per_list = str(spelling(text).without(SUMMARY))

    def values_for(self, function: Callable[..., Any]) -> dict[str, Value]:
        """The values that one of the definition's functions takes."""
        return {name: self.values[name] for name in function.__kwdefaults__ or ()}

    @property
    def needs_gains(self) -> bool:
        """Whether lists with gains need their values kept, one list at a time."""
        return self.definition.graded is not None and self.values.get("gain") != "binary"

    @property
    def needs_values(self) -> bool:
        """Whether every list's value needs to be kept: for a median, or where each is rounded."""
        ranked = self.definition.reads in ("hits", "lists")
        chosen = self.definition.listwise.items()
        listwise = self.definition.reads == "lists" or bool(self.values.get("digits"))
        listwise |= any(self.values[name] in values for name, values in chosen)
        return ranked and (listwise or not self.is_mean)

    @property
    def is_mean(self) -> bool:
        """Whether the value is a mean over lists or items, whose totals and counts add up."""
        return self.definition.additive and self.values.get("statistic", "mean") == "mean"

    @property
    def has_interval(self) -> bool:
        """Whether it is a mean of values that each list, or item, has by itself."""
        averaged = self.is_mean and self.definition.per in ("list", "item")
        return averaged and self.definition.reads in ("hits", "lists", "event")

    @property
    def depends_on_gains(self) -> bool:
        """Whether values of lists with gains cannot be read from hits."""
        return self.needs_gains and not self.needs_values

    @property
    def name(self) -> str:
        """The definition's name, without convention, parameters and cut-off."""
        return self.definition.name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Metric) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"Metric({self.text!r})"


def metric(
    *bare: Callable[..., Any],
    bounds: tuple[float, float] | None = None,
    source: str = "",
    higher_is_better: bool | None = True,
    per: Per = "list",
    empty: Empty = "zero",
    graded: Callable[..., Any] | None = None,
    finish: Callable[[float], float] | None = None,
    listwise: Mapping[str, tuple[Value, ...]] = MappingProxyType({}),
    interactions: bool = True,
) -> Callable[[F], F]:
    """Declare a function to be a metric; its signature is the schema.

    The first argument names what is read: `hits` (a sum over all hits), `lists` (one value per
    list, from where its hits are), `event` (one value per event, from all its fields), `exposures`
    (items shown), `users` (users by where their first item or hit stood), `pairings` (items by
    length of the list), `scores` (of positive and negative items) or `ranksums` (pairs in the
    right order). `k`, `catalog`, `popularity` and `similarity` are passed if the signature has
    them (and may be missing if it says `| None`); keyword-only arguments are parameters:
    `Literal` has choices, `Annotated[float, Span(0, 1)]` limits.

    Args:
        bare: internal; catches a decorator without parentheses.
        bounds: smallest and largest possible value; required.
        source: where the formula is from: a paper, a book, a named implementation; required.
        higher_is_better: direction; None if neither is better.
        per: unit of the mean: lists or items; or a total.
        empty: default of the parameter `empty`: how lists without interactions count.
        graded: per-list formula for lists with gains, where the mean is not linear in the hits.
        finish: function applied to the mean, for example the root of rmse.
        listwise: parameter -> its values under which `hits` are read list by list.
        interactions: whether the metric reads interactions, so that `type=` applies.

    Raises:
        MetricDeclarationError: bounds or source are missing, or the parentheses; or the function
            has an argument that nothing fills.
    """
    if bare or bounds is None or not source:
        raise MetricDeclarationError(*bare)

    def declare(function: F) -> F:
        options = {"higher_is_better": higher_is_better, "per": per, "empty": empty}
        for problem in _problems(function, bounds, options):
            raise MetricDeclarationError(function, problem=problem)
        definition = Definition(
            name=function.__name__.rstrip("_"),
            function=function,
            reads=_read_by(function),
            inputs=_inputs(function),
            optional=_optional(function),
            parameters=_parameters(function) | (_parameters(graded) if graded else {}),
            bounds=bounds,
            higher_is_better=higher_is_better,
            per=per,
            empty=empty,
            graded=graded,
            finish=finish,
            listwise=dict(listwise),
            source=source,
            interactions=interactions,
        )
        function.definition = definition  # type: ignore[attr-defined]  # functions carry attributes
        return function

    return declare


def definition_of(function: object) -> Definition | None:
    """The definition that `@metric` left on a function, if any."""
    found = getattr(function, "definition", None)
    return found if isinstance(found, Definition) else None


_OPTIONS: Mapping[str, tuple[object, ...]] = {
    "higher_is_better": (True, False, None),
    "per": typing.get_args(Per),
    "empty": typing.get_args(Empty),
}


def _problems(
    function: Callable[..., Any], bounds: object, options: Mapping[str, object]
) -> Iterator[str]:
    match bounds:
        case [int() | float() as low, int() | float() as high] if low < high:
            pass
        case _:
            yield f"bounds={bounds!r} are not the smallest and the largest value, as in (0, 1)"
    for name, found in options.items():
        # By their texts, for 1 is equal to True.
        allowed = list(map(repr, _OPTIONS[name]))
        if repr(found) not in allowed:
            yield f"{name}={found!r} is not one of {', '.join(allowed)}"
    if inspect.ismethod(function) or not getattr(function, "__name__", "").isidentifier():
        yield "its name is the metric's; write a function with def"
    if inspect.iscoroutinefunction(function):
        yield "it is a coroutine; write def without async"
    arguments = [*inspect.signature(function).parameters.values()]
    if not arguments or arguments[0].name not in typing.get_args(Reads):
        yield f"the first argument must be one of {', '.join(typing.get_args(Reads))}"
    yield from filter(None, map(_misfit, arguments[1:]))


def _misfit(argument: inspect.Parameter) -> str | None:
    """Why nothing fills an argument after the first, if so."""
    name, among = argument.name, f"one of {', '.join(INPUTS)}"
    if argument.kind is inspect.Parameter.KEYWORD_ONLY:
        if name in INPUTS:
            return f"{name} is no parameter; write it before the *"
        if type(argument.default) not in KINDS:
            return f"parameter {name} needs a default: a number, true or false, or a word"
    elif argument.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD and name not in INPUTS:
        return f"{name} is not {among}; write parameters after a *, as in (event, *, {name}=1)"
    return None


def _read_by(function: Callable[..., Any]) -> Reads:
    return cast("Reads", next(iter(inspect.signature(function).parameters)))


def _inputs(function: Callable[..., Any]) -> tuple[str, ...]:
    return tuple(name for name in inspect.signature(function).parameters if name in INPUTS)


def _optional(function: Callable[..., Any]) -> tuple[str, ...]:
    hints = {**typing.get_type_hints(function), "k": int}
    return tuple(n for n in _inputs(function) if type(None) in typing.get_args(hints.get(n)))


def _parameters(function: Callable[..., Any]) -> dict[str, Parameter]:
    hints = typing.get_type_hints(function, include_extras=True)
    keywords = inspect.signature(function).parameters.values()
    return {
        keyword.name: _parameter(keyword.name, keyword.default, hints.get(keyword.name))
        for keyword in keywords
        if keyword.kind is inspect.Parameter.KEYWORD_ONLY
    }


def _parameter(name: str, default: Value, hint: object) -> Parameter:
    kind, arguments = typing.get_origin(hint), typing.get_args(hint)
    if kind is Annotated:
        return Parameter(name, default, span=arguments[1])
    return Parameter(name, default, arguments if kind is Literal else None)
