"""What a statistic says of itself: its name, what it reads and counts, and what it merges with."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, ClassVar, Literal, Protocol, Self, TypeAlias

import msgspec

from streameval.accumulator.counting import CountedBatch, SummedMetric
from streameval.accumulator.inputs import InputIdentities, identities, metric_inputs
from streameval.catalogue.context import TIME_ZONE, Context
from streameval.catalogue.grammar import format_value
from streameval.catalogue.metric import Metric
from streameval.events.errors import NotKeptError, OwnStatisticError, StreamevalError
from streameval.events.ids import IdKind
from streameval.events.previews import describe_error
from streameval.statistics.arrays import IntArray
from streameval.statistics.lists import HitsOptions
from streameval.statistics.relation import Relation
from streameval.statistics.statistic import Statistic
from streameval.statistics.vocabulary import Items

Scope: TypeAlias = Literal["pane", "past", "day", "lifetime"]
"""A part of what is counted in windows: a pane, the events before all panes, the sums of an event
day, or what is kept of each user over the lifetime."""


class PlanLimits(msgspec.Struct, frozen=True):
    """PlanLimits of all statistics of a plan.

    Attributes:
        depth: ranks kept; None keeps whole lists.
        max_items: largest number of items whose exposures are counted exactly.
    """

    depth: int | None
    max_items: int


class StatisticSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The specification of a statistic: everything that the core knows of it.

    Only `name` and `make` have no default; `count` is that of sums. A statistic that counts batches
    of lists needs no class of its own: its specification is `CellSpec(options=...)`.

    Attributes:
        scopes: where it is kept in windows.
        is_optional: whether states that have it merge into states that do not.
        shares_cells: whether all slices of a family share one cell; a backfill may lack it.
        summed: the metrics whose values it sums, by text; empty unless it is a statistic of sums.
    """

    scopes: ClassVar[frozenset[Scope]] = frozenset(("pane", "past"))
    is_optional: ClassVar[bool] = False
    shares_cells: ClassVar[bool] = False

    summed: tuple[SummedMetric, ...] = ()

    @property
    def name(self) -> str:
        """Key in saved states."""
        raise NotImplementedError

    @property
    def metrics(self) -> tuple[str, ...]:
        """The texts of the metrics that it sums."""
        return tuple(each.text for each in self.summed)

    @property
    def slot(self) -> str:
        """Equal for statistics that merge, though one keeps less."""
        return self.name

    @property
    def order(self) -> tuple[int, str]:
        """Sorts descriptions."""
        return 0, self.name

    @property
    def descriptions(self) -> tuple[str, ...]:
        """Descriptions of what it counts; equal only for equal statistics."""
        return (self.name,)

    @property
    def lists(self) -> tuple[HitsOptions, ...]:
        """The lists with hits that it reads."""
        return tuple(each.lists for each in self.summed if each.lists is not None)

    @property
    def formulas(self) -> tuple[Metric, ...]:
        """The metrics of events whose values it reads."""
        return tuple(each.metric for each in self.summed if each.lists is None)

    @property
    def reads_lists(self) -> bool:
        """True if it reads more of a list than its hits and its first items."""
        return False

    @property
    def reads_users(self) -> bool:
        """True if it reads the users of lists."""
        return bool(self.summed)

    @property
    def keeps_days(self) -> bool:
        """True if it keeps event days, which differ between time zones."""
        return False

    @property
    def recommended(self) -> slice | None:
        """The part of a list that it reads, if it reads nothing else; None if it does."""
        return None

    def scoped(self, scope: Scope) -> Self | None:
        """The specification in a part of the windows; None if it is not kept there."""
        return self if scope in self.scopes else None

    def joined(self, other: Any) -> Self:  # noqa: ARG002  those of one slot that differ say how
        """The specification that keeps what both need; `other`: of the same slot."""
        return self

    def within(self, other: Any) -> bool:
        """True if it merges with the statistic in another plan, which may keep more."""
        return bool(self == other)

    def inputs(self, context: Context) -> InputIdentities:
        """Identities of the inputs that it reads; states with different ones do not merge.

        Sums have a text for each metric, or None. What keeps days of another zone than UTC has it.
        """
        inputs = {
            each.text: metric_inputs(each.metric, context) | context.of_users
            for each in self.summed
        }
        of_sums: InputIdentities = {
            text: "; ".join(f"{of} {identity}" for of, identity in of_metric.items()) or None
            for text, of_metric in inputs.items()
        }
        has_zone = self.keeps_days and context.time_zone is not None
        return of_sums | ({TIME_ZONE: context.time_zone} if has_zone else {})

    def unlike(self, inputs: InputIdentities, saved: InputIdentities) -> frozenset[str]:
        """Parts of a saved statistic with other inputs: its name, or texts of metrics.

        Sums may be saved of other metrics.
        """
        if inputs.get(TIME_ZONE) != saved.get(TIME_ZONE):
            return frozenset([self.name])
        if self.summed:
            both = inputs.keys() & saved.keys()
            return frozenset(text for text in both if inputs[text] != saved[text])
        return frozenset([self.name] if inputs != saved else ())

    def missing(self, saved: InputIdentities | None, unlike: frozenset[str]) -> frozenset[str]:
        """Names of what starts empty, as `needs` has them.

        Args:
            saved: the inputs of the saved statistic; None if none was saved.
            unlike: what was counted with other inputs.
        """
        return frozenset([self.name]) if saved is None else unlike & {self.name}

    def make(self, items: Items, context: Context, /) -> Statistic:
        """An empty statistic."""
        raise NotImplementedError

    def count(self, statistic: Any, counting: CountedBatch) -> None:
        """Count a batch."""
        statistic.take(counting.users, counting.terms(self.summed))

    def by_day(self, statistic: Any) -> Iterator[tuple[int, Statistic, Relation]]:
        """Each event day, ascending, with its part of a statistic, and (cell) -> events in it.

        Only for the scope "day", with `on_day`.
        """
        raise NotImplementedError

    def on_day(self, statistic: Any, day: int) -> Statistic:
        """A copy of a statistic with everything on one day."""
        raise NotImplementedError

    def user_ids(self, statistic: Statistic) -> IdKind | None:  # noqa: ARG002  few keep user ids
        """The kind of the user ids that a statistic keeps; None without one."""
        return None


Need: TypeAlias = (
    StatisticSpec | Callable[[Sequence[Metric], PlanLimits, int], Iterable[StatisticSpec]]
)
"""What an analysis keeps besides the statistics of the metrics: a specification, or a function of
all metrics, the limits, and the number of user groups (0 without intervals) that returns some."""


def not_kept(metric: Metric, why: str) -> NotKeptError:
    """The error for a metric whose statistic is not in a table."""
    return NotKeptError(
        f"metric {metric.text!r} cannot be read: {why}. Name it when you create the Accumulator.",
        metric=metric.text,
        why=why,
    )


@contextmanager
def own_errors(spec: StatisticSpec, function: Literal["make", "count"]) -> Iterator[None]:
    """Name the statistic and its package in what `function` of a user's statistic raises.

    Raises:
        OwnStatisticError: it raised an exception, which is the cause.
    """
    try:
        yield
    except Exception as error:  # a statistic of another package may raise anything
        kind = type(getattr(spec, "options", spec))
        package = kind.__module__.partition(".")[0]
        if isinstance(error, (StreamevalError, MemoryError)) or package == "streameval":
            raise
        remedy = (
            f"Correct the statistic of {kind.__qualname__} in {kind.__module__}, or report this to "
            f"the authors of {package}"
        )
        problem = f"statistic {spec.name!r}: {function} failed ({describe_error(error)})"
        raise OwnStatisticError(
            f"{problem}. {remedy}.", statistic=spec.name, function=function, remedy=remedy
        ) from error


class CountedTable(Protocol):
    """A table, as the kinds of statistics read it."""

    @property
    def limits(self) -> PlanLimits:
        """Limits of its statistics."""
        ...

    @property
    def context(self) -> Context:
        """The inputs of metrics."""
        ...

    @property
    def statistics(self) -> Mapping[str, Statistic]:
        """The statistics by name."""
        ...

    def at_slot(self, slot: str) -> Any:
        """The statistic in a slot; None without one."""

    def spec_at(self, slot: str) -> Any:
        """The specification of a slot; None without one."""

    def lists(self, cells: IntArray) -> IntArray:
        """Number of events of each cell."""
        ...

    def flush(self) -> None:
        """Count the events that wait, and reduce cells that are too large."""


def filter_inputs(item_filter: str, context: Context) -> InputIdentities:
    """The identities of the inputs that a value of an attribute, such as "tier:tail", reads."""
    names = [f"attributes.{item_filter.partition(':')[0]}"] if item_filter else []
    return identities(context, names)


@lru_cache(maxsize=256)
def name_of(options: Hashable) -> str:
    """The name of a statistic in saved states: its kind and its options.

    Raises:
        OwnStatisticError: a field has no default.

    Example:
        >>> name_of(HitsOptions(depth=10, repeats="every"))
        'hits(depth=10,repeats=every)'
    """
    try:
        usual = type(options)()
    except TypeError as error:
        kind = type(options).__name__
        problem = f"the options {kind} of a statistic: {error}; give every field a default."
        raise OwnStatisticError(problem, statistic=kind) from None
    fields = sorted(type(options).__struct_fields__)  # type: ignore[attr-defined]  # all are Structs
    values = ((name, getattr(options, name)) for name in fields)
    parts = (
        f"{name}={format_value(value)}" for name, value in values if value != getattr(usual, name)
    )
    inside = ",".join(parts)
    kind = type(options).__name__.removesuffix("Options").lower()
    return f"{kind}({inside})" if inside else kind
