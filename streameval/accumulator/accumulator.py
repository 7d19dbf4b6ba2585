"""The accumulator: statistics of one slice of events, and the metrics read from them."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from streameval.accumulator.counts import CELL, Counts
from streameval.accumulator.event_checks import EventChecks
from streameval.accumulator.formulas import check_inputs
from streameval.accumulator.inputs import check_same_inputs
from streameval.accumulator.intake import Pair, side_by_side
from streameval.accumulator.kinds.spec import Need
from streameval.accumulator.plan import ALL_LISTS, Asked, Plan, asked_metrics, make_plan
from streameval.accumulator.table import Table
from streameval.catalogue import metric_of
from streameval.catalogue.context import AttributeInputs, Context, check_kind, context_of
from streameval.catalogue.items import Popularity, Similarity
from streameval.catalogue.metric import Metric
from streameval.catalogue.reading import Reading
from streameval.events import Batch, Event, Id, Interaction, Interactions
from streameval.events.errors import SuspiciousEventsWarning
from streameval.events.extras import LazyModule
from streameval.events.forks import forkable_lock
from streameval.events.ids import IdKind
from streameval.events.per_item import PerItem
from streameval.events.saved_states import unknown_version, unlike
from streameval.statistics.intervals import (
    Audience,
    GroupSums,
    Interval,
    IntervalKind,
    Intervals,
    check_method,
)
from streameval.statistics.limits import MAX_ITEMS

if TYPE_CHECKING:
    from streameval.accumulator import codec, count_checks, reading_intervals, readings
    from streameval.accumulator.kinds import experiment as experiments
    from streameval.accumulator.kinds import groups as interval_groups
    from streameval.accumulator.kinds import users as interval_users
    from streameval.accumulator.kinds.experiment import PrePeriod
    from streameval.accumulator.reading_intervals import IntervalMethod
    from streameval.events.arrow import ArrowTable
    from streameval.events.columns import Columns
    from streameval.statistics.user_key import UserHashKey
else:
    # What only reads and saves: a loop that only counts needs none of it.
    _LATER = ("codec", "count_checks", "reading_intervals", "readings")
    codec, count_checks, reading_intervals, readings = (
        LazyModule(f"streameval.accumulator.{name}") for name in _LATER
    )
    experiments, interval_groups, interval_users = (
        LazyModule(f"streameval.accumulator.kinds.{name}")
        for name in ("experiment", "groups", "users")
    )

_CHECKED = 16
"""`compute` looks for advice again after so many times fewer lists than there are."""


class _Settings(NamedTuple):
    """Settings of an accumulator, checked once: a catalogue may be large."""

    metrics: tuple[Metric, ...]
    context: Context
    plan: Plan
    ids: IdKind | None
    intervals: Intervals | None
    needs: tuple[Need, ...]


class Accumulator:
    """Counts events and gives the current value of every metric.

    The state consists of integers and depends only on the multiset of events: any order, any split
    over accumulators that are merged, and any save and load give the same bits. Several threads may
    use it at once.

    Args:
        metrics: for example "ndcg@10", "recbole:map@10", "rbp(p=0.8)@10", or a list of them. Name
            your own as "package.module:name@10", or pass the decorated function, with a cut-off
            as `metric_at(function, k=10)`.
        catalog: number of items, or their ids; needed by item_coverage.
        popularity: number of users who interacted with each item before; needed by novelty.
        similarity: similarity of pairs of items; needed by list_diversity.
        attributes: name -> attribute of items, an `Attribute` or a mapping from items to their
            values: {"genre": {"a": ["drama", "news"]}}; needed by metrics with `by` or `among`.
        examination: the chance that users look at rank 1, 2, ...: [1, 0.6, 0.4]; the last value
            also applies to deeper ranks; needed by debiased_ctr.
        user_key: where the key for hashing users is, "${file:PATH}" or "${NAME}"; without it,
            anyone with a list of ids can recompute the hashes in a state.
        depth: ranks kept; by default the largest cut-off of the metrics, or whole lists if a
            metric has no cut-off; 0 always keeps whole lists.
        max_items: largest number of distinct items counted exactly; beyond it, coverage is an
            estimate.
        ids: "text" or "integer"; by default the kind of the ids of the inputs, else of the first
            id counted. Ids of the other kind are refused.
        intervals: settings of confidence intervals, which need the user of each event; None for no
            intervals.
        experiment: whether it keeps up to 524,288 users, not 16,384, and their lists and clicks;
            a PrePeriod also keeps their pre-experiment data.
        time_zone: time zone of the days of intervals and comparisons, like "Europe/Berlin"; None
            for UTC. Counts by days of different zones do not merge.
        needs: specifications of additional statistics of your own analyses, or functions of all
            metrics, the limits and the number of user buckets that return some.

    Raises:
        MetricError: a metric is unknown or lacks an input, the inputs have ids of both kinds, or
            an argument is not valid.

    Example:
        >>> accumulator = Accumulator("hit_rate@2", "mrr")
        >>> accumulator.update(["a", "b", "c"], {"b"})
        >>> accumulator.update(["a", "b", "c"], ["z"])
        >>> {text: reading.value for text, reading in accumulator.compute().items()}
        {'hit_rate@2': 0.5, 'mrr': 0.25}
        >>> accumulator
        <Accumulator of 2 lists: hit_rate@2 0.5, mrr 0.25>
    """

    _counts: Counts
    """Replaced as a whole; a method that uses it more than once binds it first."""

    _method: IntervalMethod | None

    def __init__(  # noqa: PLR0913  each is an option
        self,
        *metrics: Asked | Sequence[Asked],
        catalog: int | Collection[Id] | None = None,
        popularity: Popularity | None = None,
        similarity: Similarity | None = None,
        attributes: AttributeInputs | None = None,
        examination: Sequence[float] | None = None,
        user_key: UserHashKey | str | None = None,
        depth: int | None = None,
        max_items: int = MAX_ITEMS,
        ids: IdKind | None = None,
        intervals: Intervals | None = None,
        experiment: bool | PrePeriod = False,
        time_zone: str | None = None,
        needs: Iterable[Need] = (),
    ) -> None:
        asked = asked_metrics(metrics)
        context = context_of(
            catalog,
            popularity,
            similarity,
            attributes,
            examination,
            user_key=user_key,
            time_zone=time_zone,
        )
        for metric in asked:
            check_inputs(metric, context)
        check_kind("intervals", intervals, Intervals)
        groups = intervals.groups if intervals else 0
        every_need: tuple[Need, ...] = (
            *(experiments.experiment_needs(experiment) if experiment else ()),
            *needs,
        )
        plan = make_plan(asked, depth, max_items, groups, needs=every_need)
        self._set_up(_Settings(asked, context, plan, context.ids(ids), intervals, every_need))
        self._counts = Counts(self._empty_table())

    @property
    def ids(self) -> IdKind | None:
        """The kind of the ids: "text" or "integer"; None before the first id."""
        return self._counts.table.ids

    @property
    def table(self) -> Table:
        """The statistics, in cell 0; read only, and by several threads only under the lock."""
        with self.lock:
            return self._counts.flush()

    @property
    def lists(self) -> int:
        """Number of events counted."""
        with self.lock:
            return self._counts.lists

    @property
    def version(self) -> int:
        """A number that changes with every update and never repeats."""
        return self._counts.version

    @property
    def resets(self) -> int:
        """Number of calls of `reset`."""
        with self.lock:
            return self._counts.resets

    @property
    def event_checks(self) -> EventChecks:
        """Counts of a sample of the events, for warnings."""
        with self.lock:
            return self._counts.event_checks

    def update(
        self,
        recommendations: Sequence[Id],
        interactions: Interactions,
        positions: Sequence[int] | None = None,
        *,
        scores: Sequence[float] | None = None,
        baseline: Sequence[Id] | None = None,
        typed: Sequence[Interaction] | None = None,
        history: Sequence[Id] | None = None,
        per_item: PerItem | None = None,
        shown_instead: Sequence[Id] | None = None,
        user: Id | None = None,
        ts: int | None = None,
    ) -> None:
        """Count one list with its interactions.

        Args:
            recommendations: item ids as shown, rank 1 first; -1 or "" at the end is padding.
            interactions: ids of the items interacted with, or item id -> gain.
            positions: rank of each item, from 1; by default 1, 2, 3, ...
            scores: the recommender's score of each item, for auc, log_loss and similar metrics.
            baseline: the list of another recommender, for unexpectedness.
            typed: the interactions with their types, for metrics with type=.
            history: items that the user knew before, for user_novelty.
            per_item: name -> one number, word or None for each item, for metrics that name them.
            shown_instead: the list that was shown, if these were not; needs the metric `overlap`.
            user: who saw the list, for intervals and users_covered.
            ts: event time in microseconds since the epoch; `compare` works day by day.

        Raises:
            InvalidEventError: it is invalid, or has ids of the other kind; nothing was counted.
        """
        with self.lock:
            counts = self._counts
            of_items = per_item is None and shown_instead is None
            # One by one, and `add` before its call: the interpreter has an instruction for each.
            if baseline is None and typed is None and history is None and of_items:
                if scores is None and user is None and ts is None:
                    if positions is None:
                        add = counts.add
                        if add(recommendations, interactions):
                            return
                    elif counts.add_ranked(recommendations, interactions, positions):
                        return
                elif counts.add_event(recommendations, interactions, positions, scores, user, ts):
                    return
            counts.check_and_add(
                Event(
                    recommendations=recommendations,
                    interactions=interactions,
                    positions=positions,
                    scores=scores,
                    baseline=baseline,
                    typed=() if typed is None else typed,
                    history=history,
                    per_item=per_item,
                    shown_instead=shown_instead,
                    user=user,
                    ts=ts,
                )
            )

    def update_many(
        self,
        batch: Batch | Columns | ArrowTable | Iterable[Event] | Iterable[Pair] | Any,
        interactions: Any = None,
    ) -> None:
        """Count many lists: faster than one by one, with the same bits.

        Args:
            batch: Events, (recommendations, interactions) pairs, or their columns: lists in a
                Batch, arrays in Columns, or an Arrow table with columns named like those. With
                `interactions`, only the recommendations: an array or a sequence of lists.
            interactions: those of each list: an array or a sequence of collections.

        Raises:
            InvalidEventError: one is invalid, or has ids of the other kind; nothing was counted.
            MissingExtraError: an Arrow table needs pyarrow, which is not installed.
        """
        raw = batch if interactions is None else side_by_side(batch, interactions)
        with self.lock:
            self._counts.count(raw)

    def read(self, metric: str) -> Reading:
        """Read a metric: any that can be computed from the statistics kept, not only those named.

        Returns:
            The value and its evidence; NaN without evidence.

        Raises:
            MetricError: the metric is unknown, or its statistics were not kept.
        """
        with self.lock:
            return self._counts.read(metric, self.metrics, self._method)

    def value(self, metric: str) -> float:
        """The value alone: with `intervals`, far cheaper than `read`, which gives the interval too.

        Raises:
            MetricError: the metric is unknown, or its statistics were not kept.
            UndefinedMetricError: its convention refuses a list.

        Example:
            >>> accumulator = Accumulator("hit_rate", intervals=Intervals())
            >>> accumulator.update(["a", "b"], ["b"], user="u")
            >>> accumulator.value("hit_rate")
            1.0
        """
        with self.lock:
            return self._counts.read(metric, self.metrics, None).value

    def interval(
        self, metric: str, method: IntervalKind = "anytime", precision: float | None = None
    ) -> Interval | None:
        """Confidence interval of a metric, or None; `read(metric).no_interval` gives the reason.

        Args:
            metric: a metric named at construction.
            method: "anytime" holds however often you look; "fixed" is narrower and holds for one
                planned look; "pointwise" holds for one window of many.
            precision: relative half width at which an anytime interval is tightest.

        Raises:
            MetricError: the metric is unknown or was not kept, or method or precision is not valid.

        Example:
            >>> accumulator = Accumulator("ctr", intervals=Intervals())
            >>> for user in range(2_000):
            ...     accumulator.update(["a", "b"], ["a"] if user % 8 else [], user=f"u{user}")
            >>> found = accumulator.interval("ctr", method="fixed")
            >>> found.low < accumulator.read("ctr").value < found.high
            True
        """
        check_method(method, get_args(IntervalKind))
        settings = reading_intervals.interval_method(self.intervals, method, precision)
        with self.lock:
            if settings is None:
                return None
            return self._counts.read(metric, self.metrics, settings).interval

    def groups(self, metric: str) -> GroupSums | None:
        """Numerators and denominators of a metric by event day and user bucket.

        None if no sums are kept by user; `read(metric).no_interval` gives the reason.

        Raises:
            MetricError: the metric is unknown.
        """
        with self.lock:
            sums = interval_groups.group_sums(metric_of(metric, self.metrics), self.table, CELL)
            return None if sums is None else sums[0]

    @property
    def audience(self) -> Audience | None:
        """Hashes of the users, beyond a cap a sample of them; None without `intervals`."""
        with self.lock:
            return next(iter(interval_users.audiences(self.table, CELL)), None)

    def compute(self) -> dict[str, Reading]:
        """The readings of all metrics named at construction, by canonical text.

        `[...]` also finds a reading by any other spelling.

        Example:
            >>> accumulator = Accumulator("hr@2")
            >>> accumulator.update(["a", "b"], ["b"])
            >>> readings = accumulator.compute()
            >>> list(readings), readings["hr@2"].value
            (['hit_rate@2'], 1.0)
        """
        with self.lock:
            counts, metrics, method = self._counts, self.metrics, self._method
            warning = self._current_warning(counts)
            texts = (metric.text for metric in metrics)
            result = readings.Readings({text: counts.read(text, metrics, method) for text in texts})
        if warning is not None:
            warnings.warn(warning, SuspiciousEventsWarning, stacklevel=2)
        return result

    def advice(self) -> str | None:
        """A warning if the events look wrong, for example if ids never match; otherwise None."""
        with self.lock:
            return self._advice(self._counts)

    def _advice(self, counts: Counts) -> str | None:
        """See `advice`."""
        table, before = counts.flush(), counts.lists_before
        (of_counts,) = count_checks.cell_advice(table, CELL, self.metrics, before)
        return counts.event_checks.warning(self.metrics) if of_counts is None else of_counts.text

    def _current_warning(self, counts: Counts) -> str | None:
        """`advice`, which is looked for again when there is more to see."""
        changes, lists, wait, earlier = counts.next_check
        if counts.changes == changes and counts.lists <= lists:
            return earlier
        if counts.lists < count_checks.fewest_lists(self.metrics, self.context):
            warning = counts.event_checks.warning(self.metrics)
        else:
            warning = self._advice(counts)
        # A warning that stands is looked for at the next event, and then at growing distances.
        longest = counts.lists // _CHECKED
        next_wait = 0 if earlier is None else min(2 * wait + 1, longest)
        wait = longest if warning is None else next_wait
        counts.next_check = counts.changes, counts.lists + wait, wait, warning
        return warning

    def merge(self, other: Accumulator) -> None:
        """Add the counts of another accumulator: the same bits as counting all events here.

        Raises:
            UnlikeStateError: its metrics, depth, caps, catalogue or kind of ids differ.
        """
        if not isinstance(other, Accumulator):
            raise unlike("classes", "Accumulator", type(other).__name__)
        if self.context is not other.context:
            check_same_inputs(self.context.identity, other.context.identity)
        # Hold only one lock at a time: two threads that merge crosswise would deadlock.
        with other.lock:
            counts = other._counts.copy()
        with self.lock:
            self._counts.merge(counts)

    def reset(self) -> None:
        """Discard all counts, and a change that a signal handler interrupts to call it."""
        with self.lock:
            self._counts = Counts(self._empty_table(), resets=self.resets + 1)

    def copy(self) -> Accumulator:
        """An independent accumulator with the same content."""
        with self.lock:
            return Accumulator._of(self._settings, self._counts.copy())

    def state_dict(self) -> dict[str, Any]:
        """The counts as integers and strings, ready for JSON; equal counts give equal states."""
        texts, names = [metric.text for metric in self.metrics], list(self._plan.descriptions)
        return codec.state_of(b"".join(self.dump()), texts, self.context.identity, names)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Replace the counts by those of a `state_dict`.

        Raises:
            StateVersionError: this release cannot read its version.
            UnlikeStateError: its statistics, depth, caps, inputs or kind of ids differ.
            DamagedStateError: it is damaged; the counts are unchanged.
        """
        self.adopt(codec.content_of(state, self.context.identity, list(self._plan.descriptions)))

    def dump(self) -> Iterator[bytes]:
        """The counts as bytes, in pieces; equal counts give equal bytes.

        They are those of this call, whatever is counted before the last piece is read.

        Example:
            >>> accumulator, other = Accumulator("mrr"), Accumulator("mrr", "auc")
            >>> accumulator.update(["a", "b"], ["b"])
            >>> sorted(other.adopt(b"".join(accumulator.dump())))
            ['scores']
            >>> other.read("mrr").value
            0.5
        """
        return self.copy().table.dump([0])

    def adopt(self, data: bytes) -> frozenset[str]:
        """Replace the counts by the output of `dump`, even of an accumulator with other metrics.

        Statistics that these metrics do not read are dropped; missing ones start empty.

        Returns:
            The names of the statistics that start empty, as in `needs`.

        Raises:
            StateVersionError: this release cannot read its version.
            UnlikeStateError: its inputs or kind of ids differ.
            DamagedStateError: it is damaged; the counts are unchanged.
        """
        fresh = self._empty_table()
        missing = fresh.load(data, [0])
        lists = int(fresh.lists(CELL)[0])
        with self.lock:
            before = lists if missing else 0
            self._counts = Counts(fresh, lists, lists_before=before, resets=self.resets)
        return missing

    def needs(self, metric: str | Metric) -> frozenset[str]:
        """Names of the statistics that a metric reads.

        Raises:
            MetricError: the metric is unknown, or its statistics were not kept.
        """
        with self.lock:
            return readings.statistic_names(metric_of(metric, self.metrics), self.table)

    def __repr__(self) -> str:
        values = ", ".join(readings.value_text(metric, self.read) for metric in self.metrics)
        return f"<Accumulator of {self.lists:,} list{'s' * (self.lists != 1)}: {values}>"

    def _repr_html_(self) -> str:
        """A table of the values, for notebooks."""
        from html import escape  # noqa: PLC0415  for notebooks alone

        rows = [("metric", "value", "count")]
        for text, reading in self.compute().items():
            value = f"{reading.value:.4g}" if reading.defined else "undefined"
            rows.append((text, value, f"{reading.count:,}"))
        cells = ["".join(f"<td>{escape(cell)}</td>" for cell in row) for row in rows]
        lists = f"<caption>{self.lists:,} list{'s' * (self.lists != 1)}</caption>"
        return f"<table>{lists}{''.join(f'<tr>{row}</tr>' for row in cells)}</table>"

    def __getstate__(self) -> dict[str, Any]:
        # Formulas are closures, which cannot be pickled; pickle the definitions and the counts.
        with self.lock:
            counts = self._counts.copy()
        content = {
            "state": Accumulator._of(self._settings, counts).state_dict(),
            "event_checks": counts.event_checks.content(),
            "before": counts.lists_before,
        }
        # The plan is made again, so that pickles do not depend on what it consists of.
        settings, limits = self._settings._asdict(), self._plan.limits
        del settings["plan"]
        settings |= {"version": codec.STATE_VERSION, "limits": (limits.depth, limits.max_items)}
        return settings | content

    def __setstate__(self, made: Mapping[str, Any]) -> None:
        if made.get("version") != codec.STATE_VERSION:
            raise unknown_version("accumulator", made.get("version"), codec.STATE_VERSION)
        (depth, max_items), intervals = made["limits"], made["intervals"]
        groups = intervals.groups if intervals else 0
        plan = make_plan(
            made["metrics"], depth or ALL_LISTS, max_items, groups, needs=made["needs"]
        )
        names = (name for name in _Settings._fields if name != "plan")
        self._set_up(_Settings(plan=plan, **{name: made[name] for name in names}))
        self._counts = Counts(self._empty_table())
        self.load_state_dict(made["state"])
        self._counts.event_checks.add(EventChecks.from_content(made["event_checks"]))
        self._counts.lists_before = made["before"]

    @classmethod
    def _of(cls, settings: _Settings, counts: Counts) -> Accumulator:
        """An accumulator of checked settings with these counts."""
        self = cls.__new__(cls)
        self._set_up(settings)
        self._counts = counts
        return self

    def _set_up(self, settings: _Settings) -> None:
        self._settings = settings
        self.metrics, self.context, self._plan, _, self.intervals, _ = settings
        self._method = None
        if self.intervals is not None:
            self._method = reading_intervals.interval_method(self.intervals)
        self.lock = forkable_lock()

    def _empty_table(self) -> Table:
        return Table(self._plan, self.context, ids=self._settings.ids)
