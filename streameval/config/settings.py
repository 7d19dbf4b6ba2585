"""The whole configuration; each component brings its own options."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from streameval.accumulator import Accumulator
from streameval.catalogue import parse
from streameval.config.attribution import AttributionOptions
from streameval.config.durations import microseconds
from streameval.config.families import Extent, Group, Kept, grouped
from streameval.config.inputs import PopularityOptions, SimilarityOptions, popularity, similarity
from streameval.config.options import (
    DeadLetterOptions,
    MetricOptions,
    StateOptions,
    WebOptions,
    WindowsOptions,
)
from streameval.events import Id
from streameval.experiment import Experiment
from streameval.intervals import Intervals
from streameval.metric import Metric
from streameval.pipeline.fields import EventFields
from streameval.plan import WHOLE, planned
from streameval.sources.files import lines
from streameval.sources.options import SourceOptions
from streameval.statistics.exposures import MAX_ITEMS
from streameval.windows.times import Times


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything a configuration file can say; a metric and `source` are all it must.

    Attributes:
        metrics: what to read, for example "ndcg@10".
        source: where the records come from.
        metric: what to read in fewer places, one table a metric.
        labels: fields of a record whose values split every metric.
        segments: fields whose values split every metric once more, each for itself.
        label_cap: most values of a label or segment with series of their own, besides those named.
        label_values: label or segment -> values that always have series of their own.
        max_series: most combinations of label values, for each family of series.
        labels_idle: label values without an event for longer are no longer shown.
        windows: which spans of event time are read besides the lifetime.
        dedup: event ids are remembered so long, in event time; None means that they are not.
        max_ahead: an event so far ahead of the recent ones of its log must be confirmed by others.
        catalog: how many items there are, or a file of their ids, one a line.
        popularity: how many users had to do with each item before.
        similarity: how alike two items are.
        depth: ranks kept; None means the largest cut-off asked for.
        max_items: most distinct items counted exactly for coverage.
        intervals: how sure values are, by groups of users; None means that it is not kept.
        experiment: variants that are compared with a control; needs intervals.
        event: which field of a record holds what.
        attribution: streams that are joined; None means that each record is an event.
        state: where state is kept; None means that it ends with the process.
        dead_letters: where records go that are no events; None means that they are only counted.
        log_level: what is less important is not logged.
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
    attribution: AttributionOptions | None = None
    state: StateOptions | None = None
    dead_letters: DeadLetterOptions | None = None
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    web: WebOptions = WebOptions()

    def dimensions(self) -> list[str]:
        """Labels and segments: what the decoder reads of every event, in this order."""
        return [*self.labels, *self.segments]

    def times(self) -> Times:
        """How event time is divided."""
        if self.windows is None:
            return Times()
        return Times(
            pane=microseconds(self.windows.pane),
            spans=tuple(sorted(map(microseconds, self.windows.spans))),
            lateness=microseconds(self.windows.lateness),
        )

    def families(self) -> tuple[Group, ...]:
        """The metrics by where they are kept; every metric is in the group of one set of labels."""
        spans = self.times().spans
        extent = Extent(labels=self.labels, segments=self.segments, spans=spans)
        everywhere = [MetricOptions(name=text) for text in self.metrics]
        return grouped(extent, (_kept(each, extent) for each in [*everywhere, *self.metric]))

    def accumulator(self) -> Accumulator:
        """A new accumulator of all metrics; reads the files that the configuration names.

        Raises:
            MetricError: a metric cannot be understood, or lacks its inputs.
            SourceError: a file cannot be read.
        """
        return Accumulator(*self._all(), **self._inputs(), depth=self.depth)

    def accumulators(self) -> list[tuple[Group, Accumulator]]:
        """The families, each with an empty accumulator of its metrics; all have the same depth.

        Raises:
            MetricError: a metric cannot be understood, or lacks its inputs.
            SourceError: a file cannot be read.
        """
        inputs, depth = self._inputs(), self.kept_depth() or WHOLE
        return [
            (group, Accumulator(*group.metrics, **inputs, depth=depth)) for group in self.families()
        ]

    def kept_depth(self) -> int | None:
        """Ranks kept of every list; None keeps whole lists."""
        return planned(self._all(), self.depth, self.max_items).depth

    def settings(self) -> dict[str, Any]:
        """What must be the same for a saved state to go on; plain, and equal only if that is."""
        return {
            "event": msgspec.to_builtins(self.event),
            "labels": list(self.labels),
            "segments": list(self.segments),
            "pane": self.times().pane,
            "depth": self.kept_depth(),
            "max_items": self.max_items,
        } | ({} if self.attribution is None else {"attribution": self.attribution.settings()})

    def items(self) -> int | frozenset[Id] | None:
        """The catalogue: how many items, or which; None where none is configured.

        Raises:
            SourceError: the file of the catalogue cannot be read.
            ValueError: an id in it is no integer where `ids` says "integer", or no text.
        """
        if not isinstance(self.catalog, str):
            return self.catalog
        ids = (line.decode().strip() for line in lines(self.catalog))
        return frozenset(map(int, ids)) if self.event.ids == "integer" else frozenset(ids)

    def _all(self) -> list[Metric]:
        return [parse(text) for text in (*self.metrics, *(each.name for each in self.metric))]

    def _inputs(self) -> dict[str, Any]:
        as_id = int if self.event.ids == "integer" else str
        return {
            "catalog": self.items(),
            "popularity": popularity(self.popularity, as_id) if self.popularity else None,
            "similarity": similarity(self.similarity, as_id) if self.similarity else None,
            "max_items": self.max_items,
            "intervals": self.intervals,
            "ids": "integer" if self.event.ids == "integer" else "text",
        }


def _kept(asked: MetricOptions, extent: Extent) -> Kept:
    spans = extent.spans if asked.windows is None else map(microseconds, asked.windows)
    return Kept(
        metric=parse(asked.name),
        labels=frozenset(extent.labels if asked.labels is None else asked.labels),
        spans=frozenset(spans),
        segments=frozenset(extent.segments if asked.segments is None else asked.segments),
    )
