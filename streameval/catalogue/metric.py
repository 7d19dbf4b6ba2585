"""The definition of a metric: a documented function whose signature declares what it reads."""

from __future__ import annotations

import inspect
import math
import typing
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from types import MappingProxyType, SimpleNamespace
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias, TypeVar, cast

import msgspec

from streameval.catalogue.grammar import spelling
from streameval.errors import MetricDeclarationError, MetricParameterError

Value: TypeAlias = str | int | float | bool
"""A value of a metric parameter."""

Per: TypeAlias = Literal["list", "item", "total", "slice"]
"""Unit of the mean: lists or items shown; "total" is a sum, "slice" a property of a slice."""

Empty: TypeAlias = Literal["skip", "zero", "nan", "error"]
"""How a list without interactions counts: left out, as 0, or the mean is NaN or raises."""

Reads: TypeAlias = Literal[
    "hits", "lists", "exposures", "users", "pairings", "placements", "scores", "ranksums", "event"
]
"""The statistic that a metric reads; the name of its function's first argument."""

SUMMARY = ("statistic", "q", "method", "confidence", "deviation", "per")
"""Parameters of the summary of all lists, which do not affect the value of a list."""

PER_USER = "per"
"""Parameter of the summary: the mean is over lists, or over the means of users."""


class By(NamedTuple):
    """Default of the parameter `by`, which names the attribute of items that a metric reads.

    Write `attribute: Annotated[Attribute, By("genre")]`. If it may be None, the default names
    something else, such as "item", and gives None. A metric of one value of an attribute has the
    parameter `among` instead: `attribute: Attribute, *, among: str = "tier:tail"`.
    """

    default: str


BY, AMONG, EACH_ITEM = "by", "among", "item"
"""Parameters that name an attribute of items (`by=genre`) or a value of it (`among=tier:tail`)."""


F = TypeVar("F", bound=Callable[..., Any])


class Span(NamedTuple):
    """Range of a parameter: `p: Annotated[float, Span(0, 1)] = 0.8`."""

    low: float
    high: float


class Reference(NamedTuple):
    """A value with a meaning, and a verdict for each side; `{name}` stands for a parameter."""

    value: float
    below: str
    above: str
    between: str = "not enough evidence"
    unknown: str = "too few users"


_PEERS = {
    "map": "AP over min(k, relevant); `ranx:map@{k}` for that of ranx, pytrec_eval and RecTools"
}
"""Metrics that peers count otherwise under the same name, and how."""

KINDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a word"}
INPUTS = ("k", "catalog", "popularity", "similarity", "attribute", "examination")


class Parameter(msgspec.Struct, frozen=True):
    """A keyword of a metric's function.

    Attributes:
        choices: allowed values; None allows any value of the default's type.
        span: smallest and largest number allowed.
    """

    name: str
    default: Value
    choices: tuple[Value, ...] | None = None
    span: tuple[float, float] = (-math.inf, math.inf)

    def check(self, metric: str, given: Value) -> Value:
        """The value, converted to the parameter's type.

        Raises:
            MetricParameterError: the value is not one of the choices, or has another type.
        """
        if self.choices is not None:
            if given in self.choices:
                return given
            allowed = f"choose one of {', '.join(map(str, self.choices))}"
            raise MetricParameterError(metric, self.name, given, allowed)
        return self._number(metric, given)

    def _number(self, metric: str, given: Value) -> Value:
        kind, (low, high) = type(self.default), self.span
        if type(given) is not kind and not (kind is float and type(given) is int):
            raise MetricParameterError(metric, self.name, given, f"give {KINDS[kind]}")
        if isinstance(given, (int, float)) and not low <= given <= high:
            limits = f"give a number from {low:g} to {high:g}"
            raise MetricParameterError(metric, self.name, given, limits)
        return kind(given)


class Definition(msgspec.Struct, frozen=True, eq=False):
    """A declared metric, without cut-off and parameter values; see `metric`.

    Attributes:
        name: the usual name; also that of its file.
        function: the formula; see CONTRIBUTING.md, "Add a metric".
        reads: the statistic that it reads.
        inputs: other positional arguments: "k", "catalog", "popularity", "similarity",
            "attribute", "examination".
        optional: inputs that may be None, unless a parameter's value names them.
        parameters: keywords of its functions.
        over: the metric whose sum divides that of this one, instead of the number of lists.
        reference: a value with a meaning, to which the interval is compared.
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
    over: str | None
    reference: Reference | None

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
        """Whether it may have a cut-off, as an argument or through the statistic it reads."""
        return "k" in self.inputs or self.reads in ("exposures", "users", "pairings")

    @property
    def whole(self) -> bool:
        """Whether it reads the whole list, because k counts no ranks: then lists may be too short.

        Example:
            >>> from streameval.catalogue import parse
            >>> parse("pap@5").definition.whole, parse("bpref@5").definition.whole
            (True, False)
        """
        return "short" in self.parameters

    @property
    def additive(self) -> bool:
        """Whether totals and counts of slices can be added."""
        return self.per != "slice" and self.finish is None

    @property
    def weighted(self) -> bool:
        """Whether its values are products of importance weights, which its parameters name."""
        return {"propensity", "target"} <= self.parameters.keys()

    @property
    def estimates_policy(self) -> bool:
        """Whether it estimates the value of a policy that was not shown."""
        return self.weighted and self.higher_is_better is not None

    @property
    def of_list(self) -> Callable[..., Any]:
        """The formula with one value per list."""
        return self.graded or self.function


class Metric:
    """A definition with parameters and cut-off; its canonical text defines equality and hash.

    Attributes:
        values: the values of all parameters.
        options: only the parameters in the text.
        text: canonical text, for example "recbole:ndcg@10".
        per_list: the text without parameters of the summary; it identifies the values of lists.
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

    @property
    def peers(self) -> str | None:
        """How peers count otherwise under the same name; None if they do not.

        Example:
            >>> from streameval.catalogue import parse
            >>> parse("map@10").peers
            'AP over min(k, relevant); `ranx:map@10` for that of ranx, pytrec_eval and RecTools'
            >>> parse("ranx:map@10").peers, parse("map").peers
            (None, None)
        """
        name = self.definition.name
        if name not in _PEERS or self.text != f"{name}@{self.k}":
            return None
        return _PEERS[name].format(k=self.k)

    def values_for(self, function: Callable[..., Any]) -> dict[str, Value]:
        """The values that one of the definition's functions takes."""
        return {name: self.values[name] for name in _keywords(function)}

    @property
    def needs_gains(self) -> bool:
        """Whether lists with gains need a value per list."""
        return self.definition.graded is not None and self.values.get("gain") != "binary"

    @property
    def needs_values(self) -> bool:
        """Whether the value of each list must be kept, for example for a median or rounding."""
        ranked = self.definition.reads in ("hits", "lists")
        parameters = self.definition.parameters
        listwise = any(
            self.values[name] in values if values else self.values[name] != parameters[name].default
            for name, values in self.definition.listwise.items()
        )
        return ranked and (listwise or self.definition.reads == "lists" or not self.is_mean)

    @property
    def is_per_user(self) -> bool:
        """Whether the mean, or another statistic, is over the means of users."""
        return self.values.get(PER_USER) == "user"

    @property
    def is_mean(self) -> bool:
        """Whether it is a mean over lists or items, whose totals and counts can be added."""
        plain = self.definition.additive and self.definition.over is None and not self.is_per_user
        return plain and self.values.get("statistic", "mean") == "mean"

    @property
    def higher_is_better(self) -> bool | None:
        """Direction; None if neither is better. Of the share of zeros it is the opposite."""
        better = self.definition.higher_is_better
        zeros = self.values.get("statistic") == "zeros"
        return not better if zeros and better is not None else better

    @property
    def among(self) -> str:
        """The value of an attribute whose items it reads, such as "tier:tail"; "" for all items.

        A parameter of this name that the function declares itself has a meaning of its own.
        """
        return "" if AMONG in self.definition.parameters else str(self.values.get(AMONG, ""))

    @property
    def attributes_read(self) -> list[str]:
        """Names of the attributes of items that it reads, by parameters of any kind."""
        names = (self.attribute, self.among.partition(":")[0])
        return sorted({name for name in names if name})

    @property
    def part_read(self) -> tuple[str, int | None]:
        """The part of each list that a metric of events reads: `among`, and the last rank."""
        cut = self.among and "k" in self.definition.inputs and not self.definition.whole
        return self.among, self.k if cut else None

    @property
    def attribute(self) -> str | None:
        """Name of the attribute of items that it reads; None if it reads none.

        The default of an optional attribute names something else, such as the items themselves.
        """
        if self.definition.reads == "exposures":
            return None if self.values[BY] == EACH_ITEM else str(self.values[BY])
        if "attribute" not in self.definition.inputs:
            return None
        parameter = BY if BY in self.definition.parameters else AMONG
        named, usual = self.values[parameter], self.definition.parameters[parameter].default
        if "attribute" in self.definition.optional and named == usual:
            return None
        return str(named).partition(":")[0]

    @property
    def has_interval(self) -> bool:
        """Whether it is a mean of values of lists, items or users, or a ratio of two sums."""
        if self.is_per_user:
            return self.values["statistic"] in ("mean", "zeros")
        averaged = (self.is_mean or self.definition.over is not None) and self.definition.per in (
            "list",
            "item",
        )
        return averaged and self.definition.reads in ("hits", "lists", "event")

    @property
    def depends_on_gains(self) -> bool:
        """Whether the values of lists with gains must be kept in addition to hits."""
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
    per: Per | None = None,
    empty: Empty = "zero",
    graded: Callable[..., Any] | None = None,
    finish: Callable[[float], float] | None = None,
    listwise: Mapping[str, tuple[Value, ...]] = MappingProxyType({}),
    interactions: bool = True,
    over: str | None = None,
    reference: Reference | None = None,
) -> Callable[[F], F]:
    """Declare a function to be a metric; its signature is the schema.

    The first argument names the statistic: `hits` (a sum over all hits), `lists` (one value per
    list, from the ranks of its hits), `event` (one value per event, from all its fields),
    `exposures` (items shown), `users` (users by the rank of their first item or hit), `pairings`
    (items by the length of the list), `placements` (ranks at which items of each kind were shown
    and hit), `scores` (scores of positive and negative items) or `ranksums` (pairs in the right
    order). `k`, `catalog`, `popularity`, `similarity` and `examination` are passed if the signature
    has them, and are optional with `| None` or `= None`; likewise `attribute` (see `By`).
    Keyword-only arguments are parameters: a `Literal` lists choices, `Annotated[float, Span(0, 1)]`
    sets limits.

    Args:
        bare: internal; catches a decorator without parentheses.
        bounds: smallest and largest possible value; required.
        source: origin of the formula, such as a paper, book or implementation; required.
        higher_is_better: direction; None if neither is better.
        per: unit of the mean, or "total" for a sum of hits; by default "list", or "slice" for
            statistics other than `hits`, `lists` and `event`.
        empty: default of the parameter `empty`: how lists without interactions count.
        graded: formula per list for lists with gains, if the mean is not linear in the hits.
        finish: function applied to the mean, for example the root of rmse.
        listwise: parameter -> values for which `hits` are read list by list; with an empty tuple,
            all values but the default.
        interactions: whether the metric reads interactions, so that `type=` applies.
        over: name of a metric of events whose sum, with the same parameters, divides that of this
            one: a mean weighted by list, which has intervals, too.
        reference: a value with a meaning, for example 1 of a mean weight, and the verdicts if the
            interval is below it, above it, or covers it.

    Raises:
        MetricDeclarationError: bounds, source or the parentheses are missing, or the function has
            an unsupported argument.

    Example:
        >>> from streameval import Accumulator, metric_at
        >>> @metric(bounds=(0, 1), source="our own")
        ... def first_click(event):
        ...     return float(event.recommendations[0] in event.interactions)
        >>> accumulator = Accumulator(metric_at(first_click))
        >>> accumulator.update(["a", "b"], ["a"])
        >>> [reading.value for reading in accumulator.compute().values()]
        [1.0]
    """
    if bare or bounds is None or not source:
        raise MetricDeclarationError(*bare)

    def declare(function: F) -> F:
        unit = per or _units(function)[0]
        options = {"higher_is_better": higher_is_better, "per": unit, "empty": empty}
        of_lists = {"graded": graded, "finish": finish}
        for problem in _problems(function, bounds, options, of_lists):
            raise MetricDeclarationError(function, problem=problem)
        parameters = _parameters(function) | (_parameters(graded) if graded else {})
        reads_kinds = "attribute" in _inputs(function) or _read_by(function) == "placements"
        if reads_kinds and parameters.keys().isdisjoint({BY, AMONG}):
            problem = f"attribute needs Annotated[Attribute, By('genre')] or a parameter {AMONG}"
            raise MetricDeclarationError(function, problem=problem)
        if over is not None and (_read_by(function), unit) != ("event", "list"):
            problem = f"over={over!r} divides a sum over events; read event, with per='list'"
            raise MetricDeclarationError(function, problem=problem)
        definition = Definition(
            name=function.__name__.rstrip("_"),
            function=function,
            reads=_read_by(function),
            inputs=_inputs(function),
            optional=_optional(function),
            parameters=parameters,
            bounds=bounds,
            higher_is_better=higher_is_better,
            per=unit,
            empty=empty,
            graded=graded,
            finish=finish,
            listwise=dict(listwise),
            source=source,
            interactions=interactions,
            over=over,
            reference=reference,
        )
        function.definition = definition  # type: ignore[attr-defined]  # functions carry attributes
        return function

    return declare


def definition_of(function: object) -> Definition | None:
    """The definition that `@metric` attached to a function, if any."""
    attached = getattr(function, "definition", None)
    return attached if isinstance(attached, Definition) else None


_OPTIONS: Mapping[str, tuple[object, ...]] = {
    "higher_is_better": (True, False, None),
    "per": typing.get_args(Per),
    "empty": typing.get_args(Empty),
}


def _problems(
    function: Callable[..., Any],
    bounds: object,
    options: Mapping[str, object],
    others: Mapping[str, object],
) -> Iterator[str]:
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
    if not arguments or arguments[0].name not in typing.get_args(Reads):
        yield f"the first argument must be one of {', '.join(typing.get_args(Reads))}"
        return
    if options["per"] not in _units(function):
        fitting = " or ".join(map(repr, _units(function)))
        yield f"per={options['per']!r} does not fit {arguments[0].name}; give {fitting}"
    yield from filter(None, map(_misfit, arguments[1:]))


_UNITS: Mapping[str, tuple[Per, ...]] = {
    "hits": ("list", "item", "total"),
    "lists": ("list",),
    "event": ("list", "item"),
}
"""First argument -> the units that its values can have, the default first."""


def _units(function: Callable[..., Any]) -> tuple[Per, ...]:
    first = next(iter(inspect.signature(function).parameters), "")
    return _UNITS.get(first, ("slice",))


def _misfit(argument: inspect.Parameter) -> str | None:
    """The problem of an argument after the first, if it is not supported."""
    name, among = argument.name, f"one of {', '.join(INPUTS)}"
    if argument.kind is inspect.Parameter.KEYWORD_ONLY:
        if name in INPUTS:
            return f"{name} is an input, not a parameter; write it before the *"
        if type(argument.default) not in KINDS:
            return f"parameter {name} needs a default: a number, true or false, or a word"
    elif argument.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD and name not in INPUTS:
        return f"{name} is not {among}; write parameters after a *, as in (event, *, {name}=1)"
    elif argument.default is not argument.empty and argument.default is not None:
        return f"the default of {name} is never used; write {name} without it"
    return None


def _read_by(function: Callable[..., Any]) -> Reads:
    return cast("Reads", next(iter(inspect.signature(function).parameters)))


def _inputs(function: Callable[..., Any]) -> tuple[str, ...]:
    return tuple(name for name in inspect.signature(function).parameters if name in INPUTS)


def _optional(function: Callable[..., Any]) -> tuple[str, ...]:
    hints, arguments = {**_hints(function), "k": int}, inspect.signature(function).parameters
    return tuple(
        name
        for name in _inputs(function)
        if arguments[name].default is None or type(None) in typing.get_args(_plain(hints.get(name)))
    )


def _plain(hint: object) -> object:
    """A type without its annotations."""
    return typing.get_args(hint)[0] if typing.get_origin(hint) is Annotated else hint


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    """The annotations of inputs and parameters; others may exist only for type checkers.

    Raises:
        MetricDeclarationError: one of them cannot be evaluated.
    """
    plain = inspect.unwrap(function)
    names = {*_inputs(function), *_keywords(function)} - {"k"}
    try:
        hints = {name: hint for name, hint in plain.__annotations__.items() if name in names}
        annotated: Any = SimpleNamespace(__annotations__=hints)
        return typing.get_type_hints(annotated, plain.__globals__, include_extras=True)
    except NameError as error:
        problem = f"an annotation names {error.name!r}; import it outside of `if TYPE_CHECKING`"
        raise MetricDeclarationError(function, problem=problem) from error


@lru_cache(maxsize=256)
def _keywords(function: Callable[..., Any]) -> tuple[str, ...]:
    """The names of the keyword-only arguments, also of a function in a wrapper."""
    arguments = inspect.signature(function).parameters.values()
    return tuple(argument.name for argument in arguments if argument.kind is argument.KEYWORD_ONLY)


def _parameters(function: Callable[..., Any]) -> dict[str, Parameter]:
    hints, arguments = _hints(function), inspect.signature(function).parameters
    accepted = {
        name: _parameter(name, arguments[name].default, hints.get(name))
        for name in _keywords(function)
    }
    for note in typing.get_args(hints.get("attribute")):
        if isinstance(note, By):
            accepted[BY] = Parameter(BY, note.default)
    for name, parameter in accepted.items():
        try:
            parameter.check(function.__name__, parameter.default)
        except MetricParameterError as error:
            problem = f"the default of {name} is {parameter.default!r}; {error.allowed}"
            raise MetricDeclarationError(function, problem=problem) from error
    return accepted


def _parameter(name: str, default: Value, hint: object) -> Parameter:
    limits: tuple[float, float] = (-math.inf, math.inf)
    if typing.get_origin(hint) is Annotated:
        hint, *notes = typing.get_args(hint)
        limits = next((note for note in notes if isinstance(note, Span)), limits)
    choices = typing.get_args(hint) if typing.get_origin(hint) is Literal else None
    # Type checkers accept a whole number as a float, too.
    if hint is float and type(default) is int:
        default = float(default)
    return Parameter(name, default, choices, limits)
