"""Which metrics are kept together: those with the same labels and windows, for each segment."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from streameval.metric import Metric
from streameval.windows.times import span_text

LABELS = "labels"
"""Name of the family that is divided by all labels and by no segment."""


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """Where one metric is kept.

    Attributes:
        metric: which one.
        labels: by which labels it is split.
        spans: in which windows it is read, microseconds.
        segments: by which segments it is split besides.
    """

    metric: Metric
    labels: frozenset[str]
    spans: frozenset[int]
    segments: frozenset[str]


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """Metrics that share one family of series.

    Attributes:
        name: its identity in saved state: "labels", "country", "labels(variant)[24h]"; a
            function of what is kept, whatever the order in the file.
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


class Extent(msgspec.Struct, frozen=True, kw_only=True):
    """All that a metric can be split by and read in.

    Attributes:
        labels: as configured.
        segments: likewise.
        spans: of all windows, microseconds.
    """

    labels: Sequence[str]
    segments: Sequence[str]
    spans: Sequence[int]


def grouped(extent: Extent, kept: Iterable[Kept]) -> tuple[Group, ...]:
    """The groups: by labels alone first, then by segment; in each the largest extent first."""
    found: dict[tuple[frozenset[str], frozenset[int], str | None], list[Metric]] = {}
    for each in kept:
        for segment in (None, *(name for name in extent.segments if name in each.segments)):
            found.setdefault((each.labels, each.spans, segment), []).append(each.metric)
    groups = [_group(extent, *how, metrics) for how, metrics in found.items()]
    place = {name: index for index, name in enumerate((None, *extent.segments))}
    return tuple(sorted(groups, key=lambda group: (place[group.segment], group.name)))


def _group(
    extent: Extent,
    labels: frozenset[str],
    spans: frozenset[int],
    segment: str | None,
    metrics: list[Metric],
) -> Group:
    some = "" if labels == set(extent.labels) else f"({','.join(sorted(labels))})"
    read = "" if spans == set(extent.spans) else f"[{','.join(map(span_text, sorted(spans)))}]"
    last = () if segment is None else (segment,)
    return Group(
        name=f"{segment or LABELS}{some}{read}",
        segment=segment,
        dimensions=(*(name for name in extent.labels if name in labels), *last),
        metrics=tuple(metrics),
        spans=tuple(sorted(spans)),
    )
