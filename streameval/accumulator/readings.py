"""Reads metrics from statistics: values with evidence, bounds and intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from msgspec.structs import replace

from streameval.accumulator.formulas import check_inputs
from streameval.accumulator.kinds import statistic_kind
from streameval.accumulator.kinds.groups import group_sums, groups_of, ungrouped
from streameval.accumulator.overlap import (
    Overlap,
    Side,
    biases,
    clip_note,
    distrust,
    lacking,
    side_of_reference,
    unseen_note,
)
from streameval.accumulator.reading_intervals import Coverage, IntervalMethod, with_interval
from streameval.accumulator.table import Table
from streameval.catalogue import denominator, parse
from streameval.catalogue.companions import checks_of, companions
from streameval.catalogue.metric import Metric
from streameval.catalogue.reading import Reading
from streameval.events.errors import MetricError, StreamevalError
from streameval.statistics.arrays import IntArray
from streameval.statistics.intervals import Method


class Readings(dict[str, Reading]):
    """Canonical text -> reading; `[...]` finds the reading of any other spelling, too."""

    def __missing__(self, spelled: str) -> Reading:
        """The reading of the metric with this text.

        Raises:
            KeyError: there is no such metric.
        """
        try:
            text = parse(spelled).text
        except MetricError as error:
            raise KeyError(spelled) from error
        if text not in self:
            raise KeyError(spelled)
        return self[text]


def readings_of(
    metric: Metric, table: Table, cells: IntArray, method: IntervalMethod | None = None
) -> list[Reading]:
    """The readings of a metric in each of these cells, with intervals if a method is given.

    Raises:
        NotKeptError: a required statistic was not kept, or the cut-off exceeds the ranks kept.
        MissingInputError: it needs a catalogue, popularity or similarity that is missing.
    """
    check_inputs(metric, table.context)
    readings = statistic_kind(metric).read(metric, table, cells, method)
    if metric.is_per_user:
        return readings
    if method is not None:
        readings = _with_intervals(metric, readings, table, cells, method)
    return _checked(metric, readings, table, cells, method)


def overlaps(
    metric: Metric, table: Table, cells: IntArray, method: IntervalMethod | None
) -> list[Overlap]:
    """Checks of an estimate for each of these cells; empty for other metrics."""
    checks = checks_of(metric)
    if not checks:
        return []
    by_check = [readings_of(check, table, cells, method) for check in checks.values()]
    sums = group_sums(checks["weight"], table, cells) if method is not None else None
    reference = checks["weight"].definition.reference
    sides: list[Side] = ["unknown"] * cells.size
    if sums is not None and method is not None and reference is not None:
        sides = [side_of_reference(sum_, method.intervals, reference) for sum_ in sums]
    least = float(metric.values["least"])
    rows = zip(sides, zip(*by_check, strict=True), strict=True)
    return [
        Overlap(side, least=least, **dict(zip(checks, readings, strict=True)))
        for side, readings in rows
    ]


def merge_cells(table: Table, cells: Sequence[int]) -> Table:
    """A table whose only cell is the first of these, with the events of all of them."""
    if len(cells) == 1:
        return table
    table = table.select(np.array(sorted(cells)))
    table.rename(dict.fromkeys(cells, cells[0]))
    return table


def _checked(
    metric: Metric,
    readings: list[Reading],
    table: Table,
    cells: IntArray,
    method: IntervalMethod | None,
) -> list[Reading]:
    """The readings with their notes and verdicts; those that cannot be trusted without interval."""
    biased = biases(table, cells)
    relevant_biases = biased if metric.definition.interactions else [None] * cells.size
    notes = [bias or metric.peers for bias in relevant_biases]
    if any(notes):
        readings = [
            replace(reading, note=note) for reading, note in zip(readings, notes, strict=True)
        ]
    if overlap_values := overlaps(metric, table, cells, method):
        pairs = zip(readings, overlap_values, strict=True)
        readings = [_of_overlap(metric, *pair, judged=method is not None) for pair in pairs]
    reference = metric.definition.reference
    sums = None if reference is None or method is None else group_sums(metric, table, cells)
    if reference is None or sums is None or method is None:
        return readings
    # A window is looked at often, whatever its interval promises.
    kind: Method = "fixed" if method.kind == "fixed" else "anytime"
    sides = (side_of_reference(sum_, method.intervals, reference, kind) for sum_ in sums)
    texts = [getattr(reference, side).format(**metric.values) for side in sides]
    return [
        replace(reading, verdict=text if reading.defined and bias is None else None)
        for reading, text, bias in zip(readings, texts, biased, strict=True)
    ]


def _of_overlap(metric: Metric, reading: Reading, overlap: Overlap, *, judged: bool) -> Reading:
    """The reading with bounds that allow for what was never shown, or without an interval."""
    notes, covered = [clip_note(overlap.clipped)], reading.interval
    reason = (distrust(reading, overlap) or lacking(overlap)) if judged else None
    if reason is not None:
        reading = replace(reading, interval=None, no_interval=reason)
    elif covered is not None:
        reading = replace(reading, interval=overlap.allow(covered, metric))
        notes.append(unseen_note(overlap))
    return replace(reading, note=" ".join(filter(None, notes)) or reading.note)


def value_text(metric: Metric, read: Callable[[str], Reading]) -> str:
    """A metric with its value, for people; without it if it cannot be read."""
    try:
        reading = read(metric.text)
    except StreamevalError:
        return metric.text
    return f"{metric.text} {reading.value if reading.defined else math.nan:.6g}"


def _with_intervals(
    metric: Metric,
    readings: Sequence[Reading],
    table: Table,
    cells: IntArray,
    method: IntervalMethod,
) -> list[Reading]:
    """The readings with their intervals, or with the reasons that there are none."""
    reason, groups = ungrouped(metric, table), groups_of(table)
    sums = group_sums(metric, table, cells)
    if groups is None or sums is None:
        return [replace(reading, no_interval=reason) for reading in readings]
    lists, anonymous = groups.lists(cells)
    # The denominators of a ratio are another metric's sums, and not its lists.
    counted = sums if denominator(metric) is None else groups.of(metric.per_list, cells)
    covered = [
        float(of_cell.denominators.sum()) / max(reading.count, 1)
        for of_cell, reading in zip(counted, readings, strict=True)
    ]
    named = (1.0 - anonymous / np.maximum(lists, 1)).tolist()
    coverage = map(Coverage, covered, named)
    rows = zip(readings, sums, coverage, strict=True)
    return [with_interval(metric, *row, method) for row in rows]


def statistic_names(metric: Metric, table: Table) -> frozenset[str]:
    """Names of the statistics that a metric reads.

    Raises:
        NotKeptError: a required statistic was not kept, or the cut-off exceeds the ranks kept.
    """
    names = statistic_kind(metric).names(metric, table)
    if metric.is_per_user:
        return names
    return names.union(*(statistic_names(each, table) for each in companions(metric)))
