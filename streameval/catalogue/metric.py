"""The definition of a metric: a documented function whose signature declares what it reads."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Container, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final, Literal, TypeVar

import msgspec

from streameval.catalogue.grammar import spelling
from streameval.catalogue.signature import (
    AMONG,
    BY,
    EACH_ITEM,
    PER_USER,
    SUMMARY,
    Empty,
    Parameter,
    ParameterValue,
    Per,
    Reference,
    declaration_error,
    declaration_problems,
    fields_of,
    keywords_of,
    percentile_of,
    units_of,
)
from streameval.events.errors import MetricTextError, OwnMetricError
from streameval.statistics.asked import BY_CELL
from streameval.statistics.lists import Relevant

F = TypeVar("F", bound=Callable[..., Any])


_PEERS = {
    "map": "AP over min(k, relevant); `ranx:map@{k}` for that of ranx, pytrec_eval and RecTools"
}
"""Metrics that peers count otherwise under the same name, and how."""

_UNITS = {"list": "lists", "item": "items shown", "total": "lists", "slice": "lists"}
"""What the mean of a metric is over."""


class Definition(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """A declared metric, without cut-off and parameter values; see `metric`.

    Attributes:
        name: the usual name; also that of its file.
        documentation: the function's docstring, dedented.
        function: the formula; see CONTRIBUTING.md, "Add a metric".
        reads: the statistic that it reads.
        inputs: its other positional arguments, in order: "k", "catalog", "attribute", ...
        optional: the inputs that may be None, unless a parameter's value names them.
        parameters: its keywords, with their defaults and limits.
        over: the metric whose sum divides that of this one, instead of the number of lists.
        reference: a value with a meaning, to which the interval is compared.
    """

    name: str
    documentation: str
    function: Callable[..., Any]
    reads: str
    inputs: tuple[str, ...]
    optional: tuple[str, ...]
    parameters: Mapping[str, Parameter]
    bounds: tuple[float, float]
    higher_is_better: bool | None
    per: Per
    empty: Empty
    graded: Callable[..., Any] | None
    finish: Callable[[float], float] | None
    listwise: Mapping[str, tuple[ParameterValue, ...]]
    source: str
    interactions: bool
    over: str | None
    reference: Reference | None

    @property
    def summary(self) -> str:
        """First line of the documentation."""
        return self.documentation.splitlines()[0]

    @property
    def takes_k(self) -> bool:
        """True if it may have a cut-off, as an argument or through the statistic it reads."""
        statistic = BY_CELL.get(self.reads)
        return "k" in self.inputs or (statistic is not None and statistic.takes_k)

    @property
    def reads_whole_list(self) -> bool:
        """True if it reads the whole list, because k counts no ranks: then lists may be too short.

        Example:
            >>> from streameval.catalogue import parse
            >>> [parse(text).definition.reads_whole_list for text in ("pap@5", "bpref@5")]
            [True, False]
        """
        return "short" in self.parameters

    @property
    def additive(self) -> bool:
        """True if totals and counts of slices can be added."""
        return self.per != "slice" and self.finish is None

    @property
    def relevant(self) -> Relevant:
        """The items that it reads by default: with losses, if they may bring it below 0."""
        return "all" if self.graded is not None and self.bounds[0] < 0 else "positive"

    @property
    def weighted(self) -> bool:
        """True if its values are products of importance weights, which its parameters name."""
        return {"propensity", "target"} <= self.parameters.keys()

    @property
    def estimates_policy(self) -> bool:
        """True if it estimates the value of a policy that was not shown."""
        return self.weighted and self.higher_is_better is not None


_ITEM_VALUES: Final = ("propensity", "target", "predicted", "expected", "team")
"""Parameters that name values beside the items of a list."""


class Metric(msgspec.Struct, frozen=True, kw_only=True, eq=False, dict=True):
    """A definition with parameters and cut-off; its canonical text defines equality and hash.

    Attributes:
        values: the values of all parameters.
        rules: the rules of its convention; see `conventions.RULES`.
        options: only the parameters in the text.
        text: canonical text, for example "recbole:ndcg@10".
        alias: the text with another name for the metric, for example "P@10"; None: it has its name.
    """

    definition: Definition
    values: Mapping[str, ParameterValue]
    rules: Mapping[str, ParameterValue]
    options: Mapping[str, ParameterValue]
    k: int | None
    convention: str | None
    text: str
    alias: str | None = None

    @cached_property
    def prefix(self) -> str | None:
        """The convention or module before the colon; None without one."""
        return spelling(self.text).prefix

    @cached_property
    def per_list(self) -> str:
        """The text without parameters of the summary; it identifies the values of lists."""
        return str(spelling(self.text).without(SUMMARY))

    @cached_property
    def as_per_list(self) -> Metric:
        """The metric whose mean is over lists, with the same value of each list.

        Metrics that differ in their summary only have the same one.
        """
        options = {name: value for name, value in self.options.items() if name not in SUMMARY}
        return msgspec.structs.replace(
            self,
            values={**self.values, "statistic": "mean", PER_USER: "list"},
            options=options,
            text=self.per_list,
            alias=None,
        )

    @cached_property
    def percentiles(self) -> Mapping[str, float]:
        """Parameter -> the percentile of the values of lists that stands for its number.

        Example:
            >>> from streameval.catalogue import parse
            >>> parse("value_per_list(cap=p99.5)@10").percentiles
            {'cap': 99.5}
        """
        parameters = self.definition.parameters
        named = {
            name: percentile_of(value)
            for name, value in self.options.items()
            if name in parameters and parameters[name].percentiles is not None
        }
        return {name: percentile for name, percentile in named.items() if percentile is not None}

    def require_numbers(self) -> None:
        """Refuse a percentile where values are counted before all lists are known.

        Raises:
            MetricTextError: a percentile stands for a number.
        """
        for parameter in self.percentiles:
            raise MetricTextError(
                f"metric {self.text!r}: {parameter} = {self.options[parameter]!r} is known only "
                "when all lists are; give a number. Of variants in files or frames, `compare` and "
                "`plan` find it, and print it.",
                metric=self.text,
                parameter=parameter,
            )

    @cached_property
    def empty_rules(self) -> Mapping[tuple[int, int], Empty]:
        """The effect of lists (with items or not, with interactions or not) on a mean."""
        of_lists: Any = self.rules["empty_list"]
        of_interactions: Any = self.values.get("empty", "zero")
        without = of_interactions if of_lists == "any" else of_lists
        with_interactions = "zero" if of_lists == "any" else of_lists
        return {(0, 0): without, (0, 1): with_interactions, (1, 0): of_interactions, (1, 1): "zero"}

    @property
    def peers(self) -> str | None:
        """Definition that peers have under the same name; None if it is the same.

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

    @property
    def naming(self) -> list[str]:
        """Notes about its name: of which metric it is an alias, how peers use it.

        Example:
            >>> from streameval.catalogue import parse
            >>> parse("coverage@10").naming, parse("item_coverage@10").naming
            (["'coverage@10' is an alias of item_coverage@10"], [])
        """
        alias = None if self.alias is None else f"{self.alias!r} is an alias of {self.text}"
        peers = None if self.peers is None else f"{self.text}: {self.peers}"
        return [*filter(None, [alias, peers])]

    def item_values_without(self, named: Container[str]) -> list[str]:
        """Names of the values of each item that a metric of the catalogue reads, but those named.

        Example:
            >>> from streameval.catalogue import parse
            >>> parse("snips(target=new)").item_values_without({"propensity": "p"})
            ['new']
            >>> parse("dr(direct=true)").item_values_without(())
            ['expected']
        """
        if self.prefix is not None:
            return []
        reads = ("expected",) if self.values.get("direct") else _ITEM_VALUES
        values = (str(self.values[name]) for name in reads if name in self.values)
        return [value for value in values if value not in named]

    def values_for(self, function: Callable[..., Any]) -> dict[str, ParameterValue]:
        """The values that one of the definition's functions takes."""
        return {name: self.values[name] for name in keywords_of(function)}

    @property
    def needs_gains(self) -> bool:
        """True if lists with gains need a value per list."""
        return self.definition.graded is not None and self.values.get("gain") != "binary"

    @property
    def needs_values(self) -> bool:
        """True if the value of each list must be stored, for example for a median or rounding."""
        ranked = self.definition.reads in ("hits", "lists")
        parameters = self.definition.parameters
        listwise = any(
            self.values[name] in values if values else self.values[name] != parameters[name].default
            for name, values in self.definition.listwise.items()
        )
        return ranked and (listwise or self.definition.reads == "lists" or not self.is_mean)

    @property
    def columns(self) -> frozenset[str]:
        """Columns of events that it reads besides lists: "users", "scores", both or none.

        Example:
            >>> from streameval.catalogue import parse
            >>> [sorted(parse(text).columns) for text in ("mrr", "mrr(per=user)", "auc", "ips")]
            [[], ['users'], ['scores'], ['scores']]
        """
        reads, entry = self.definition.reads, BY_CELL.get(self.definition.reads)
        event_columns = frozenset({"scores"}) if reads == "event" else frozenset[str]()
        per_user = frozenset({"users"}) if self.is_per_user else frozenset[str]()
        return event_columns | per_user | (entry.columns if entry is not None else frozenset())

    @property
    def is_per_user(self) -> bool:
        """True if the mean, or another statistic, is over the means of users."""
        return self.values.get(PER_USER) == "user"

    @property
    def is_mean(self) -> bool:
        """True if it is a mean over lists or items, whose totals and counts can be added."""
        is_additive = (
            self.definition.additive and self.definition.over is None and not self.is_per_user
        )
        return is_additive and self.values.get("statistic", "mean") == "mean"

    @property
    def counts_up(self) -> bool:
        """True if its totals never decrease, so that they may be exported as counters."""
        below_zero = self.values.get("relevant", "positive") != "positive" and self.needs_gains
        return self.is_mean and self.definition.bounds[0] >= 0 and not below_zero

    @property
    def leaves_out_losses(self) -> bool:
        """True if it sums gains, but by default none below 0.

        A share of the best order, from 0 to 1, takes them for not relevant, as everywhere.

        Example:
            >>> from streameval.catalogue import parse
            >>> texts = ("dcg", "value_per_list", "dcg(relevant=all)", "ndcg", "hit_rate")
            >>> [parse(text).leaves_out_losses for text in texts]
            [True, False, False, False, False]
        """
        sums = self.definition.graded is not None and math.isinf(self.definition.bounds[1])
        is_explicit = self.prefix is not None or "relevant" in self.options
        return (
            sums and self.needs_gains and not is_explicit and self.definition.relevant == "positive"
        )

    @property
    def unit(self) -> str:
        """Unit of its mean, without a condition on the lists: lists, items shown or users."""
        return "users" if self.is_per_user else _UNITS[self.definition.per]

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
        cut = self.among and "k" in self.definition.inputs and not self.definition.reads_whole_list
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
        """True if it is a mean of values of lists, items or users, or a ratio of two sums."""
        if self.is_per_user:
            return self.values["statistic"] in ("mean", "zeros")
        averaged = (self.is_mean or self.definition.over is not None) and self.definition.per in (
            "list",
            "item",
        )
        return averaged and self.definition.reads in ("hits", "lists", "event")

    @property
    def reads(self) -> str:
        """The statistic that it reads: the first argument of its function."""
        return self.definition.reads

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
    graded: Callable[..., Any] | Literal[True] | None = None,
    finish: Callable[[float], float] | None = None,
    listwise: Mapping[str, tuple[ParameterValue, ...]] = MappingProxyType({}),
    interactions: bool = True,
    over: str | None = None,
    reference: Reference | None = None,
) -> Callable[[F], F]:
    """Declare a function to be a metric; its signature is the schema.

    The first argument names the statistic: `hits` (a sum over all hits), `lists` (one value per
    list, from the ranks of its hits), `event` (one value per event, from all its fields), or one of
    `BY_CELL` in `streameval.statistics.asked`, such as `exposures` (items shown). `k`, `catalog`,
    `popularity`, `similarity` and `examination` are passed if the signature has them, and are
    optional with `| None` or `= None`; so is `attribute` (see `By`).
    Keyword-only arguments are parameters: a `Literal` lists choices, `Annotated[float, Span(0, 1)]`
    sets limits.

    Args:
        bare: internal; catches a decorator without parentheses.
        bounds: smallest and largest possible value; required. A metric of gains that may be below
            0 reads gains below 0.
        source: origin of the formula, such as a paper, book or implementation; required.
        higher_is_better: direction; None if neither is better.
        per: unit of the mean, or "total" for a sum of hits; by default "list", or "slice" for
            statistics other than `hits`, `lists` and `event`.
        empty: default of the parameter `empty`: how lists without interactions count.
        graded: formula per list for lists with gains, if the mean is not linear in the hits; True
            if the function itself reads their gains.
        finish: function applied to the mean, for example the root of rmse.
        listwise: parameter -> values for which `hits` are read list by list; with an empty tuple,
            all values but the default.
        interactions: whether a metric of events reads interactions, so that `type=` applies; of
            other statistics, the statistic decides.
        over: name of a metric of events whose sum, with the same parameters, divides that of this
            one: a mean weighted by list, which also has intervals.
        reference: a value with a meaning, for example 1 of a mean weight, and the verdicts if the
            interval is below it, above it, or covers it.

    Raises:
        OwnMetricError: bounds, source or the parentheses are missing, or the function has
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
        name = bare[0].__name__ if bare else ""
        of = f" of {name}" if bare else ""
        example = "@metric(bounds=(0, 1), source='where the formula is from')"
        needs = "needs parentheses with at least bounds= and source=: write"
        raise OwnMetricError(f"@metric{of} {needs} {example}.", metric=name)

    def declare(function: F) -> F:
        unit = per or units_of(function)[0]
        options: dict[str, Any] = {
            "higher_is_better": higher_is_better,
            "per": unit,
            "empty": empty,
        }
        of_lists = function if graded is True else graded
        formulas: dict[str, Any] = {"graded": of_lists, "finish": finish}
        for problem in declaration_problems(function, bounds, options, formulas):
            raise declaration_error(problem, function)
        name = function.__name__.rstrip("_")
        definition = Definition(
            name=name,
            documentation=inspect.getdoc(function) or name,
            function=function,
            **fields_of(function, of_lists),
            **options,
            **formulas,
            bounds=bounds,
            listwise=dict(listwise),
            source=source,
            interactions=interactions,
            over=over,
            reference=reference,
        )
        reads_kinds = "attribute" in definition.inputs or definition.reads == "placements"
        if reads_kinds and definition.parameters.keys().isdisjoint({BY, AMONG}):
            problem = f"attribute needs Annotated[Attribute, By('genre')] or a parameter {AMONG}"
            raise declaration_error(problem, function)
        if over is not None and (definition.reads, unit) != ("event", "list"):
            problem = f"over={over!r} divides a sum over events; read event, with per='list'"
            raise declaration_error(problem, function)
        function.definition = definition  # type: ignore[attr-defined]  # functions carry attributes
        return function

    return declare


def definition_of(function: object) -> Definition | None:
    """The definition that `@metric` attached to a function, if any."""
    attached = getattr(function, "definition", None)
    return attached if isinstance(attached, Definition) else None
