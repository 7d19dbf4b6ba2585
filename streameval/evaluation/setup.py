"""Setup of an evaluation: how the inputs of a caller are read, and what is counted of them."""

from __future__ import annotations

from collections.abc import Sequence, Sized
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from streameval.accumulator import Accumulator
from streameval.accumulator.kinds.experiment import PrePeriod
from streameval.accumulator.plan import make_plan
from streameval.catalogue.metric import Metric
from streameval.decoding.fields import EventFields
from streameval.engine.analysis import Analysis, configured
from streameval.engine.windows.family import FamilySpec
from streameval.engine.windows.labels import NO_CAP, LabelCapOptions
from streameval.engine.windows.times import DurationError, Spans, parse_spans
from streameval.evaluation.arguments import (
    OF_FILES,
    InputError,
    Options,
    refuse_options,
)
from streameval.evaluation.event_rows import EventRows, Needs
from streameval.evaluation.fields import (
    RANKERS,
    check_fields,
    check_metrics,
    event_fields,
    reads_types,
)
from streameval.evaluation.files import Frame
from streameval.evaluation.item_rows import FIELDS_OF_ROWS, check_field
from streameval.evaluation.joins import FIELDS_OF_JOINS, event_fields_of
from streameval.evaluation.sources import (
    ONLY_TREC_PAIRS,
    CallInputs,
    EventSource,
    EventTables,
    JoinSource,
    Lines,
    joined_rows,
    list_events,
    scored_events,
    usual_user,
)
from streameval.events.errors import UsageError
from streameval.events.ids import IdKind
from streameval.statistics.intervals import Intervals
from streameval.statistics.limits import MAX_ITEMS

if TYPE_CHECKING:
    from streameval.config import Config


class Request(NamedTuple):
    """The inputs and options of a call; `added`: metrics that an experiment names, too."""

    call: CallInputs
    options: Options
    added: Sequence[str] = ()

    @property
    def files(self) -> Sequence[str]:
        """The names of all files and frames."""
        return self.call.names

    def with_options(self, **changes: Any) -> Request:
        """The request with other options."""
        return self._replace(options=msgspec.structs.replace(self.options, **changes))


def explicit_options(**options: object) -> dict[str, Any]:
    """The options without those that were left out: None, False or empty; a number 0 is given."""
    return {
        name: value
        for name, value in options.items()
        if (len(value) if isinstance(value, Sized) else value is not None and value is not False)
    }


class Setup(NamedTuple):
    """Everything that is counted.

    Attributes:
        labels: names of the labels of an event, then of its segments.
        every: spans of event time; None for all time.
        config: with which a daemon would count the same; None without a file.
        analysis: that needs the counts; None if only values are read.
        notes: what of the configuration does not apply.
        experiment: whether users of labels are counted one by one, for a comparison; and the days
            before it, if what they did then adjusts it.
    """

    call: CallInputs
    options: Options
    fields: EventFields
    labels: Sequence[str]
    metrics: Sequence[Metric]
    intervals: Intervals | None
    every: Spans | None = None
    config: Config | None = None
    analysis: Analysis[Any, Any] | None = None
    notes: Sequence[str] = ()
    experiment: bool | PrePeriod = False

    @property
    def label_names(self) -> Sequence[str]:
        """The labels by which values are read: without segments, and with that of rankers."""
        return self.labels if self.config is None else self.config.series_labels()

    @property
    def is_ordered(self) -> bool:
        """True if what counts depends on the order of events: with windows, dedup and joins."""
        config = self.config
        if config is None:
            return False
        windows = bool(config.windowing().spans) and self.every is None and self.analysis is None
        return windows or config.dedup is not None or config.attribution is not None

    @property
    def needs_engine(self) -> bool:
        """True if the engine counts: where the order matters, and for reports of analyses."""
        reports = self.analysis is None and self.every is None and self.config is not None
        return self.is_ordered or (reports and bool(configured(self.config)))

    @property
    def inputs(self) -> dict[str, Any]:
        """The inputs of metrics that the caller gave; a configuration names its catalogue."""
        explicit = dict(self.options.inputs)
        if self.config is None:
            explicit["time_zone"] = self.options.time_zone
        if self.config is not None and isinstance(explicit.get("catalog"), int | str):
            del explicit["catalog"]
        return explicit

    def with_intervals(self, intervals: Intervals) -> Setup:
        """The setup with other settings of intervals."""
        config = self.config
        if config is not None:
            config = msgspec.structs.replace(config, intervals=intervals)
        return self._replace(intervals=intervals, config=config)

    def without_labels(self) -> Setup:
        """The setup for all events together."""
        config = self.config
        if config is None:
            return self._replace(labels=[])
        from streameval.config.config import relabel  # noqa: PLC0415  large

        config = relabel(msgspec.structs.replace(config, segments=[]), labels=[])
        return self._replace(labels=[], fields=config.event, config=config)

    def accumulator(self, ids: IdKind | None, intervals: Intervals | None = None) -> Accumulator:
        """An empty accumulator of all metrics; reads the files that a configuration names."""
        inputs, config = self.inputs, self.config
        if config is not None:
            inputs["ids"] = ids
            return msgspec.structs.replace(config, intervals=intervals).accumulator(inputs)
        if isinstance(inputs.get("catalog"), str):
            from streameval.config.config import item_ids  # noqa: PLC0415  rarely needed

            as_id = int if ids == "integer" else str
            inputs["catalog"] = item_ids(inputs["catalog"], as_id)
        experiment = bool(self.labels) and self.experiment
        return Accumulator(
            *self.metrics, **inputs, ids=ids, intervals=intervals, experiment=experiment
        )

    def families(self, ids: IdKind) -> Sequence[FamilySpec]:
        """The families for events with ids of this kind; reads the files of a configuration."""
        if self.config is not None:
            from streameval.config.pipeline import layout  # noqa: PLC0415  large
            from streameval.evaluation.configuration import with_ids  # noqa: PLC0415  large

            return layout(with_ids(self.config, ids), self.inputs).families
        empty = self.accumulator(ids, self.intervals)
        return [
            FamilySpec(
                name="labels",
                metrics=empty.metrics,
                table=empty.table,
                dimensions=tuple(self.labels),
                columns=tuple(range(len(self.labels))),
                # Files are finite, so labels need no cap.
                label_caps=LabelCapOptions(cap=NO_CAP, max_series=NO_CAP),
            )
        ]

    def open(self) -> EventSource:
        """The events of the inputs."""
        call, options, fields, every = self.call, self.options, self.fields, self.every
        columns = frozenset[str]().union(*(metric.columns for metric in self.metrics))
        of_users = bool(call.is_pair and self.labels)
        users = self.intervals is not None or of_users or "users" in columns
        needs = Needs(
            users=users,
            times=users or self.is_ordered or every is not None,
            event_ids=self.config is not None and self.config.dedup is not None,
            in_order=self.is_ordered,
            scores="scores" in columns,
            repeats=any(metric.convention == "rectools" for metric in self.metrics),
            single=any(metric.convention == "trec" for metric in self.metrics),
            others=any(metric.convention != "trec" for metric in self.metrics),
            types=any(map(reads_types, self.metrics)),
            typed_metric=next((x.text for x in self.metrics if x.values.get("type")), None),
        )
        if call.kind == "lines":
            return Lines(call.events, fields, self.labels, options)
        if call.kind == "tables":
            rows = EventRows(fields, self.labels, needs, options)
            return EventTables(call.events, rows, options)
        if call.kind == "joined":
            # What names columns of the tables names none of their lists.
            rows = EventRows(
                fields, self.labels, needs, msgspec.structs.replace(options, separator={})
            )
            return JoinSource(call.events, call.names, rows, options)
        if call.kind == "aligned":
            return list_events(call, options)
        if call.kind == "scores":
            depth = make_plan(self.metrics, None, MAX_ITEMS).limits.depth
            return scored_events(call, depth, options, needs)
        return joined_rows(call, options, fields, needs, every)


def setup_of(request: Request, analysis: Analysis[Any, Any] | None = None) -> Setup:
    """The setup for a request; of an analysis, with its table of the configuration."""
    call, options, added = request
    for field in options.columns if call.is_pair else ():
        check_field(field, [*FIELDS_OF_ROWS, *options.by])
    if options.by and call.kind in ("aligned", "scores") and call.users is None:
        raise InputError("{by} splits tables and events; give the labels of lists as {users}.")
    if not call.is_pair and options.ties is not None:
        raise InputError("{ties} is for {recommendations} with {truth}; leave it out.")
    # Only a daemon's configuration has what rankers need.
    if options.config is not None or any(name.startswith(RANKERS) for name in options.columns):
        return _of_config(request, analysis)
    named = msgspec.structs.replace(options, metrics=[*options.metrics, *added])
    metrics = check_metrics(named)
    fields = fields_of_call(EventFields(), call, options, options.by)
    fields = usual_user(call, fields, options.by)
    check_fields(metrics, fields, call)
    every = _spans(options, fields, options.time_zone)
    intervals = options.intervals
    return Setup(call, options, fields, options.by, metrics, intervals, every, analysis=analysis)


def fields_of_call(
    base: EventFields, call: CallInputs, options: Options, labels: Sequence[str]
) -> EventFields:
    """The fields of an event of the inputs; see `event_fields`."""
    if call.kind != "joined":
        return event_fields(base, call, options, labels)
    rest = {name: of for name, of in options.columns.items() if name not in FIELDS_OF_JOINS}
    rest_options = msgspec.structs.replace(options, columns=rest, time_unit=None)
    return event_fields(event_fields_of(base), call, rest_options, labels)


def _of_config(request: Request, analysis: Analysis[Any, Any] | None) -> Setup:
    from streameval.evaluation.configuration import as_join, config_of, of_rows  # noqa: PLC0415  large

    call, options, added = request
    config = config_of(call, options, added=added, analysis=analysis)
    call, config = as_join(call, config)
    notes = []
    if call.is_pair:
        of_events = (config.windows, config.segments or None, config.dedup, config.event.types)
        if any(of is not None for of in of_events):
            notes = ["windows, segments, dedup and types need events; rows of items have none."]
        config = of_rows(config, options.by)
    if call.is_columns and config.event.rankers:
        raise UsageError("lists of rankers are read from JSON lines, not from tables.")
    if call.kind == "tables" and config.event.types is not None:
        raise UsageError("[event] types are read from JSON lines; tables have none.")
    if not call.names:
        call = CallInputs("lines", config.source.logs, config.source.logs)
    metrics = [metric for group in config.families() for metric in group.metrics]
    return Setup(
        call,
        options,
        config.event,
        config.dimensions(),
        [*dict.fromkeys(metrics)],
        config.intervals,
        _spans(options, config.event, config.time_zone),
        config,
        analysis,
        notes,
    )


def refuse_idle(options: Options, *runs: CallInputs) -> None:
    """Refuse options of files, cells and order where no run has any: they would do nothing."""
    kinds = {call.kind for call in runs}
    if kinds <= {"aligned", "scores"}:
        ties = ("ties",) if kinds == {"aligned"} else ()
        refuse_options(options, (*OF_FILES, *ties), " is for files and frames; these have none.")
        refuse_options(
            options, ("combine",), " is for rows and records; here an item has one gain."
        )
    if options.form == "trec" and "pair" not in kinds:
        raise InputError(ONLY_TREC_PAIRS)
    if "joined" in kinds:
        refuse_options(options, ("combine",), " is in {attribution} of a join.")
    if kinds == {"lines"} and any(call.names for call in runs):
        refuse_options(
            options, ("separator", "header", "delimiter"), " is for tables, not for JSON."
        )
    tables = [table for call in runs for table in call.tables]
    if kinds & {"tables", "joined", "pair"} and not any(isinstance(table, str) for table in tables):
        refuse_options(options, ("form", "header", "delimiter"), " is for files; there are none.")
        if all(isinstance(table, Frame) and table.has_usual_names for table in tables):
            refuse_options(options, ("separator",), " is for cells of tables; mappings have ids.")


def _spans(options: Options, fields: EventFields, time_zone: str | None) -> Spans | None:
    if options.every is None:
        return None
    try:
        every = parse_spans(options.every, time_zone)
    except DurationError as error:
        raise InputError("{every}: {problem}", problem=str(error)) from None
    if not every.length:
        problem = f"found {options.every!r}; give at least 1s."
        raise InputError("{every}: {problem}", problem=problem)
    if fields.time is None:
        raise InputError(
            "{every} needs event time: name its field and unit with {columns.time=NAME} and "
            "{time_unit}, or as time and time_unit under [event] in {config=FILE}."
        )
    return every
