"""The whole configuration, and its metrics grouped by labels, segments and windows.

Methods that read files named in the configuration raise SourceError; methods that parse its
metrics raise MetricError.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from types import MappingProxyType
from typing import Annotated, Any, Final, TypeVar

import msgspec
from msgspec import Meta

from streameval.accumulator import Accumulator
from streameval.accumulator.kinds.spec import Need
from streameval.accumulator.plan import ALL_LISTS, make_plan
from streameval.catalogue import parse
from streameval.catalogue.context import USER_KEY
from streameval.catalogue.lookup import absent_module
from streameval.catalogue.metric import Metric
from streameval.config.tables import (
    AttributeOptions,
    DeadLetterOptions,
    LogOptions,
    MetricOptions,
    PopularityOptions,
    SimilarityOptions,
    StateOptions,
    WebOptions,
    WindowsOptions,
    attribute,
    durations,
    looks_like_header,
    popularity,
    similarity,
)
from streameval.decoding.fields import SHOWN, EventFields
from streameval.engine.analysis import Configured, CountedFamily, CountedSetup, configured
from streameval.engine.rankers import RANKER
from streameval.engine.windows.labels import LABEL_CAP, MAX_SERIES, NO_CAP
from streameval.engine.windows.times import Windowing, duration_of, span_text
from streameval.events import Id
from streameval.events.analysis_registry import look_up
from streameval.events.errors import MetricError, SourceError
from streameval.events.previews import hide_previews
from streameval.events.problems import check_types
from streameval.events.saved_states import damage_as_error
from streameval.inference.days import TimeZoneError, checked_time_zone
from streameval.join.attribution import AttributionOptions
from streameval.sources.files import lines
from streameval.sources.schemas.registry import RegistryOptions
from streameval.sources.settings import SourceOptions
from streameval.statistics.intervals import Intervals
from streameval.statistics.limits import MAX_ITEMS
from streameval.statistics.user_key import UserHashKey, saved_key

MOST_SERIES: Final = 65_536
"""Combinations that a daemon exports."""

T = TypeVar("T")

_DURATIONS: Final = ("labels_idle", "max_ahead", "dedup")
_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The configuration: what is counted, its source and targets; needs a metric and `source`.

    A file also has a table for each analysis: see `configuration`.

    Attributes:
        metrics: metrics for all labels, segments and windows, for example "ndcg@10".
        source: origin of the records.
        metric: metrics for only some labels, segments or windows, one table each.
        labels: fields of a record whose values split every metric.
        segments: fields that split every metric in addition to the labels, one at a time.
        label_cap: most values of a label or segment with their own series, apart from those in
            `label_values`.
        label_values: label or segment -> values that always have their own series.
        max_series: most combinations of label values for each family of series; at most 65,536.
        labels_idle: values without an event for longer are hidden.
        windows: spans of event time to report, in addition to the lifetime.
        dedup: event time for which event ids are remembered; None: duplicates count.
        max_ahead: an event further ahead of its log's clock must be confirmed by later ones.
        catalog: number of items, or a file of their ids, one per line.
        popularity: number of users who interacted with each item before.
        similarity: similarity of pairs of items.
        attributes: name -> attribute of items, such as genres, one table each: [attributes.genre].
        examination: chance that users look at rank 1, 2, ..., for example [1, 0.6, 0.4]; the last
            value also applies to deeper ranks.
        user_key: where the key for hashing users is: "${file:PATH}" or "${NAME}"; None: a hash
            that anyone with a list of ids can recompute.
        depth: ranks kept, 0 for whole lists; None: the largest cut-off of the metrics.
        max_items: most distinct items counted exactly for coverage.
        intervals: confidence intervals, by user bucket; None: no intervals.
        time_zone: time zone of the days of experiments and changes, for example "Europe/Berlin";
            None: UTC. Windows and panes do not depend on it.
        event: fields of a record.
        registry: schemas of Avro records.
        attribution: streams to join; None: each record is an event.
        state: store of checkpoints; None: metrics reset on restart.
        dead_letters: destination of invalid records; None: they are only counted.
        log: what is logged.
        web: HTTP server.
    """

    metrics: list[str] = []
    source: SourceOptions
    metric: list[MetricOptions] = []
    labels: list[str] = []
    segments: list[str] = []
    label_cap: Annotated[int, Meta(ge=1)] = LABEL_CAP
    label_values: dict[str, list[str]] = {}
    max_series: Annotated[int, Meta(ge=1)] = MAX_SERIES
    labels_idle: str = "24h"
    windows: WindowsOptions | None = None
    dedup: str | None = None
    max_ahead: str = "1m"
    catalog: Annotated[int, Meta(ge=1)] | str | None = None
    popularity: PopularityOptions | None = None
    similarity: SimilarityOptions | None = None
    attributes: dict[str, AttributeOptions] = {}
    examination: list[float] | None = None
    user_key: str | None = None
    depth: Annotated[int, Meta(ge=0)] | None = None
    max_items: Annotated[int, Meta(ge=1)] = MAX_ITEMS
    intervals: Intervals | None = None
    time_zone: str | None = None
    event: EventFields = EventFields()
    registry: RegistryOptions | None = None
    attribution: AttributionOptions | None = None
    state: StateOptions | None = None
    dead_letters: DeadLetterOptions | None = None
    log: LogOptions = LogOptions()
    web: WebOptions = WebOptions()

    def __post_init__(self) -> None:
        check_types(self, self._problems())

    def _problems(self) -> Iterator[tuple[str, str]]:
        """Invalid durations, an unknown time zone, and more series than a daemon exports."""
        yield from durations({name: getattr(self, name) for name in _DURATIONS})
        try:
            checked_time_zone(self.time_zone)
        except TimeZoneError as error:
            yield "time_zone", error.problem
        if MOST_SERIES < self.max_series != NO_CAP:
            remedy = f"give a whole number of at least 1 and at most {MOST_SERIES:,}"
            yield "max_series", f"found {self.max_series:,}; {remedy}."

    def hide_previews(self) -> None:
        """Hide what records hold from messages, in this process and for good, if configured so.

        What messages may still name are the fields of the configuration.
        """
        if not self.log.previews:
            tables = msgspec.to_builtins((self.event, self.attribution, self.dimensions()))
            hide_previews(_texts(tables))

    @property
    def dead_letter_options(self) -> DeadLetterOptions | None:
        """Options of dead letters; by default, Kafka sources with [state] have them."""
        by_default = self.state is not None and self.source.has_topics
        return self.dead_letters or (DeadLetterOptions() if by_default else None)

    def dimensions(self) -> list[str]:
        """Labels, then segments: the order in which the decoder reads them from every event."""
        return [*self.labels, *self.segments]

    def series_labels(self) -> list[str]:
        """The labels of the series: those of events, and the ranker of a list if there are any."""
        return [*self.labels, RANKER] if self.event.rankers else [*self.labels]

    def series_dimensions(self) -> list[str]:
        """The dimensions of the lists that count: those of events, then the ranker."""
        return [*self.dimensions(), RANKER] if self.event.rankers else self.dimensions()

    def named_values(self, name: str) -> frozenset[str]:
        """The values of a label or segment that always have their own series."""
        rankers = (SHOWN, *self.event.ranker_names) if name == RANKER else ()
        expected = (
            entry.value
            for analysis, settings in configured(self)
            for entry in analysis.expects(settings)
            if entry.label == name
        )
        return frozenset((*self.label_values.get(name, ()), *rankers, *expected))

    def windowing(self) -> Windowing:
        """Pane, windows and lateness; without [windows], the defaults."""
        if self.windows is None:
            return Windowing()
        return Windowing(
            pane=duration_of(self.windows.pane),
            spans=tuple(sorted(map(duration_of, self.windows.spans))),
            lateness=duration_of(self.windows.lateness),
            names=tuple((duration_of(text), text) for text in self.windows.spans),
        )

    def families(self) -> tuple[CountedFamily, ...]:
        """The metrics grouped by extent: families without a segment first, then by segment."""
        spans = self.windowing().spans
        groups_read: dict[tuple[frozenset[str], frozenset[int], str | None], list[Metric]] = {}
        for options in (*(MetricOptions(name=text) for text in self.metrics), *self.metric):
            labels = frozenset(self.labels if options.labels is None else options.labels)
            labels |= {RANKER} & {*self.series_labels()}
            read = frozenset(
                spans if options.windows is None else map(duration_of, options.windows)
            )
            segments = self.segments if options.segments is None else options.segments
            for segment in (None, *(name for name in self.segments if name in segments)):
                groups_read.setdefault((labels, read, segment), []).append(parse(options.name))
        groups = [self._group(*how, metrics) for how, metrics in groups_read.items()]
        order = {name: index for index, name in enumerate((None, *self.segments))}
        groups.sort(key=lambda group: (order[group.segment], group.name))
        # The first of each segment also shows the overlap with the list shown.
        first = {group.segment: group for group in reversed(groups)}
        return tuple(
            msgspec.structs.replace(
                group, metrics=tuple(dict.fromkeys([*group.metrics, *self._overlap()]))
            )
            if group is first[group.segment]
            else group
            for group in groups
        )

    def _overlap(self) -> tuple[Metric, ...]:
        """The metric that tells how far the lists of rankers were shown; none without rankers."""
        depth = make_plan(self._named(), self.depth, self.max_items).limits.depth
        cut = "" if depth is None else f"@{depth}"
        return (parse(f"overlap{cut}"),) if self.event.rankers else ()

    def _group(
        self,
        labels: frozenset[str],
        spans: frozenset[int],
        segment: str | None,
        metrics: list[Metric],
    ) -> CountedFamily:
        only = "" if labels == {*self.series_labels()} else f"({','.join(sorted(labels))})"
        every = spans == set(self.windowing().spans)
        windows = "" if every else f"[{','.join(map(span_text, sorted(spans)))}]"
        last = () if segment is None else (segment,)
        return CountedFamily(
            name=f"{segment or LABELS}{only}{windows}",
            segment=segment,
            dimensions=(*(name for name in self.series_labels() if name in labels), *last),
            metrics=tuple(metrics),
            spans=tuple(sorted(spans)),
        )

    def accumulator(self, overrides: Mapping[str, Any] = _NOTHING) -> Accumulator:
        """An empty accumulator of all metrics; reads the files that the configuration names.

        `overrides`: as in `inputs`.
        """
        inputs = self.inputs(overrides)
        needs = chain.from_iterable(map(self._needs, self.families()))
        metrics = *self._named(), *self._overlap()
        return Accumulator(*metrics, **inputs, depth=self.depth, needs=dict.fromkeys(needs))

    def accumulators(
        self, overrides: Mapping[str, Any] = _NOTHING
    ) -> list[tuple[CountedFamily, Accumulator]]:
        """The families, each with an empty accumulator of its metrics; all have the same depth."""
        inputs, depth = self.inputs(overrides), self.counted_depth() or ALL_LISTS
        return [
            (
                group,
                Accumulator(
                    *group.metrics,
                    *self._overlap(),
                    **inputs,
                    depth=depth,
                    needs=self._needs(group),
                ),
            )
            for group in self.families()
        ]

    def _needs(self, family: CountedFamily) -> list[Need]:
        """The needs of analyses for a family, besides the statistics of its metrics."""
        return [
            need
            for analysis, settings in configured(self)
            if analysis.needs is not None
            for need in analysis.needs(settings, family)
        ]

    def counted_setup(self) -> CountedSetup:
        """Everything that it counts, for the checks of analyses."""
        return CountedSetup(
            labels=self.series_labels(),
            segments=self.segments,
            rankers=(SHOWN, *self.event.ranker_names) if self.event.rankers else (),
            families=self.families(),
            intervals=self.intervals,
            timed=self.event.time is not None,
        )

    def counted_depth(self) -> int | None:
        """Ranks kept of every list; None for whole lists."""
        return make_plan(self._named(), self.depth, self.max_items).limits.depth

    def settings(self) -> dict[str, Any]:
        """The settings that must be equal to resume from a checkpoint, as plain values."""
        event = msgspec.to_builtins(self.event)
        for key, default in (("format", "json"), ("message", None), ("decoder", None)):
            if event[key] == default:
                del event[key]
        return {
            "event": event,
            "labels": list(self.labels),
            "segments": list(self.segments),
            "pane": self.windowing().pane,
            "depth": self.counted_depth(),
            "max_items": self.max_items,
        } | ({} if self.attribution is None else {"attribution": self.attribution.settings()})

    def items(self) -> int | frozenset[Id] | None:
        """The catalogue: the number of items, or their ids; None if not configured."""
        if not isinstance(self.catalog, str):
            return self.catalog
        return item_ids(self.catalog, self._as_id)

    def input_files(self) -> list[str]:
        """The files with what is known of items."""
        tables = (*self.attributes.values(), self.popularity, self.similarity)
        names = ("path", "vectors", "pairs")
        named = [getattr(table, name, None) for table in tables for name in names]
        return [path for path in (*named, self.catalog) if isinstance(path, str)]

    @property
    def _as_id(self) -> Callable[[str], Id]:
        return int if self.event.ids == "integer" else str

    def _named(self) -> list[Metric]:
        return [parse(text) for text in (*self.metrics, *(options.name for options in self.metric))]

    def reads(self) -> set[str]:
        """The statistics that the metrics read."""
        return {metric.definition.reads for metric in self._named()}

    @property
    def by_user(self) -> bool:
        """True if the users of events are read."""
        per_user = any("users" in metric.columns for metric in self._named())
        return per_user or self.intervals is not None

    @property
    def key_of_users(self) -> UserHashKey | None:
        """The key of the hash of users; raises what `UserHashKey` raises."""
        return None if self.user_key is None else UserHashKey(self.user_key)

    def inputs(self, overrides: Mapping[str, Any] = _NOTHING) -> dict[str, Any]:
        """Arguments of an accumulator besides metrics and depth; reads the files named.

        `overrides`: catalogue, popularity, similarity or examination to take instead of those of
        the configuration, and attributes besides them.
        """
        counts = popularity(self.popularity, self._as_id) if self.popularity else None
        attributes = {
            name: attribute(name, options, counts, self._as_id)
            for name, options in self.attributes.items()
        }
        return {
            "catalog": self.items(),
            "popularity": counts,
            "similarity": similarity(self.similarity, self._as_id) if self.similarity else None,
            "examination": self.examination,
            "user_key": self.key_of_users,
            "max_items": self.max_items,
            "intervals": self.intervals,
            "time_zone": self.time_zone,
            "ids": "integer" if self.event.ids == "integer" else "text",
        } | {**overrides, "attributes": attributes | dict(overrides.get("attributes", {}))}


def _texts(value: object) -> Iterator[str]:
    """All texts in plain values."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from _texts([*value, *value.values()])
    elif isinstance(value, Sequence):
        for inner in value:
            yield from _texts(inner)


def item_ids(path: str, as_id: Callable[[str], Id]) -> frozenset[Id]:
    """The ids of items in a file, one per line.

    Raises:
        SourceError: the file cannot be read, or a line is not an id.
    """
    ids: set[Id] = set()
    try:
        for row, line in enumerate(lines(path)):
            text = line.decode().strip()
            if not row and looks_like_header(text):
                problem = f"line 1, {text!r}, looks like a column name"
                raise ValueError(problem)  # noqa: TRY301  told as what is no id
            ids.add(as_id(text))
    except ValueError as error:
        raise SourceError(path, str(error), "give one id per line") from error
    return frozenset(ids)


LABELS = "labels"
"""Name of the family that is split by all labels and no segment."""


def configuration() -> type[Config]:
    """The type of a file: the configuration with a table for each analysis."""
    with_tables: type[Config] = look_up("Configuration")
    return with_tables


def with_analyses(config: Config, analyses: Iterable[Configured]) -> Config:
    """The configuration with the tables of these analyses, and of no other."""
    fields: dict[str, Any] = {name: getattr(config, name) for name in Config.__struct_fields__}
    tables = {analysis.table: settings for analysis, settings in analyses}
    return configuration()(**fields, **tables)


def relabel(config: Config, labels: Sequence[str]) -> Config:
    """The configuration with other labels; settings of removed labels are dropped.

    The label of the list shown and of the rankers' lists is not a field of an event.
    """
    change = msgspec.structs.replace
    if config.event.rankers:
        labels = [name for name in labels if name != RANKER]
    segments = [name for name in config.segments if name not in labels]

    def among(names: list[str] | None, allowed: Sequence[str]) -> list[str] | None:
        return names and [name for name in names if name in allowed]

    def within(table: Mapping[str, T]) -> dict[str, T]:
        return {name: table[name] for name in table if name in labels or name in segments}

    return change(
        config,
        labels=list(labels),
        segments=segments,
        metric=[
            change(
                table,
                labels=among(table.labels, labels),
                segments=among(table.segments, segments),
            )
            for table in config.metric
        ],
        label_values=within(config.label_values),
        event=change(config.event, labels=within(config.event.labels)),
    )


_LEFT_OUT: Final = ("source", "registry", "state", "dead_letters", "log", "web")
"""Keys of sources and outputs, which do not affect the counts."""

_SCHEMA: Final = "the schema of the state"


def schema(config: Config) -> dict[str, Any]:
    """The settings needed to read a saved state without the configuration, as plain values.

    Files (catalogue, popularity, similarity, attributes) are named, not included; reading the state
    needs them.

    Example:
        >>> from streameval.sources.settings import SimulatorOptions
        >>> config = configuration()(metrics=["ctr"], source=SimulatorOptions(), labels=["variant"])
        >>> from_schema(schema(config)) == config
        True
    """
    fields: dict[str, Any] = msgspec.to_builtins(config)
    default = msgspec.to_builtins(type(config)(source=config.source))
    counting = {name: value for name, value in fields.items() if name not in _LEFT_OUT}
    if (key := config.key_of_users) is not None:
        # Whoever reads the state needs no key, and what a state names is not read.
        counting[USER_KEY] = str(key)
    return {name: value for name, value in sorted(counting.items()) if value != default[name]}


def from_schema(saved: Mapping[str, Any]) -> Config:
    """The configuration that a state was saved with; its source is a placeholder.

    The author of the state chose every name in it, so no module is imported for one: metrics of
    `absent_metrics` are left out, and records are not decoded.

    Raises:
        DamagedStateError: `saved` is not the output of `schema`.
    """
    absent = absent_metrics(saved)
    counted = {name: value for name, value in saved.items() if name not in _LEFT_OUT}
    tables = {
        name: _without(counted[name], absent) for name in _naming_metrics() if name in counted
    }
    with damage_as_error(_SCHEMA):
        if counted.get(USER_KEY) is not None:
            saved_key(counted[USER_KEY])
        config = msgspec.convert(
            {**counted, **tables, "source": {"type": "simulator"}}, configuration()
        )
    return without_formats(config)


def absent_metrics(saved: Mapping[str, Any]) -> Mapping[str, str]:
    """The metrics that a state's schema names and whose module is not loaded -> that module."""
    with damage_as_error(_SCHEMA):
        texts = [text for name in _naming_metrics() for text in _texts_in(saved.get(name))]
    absent: dict[str, str] = {}
    for text in texts:
        with suppress(MetricError):
            if (module := absent_module(text)) is not None:
                absent[text] = module
    return absent


def _naming_metrics() -> set[str]:
    """The keys whose values name metrics: those of analyses may."""
    analyses = {*configuration().__struct_fields__} - {*Config.__struct_fields__}
    return {"metrics", "metric"} | analyses


def _texts_in(value: Any) -> Iterator[str]:
    """The texts in a plain value, and the keys of its tables."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for part in value:
            yield from _texts_in(part)
        for part in value.values() if isinstance(value, dict) else ():
            yield from _texts_in(part)


def _without(value: Any, absent: Collection[str]) -> Any:
    """A plain value without these metrics, as entries, keys and tables of their own."""
    if isinstance(value, dict):
        return {name: _without(part, absent) for name, part in value.items() if name not in absent}
    if isinstance(value, list):
        names = [part.get("name") if isinstance(part, dict) else part for part in value]
        return [
            _without(part, absent)
            for part, name in zip(value, names, strict=True)
            if not isinstance(name, str) or name not in absent
        ]
    return value


def without_formats(config: Config) -> Config:
    """The configuration for JSON lines, whatever the format of the topics; it loads no decoder."""
    replace = msgspec.structs.replace
    options = config.attribution
    if options is not None:
        interactions = [
            replace(stream, format=None, message=None, decoder=None)
            for stream in options.interactions
        ]
        options = replace(options, interactions=interactions)
    event = replace(config.event, format="json", message=None, decoder=None)
    return replace(config, event=event, registry=None, attribution=options)
