"""The whole configuration, and how its metrics are grouped by labels, segments and windows.

What reads the files that a configuration names raises SourceError; what understands its metrics,
MetricError.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from streameval.accumulator import Accumulator
from streameval.accumulator.experiment import Experiment
from streameval.accumulator.plan import WHOLE, planned
from streameval.catalogue import parse
from streameval.catalogue.metric import Metric, Reads
from streameval.config.options import (
    DeadLetterOptions,
    MetricOptions,
    PopularityOptions,
    SimilarityOptions,
    StateOptions,
    WebOptions,
    WindowsOptions,
    popularity,
    similarity,
)
from streameval.decoding.fields import EventFields
from streameval.errors import DamagedStateError
from streameval.events import Id
from streameval.join.options import AttributionOptions
from streameval.sources.files import lines
from streameval.sources.options import SourceOptions
from streameval.sources.schemas.registry import RegistryOptions
from streameval.statistics.exposures import MAX_ITEMS
from streameval.statistics.intervals import Intervals
from streameval.windows.times import Windowing, microseconds, span_text


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A configuration file; a metric and `source` are required.

    Attributes:
        metrics: metrics kept everywhere, for example "ndcg@10".
        source: where the records come from.
        metric: metrics kept for some labels or windows only, one table each.
        labels: fields of a record whose values split every metric.
        segments: fields that split every metric beside the labels, one at a time.
        label_cap: most values of a label or segment with their own series, besides `label_values`.
        label_values: label or segment -> values that always have their own series.
        max_series: most combinations of label values for each family of series.
        labels_idle: values without an event for longer are hidden.
        windows: spans of event time beside the lifetime.
        dedup: event time for which event ids are remembered; None counts duplicates.
        max_ahead: an event further ahead of its log must be confirmed by later ones.
        catalog: number of items, or a file of their ids, one a line.
        popularity: how many users interacted with each item before.
        similarity: how similar two items are.
        depth: ranks kept; None is the largest cut-off asked for.
        max_items: most distinct items counted exactly for coverage.
        intervals: confidence intervals by groups of users; None keeps none.
        experiment: variants compared with a control; needs `intervals`.
        event: which field of a record holds what.
        registry: schemas of Avro and Protobuf records.
        attribution: streams to join; None: each record is an event.
        state: where state is kept; None: it ends with the process.
        dead_letters: where invalid records go; None: they are only counted.
        log_level: least important level that is logged.
        web: where to listen.
    """

    metrics: list[str] = []
    source: SourceOptions
    metric: list[MetricOptions] = []
    labels: list[str] = []
    segments: list[str] = []
    label_cap: Annotated[int, Meta(ge=1)] = 50
    label_values: dict[str, list[str]] = {}
    max_series: Annotated[int, Meta(ge=1)] = 1000
    labels_idle: str = "24h"
    windows: WindowsOptions | None = None
    dedup: str | None = None
    max_ahead: str = "1m"
    catalog: Annotated[int, Meta(ge=1)] | str | None = None
    popularity: PopularityOptions | None = None
    similarity: SimilarityOptions | None = None
    depth: Annotated[int, Meta(ge=1)] | None = None
    max_items: Annotated[int, Meta(ge=1)] = MAX_ITEMS
    intervals: Intervals | None = None
    experiment: Experiment | None = None
    event: EventFields = EventFields()
    registry: RegistryOptions | None = None
    attribution: AttributionOptions | None = None
    state: StateOptions | None = None
    dead_letters: DeadLetterOptions | None = None
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    web: WebOptions = WebOptions()

    def dimensions(self) -> list[str]:
        """Labels and segments: what the decoder reads of every event, in this order."""
        return [*self.labels, *self.segments]

    def windowing(self) -> Windowing:
        """How event time is divided."""
        if self.windows is None:
            return Windowing()
        return Windowing(
            pane=microseconds(self.windows.pane),
            spans=tuple(sorted(map(microseconds, self.windows.spans))),
            lateness=microseconds(self.windows.lateness),
        )

    def families(self) -> tuple[Group, ...]:
        """The metrics by labels alone first, then by segment; in each the largest extent first."""
        spans = self.windowing().spans
        found: dict[tuple[frozenset[str], frozenset[int], str | None], list[Metric]] = {}
        for each in (*(MetricOptions(name=text) for text in self.metrics), *self.metric):
            labels = frozenset(self.labels if each.labels is None else each.labels)
            read = frozenset(spans if each.windows is None else map(microseconds, each.windows))
            chosen = self.segments if each.segments is None else each.segments
            for segment in (None, *(name for name in self.segments if name in chosen)):
                found.setdefault((labels, read, segment), []).append(parse(each.name))
        groups = [self._group(*how, metrics) for how, metrics in found.items()]
        place = {name: index for index, name in enumerate((None, *self.segments))}
        return tuple(sorted(groups, key=lambda group: (place[group.segment], group.name)))

    def _group(
        self,
        labels: frozenset[str],
        spans: frozenset[int],
        segment: str | None,
        metrics: list[Metric],
    ) -> Group:
        some = "" if labels == set(self.labels) else f"({','.join(sorted(labels))})"
        whole = spans == set(self.windowing().spans)
        read = "" if whole else f"[{','.join(map(span_text, sorted(spans)))}]"
        last = () if segment is None else (segment,)
        return Group(
            name=f"{segment or LABELS}{some}{read}",
            segment=segment,
            dimensions=(*(name for name in self.labels if name in labels), *last),
            metrics=tuple(metrics),
            spans=tuple(sorted(spans)),
        )

    def accumulator(self) -> Accumulator:
        """A new accumulator of all metrics; reads the files that the configuration names."""
        return Accumulator(*self._all(), **self.inputs(), depth=self.depth)

    def accumulators(self) -> list[tuple[Group, Accumulator]]:
        """The families, each with an empty accumulator of its metrics; all have the same depth."""
        inputs, depth = self.inputs(), self.kept_depth() or WHOLE
        return [
            (group, Accumulator(*group.metrics, **inputs, depth=depth)) for group in self.families()
        ]

    def kept_depth(self) -> int | None:
        """Ranks kept of every list; None keeps whole lists."""
        return planned(self._all(), self.depth, self.max_items).depth

    def settings(self) -> dict[str, Any]:
        """The settings that must be the same to resume from a checkpoint; plain values."""
        event = msgspec.to_builtins(self.event)
        if self.event.format == "json":
            del event["format"]
        return {
            "event": event,
            "labels": list(self.labels),
            "segments": list(self.segments),
            "pane": self.windowing().pane,
            "depth": self.kept_depth(),
            "max_items": self.max_items,
        } | ({} if self.attribution is None else {"attribution": self.attribution.settings()})

    def items(self) -> int | frozenset[Id] | None:
        """The catalogue: how many items, or which; None where none is configured."""
        if not isinstance(self.catalog, str):
            return self.catalog
        ids = [line.decode().strip() for line in lines(self.catalog)]
        if ids and ids[0].lower().replace("_", "") in _HEADERS:
            problem = f"line 1 is {ids[0]!r}, the name of a column"
            raise ValueError(problem)
        return frozenset(map(int, ids)) if self.event.ids == "integer" else frozenset(ids)

    def _all(self) -> list[Metric]:
        return [parse(text) for text in (*self.metrics, *(each.name for each in self.metric))]

    def reads(self) -> set[Reads]:
        """What the metrics are functions of."""
        return {metric.definition.reads for metric in self._all()}

    def inputs(self) -> dict[str, Any]:
        """What an accumulator is made with besides metrics and depth; reads the files named."""
        as_id = int if self.event.ids == "integer" else str
        return {
            "catalog": self.items(),
            "popularity": popularity(self.popularity, as_id) if self.popularity else None,
            "similarity": similarity(self.similarity, as_id) if self.similarity else None,
            "max_items": self.max_items,
            "intervals": self.intervals,
            "ids": "integer" if self.event.ids == "integer" else "text",
        }


_HEADERS = frozenset({"item", "itemid", "iid", "id", "productid", "sku"})
"""First lines of a catalogue that would count as an item, in lower case without _."""

LABELS = "labels"
"""Name of the family split by all labels and no segment."""


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """Metrics that share one family of series.

    Attributes:
        name: its identity in saved state: "labels", "country", "labels(variant)[24h]"; a
            function of the metrics alone, not of their order in the file.
        segment: the one dimension besides the labels, if any.
        dimensions: labels in the order of the configuration, and the segment.
        metrics: in the order of the configuration.
        spans: of the windows, microseconds, ascending.
    """

    name: str
    segment: str | None
    dimensions: tuple[str, ...]
    metrics: tuple[Metric, ...]
    spans: tuple[int, ...]


_LEFT_OUT: Final = ("source", "registry", "state", "dead_letters", "log_level", "web")
"""Sources and outputs do not affect what is counted."""


def schema(config: Config) -> dict[str, Any]:
    """What is needed to read a state elsewhere, as plain values.

    It names the files of the configuration (catalogue, popularity, similarity); reading the state
    needs them.

    Example:
        >>> from streameval.sources.options import SimulatorOptions
        >>> config = Config(metrics=["ctr"], source=SimulatorOptions(), labels=["variant"])
        >>> from_schema(schema(config)) == config
        True
    """
    plain: dict[str, Any] = msgspec.to_builtins(config)
    default = msgspec.to_builtins(Config(source=config.source))
    kept = {name: value for name, value in plain.items() if name not in _LEFT_OUT}
    return {name: value for name, value in sorted(kept.items()) if value != default[name]}


def from_schema(saved: Mapping[str, Any]) -> Config:
    """The configuration that a state was made with; its source is a stand-in.

    Raises:
        DamagedStateError: it is not the output of `schema`.
    """
    try:
        return msgspec.convert({**saved, "source": {"type": "simulator"}}, Config)
    except msgspec.ValidationError as error:
        raise DamagedStateError("the schema of the state", str(error)) from error
