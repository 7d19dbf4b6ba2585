"""Reads metrics from statistics: values with evidence, bounds and intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Any, cast

import numpy as np
from msgspec.structs import replace

from streameval.accumulator.activity import Activity, activity_of
from streameval.accumulator.by_user import (
    kept_user_sums,
    of_users,
    ungrouped,
)
from streameval.accumulator.formulas import (
    Summed,
    array_of,
    call_metric,
    check_inputs,
    items_shown,
    lists_by_rule,
    number_of,
    ungraded_lists,
)
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
from streameval.accumulator.plan import USER_SUMS_PREFIX, check_depth, name_of
from streameval.accumulator.reading_intervals import (
    IntervalMethod,
    Shares,
    with_interval,
)
from streameval.accumulator.table import Table
from streameval.catalogue import denominator, parse
from streameval.catalogue.companions import checks_of, companions
from streameval.catalogue.metric import Metric
from streameval.catalogue.reading import Bounded, Reading, UndefinedReading
from streameval.catalogue.signature import Empty
from streameval.catalogue.summary import summary
from streameval.events.errors import (
    MetricError,
    NotKeptError,
    StreamevalError,
    UndefinedMetricError,
)
from streameval.statistics.arrays import BoolArray, FloatArray, IntArray
from streameval.statistics.distributions import Distribution, Values
from streameval.statistics.groups import Groups
from streameval.statistics.hits import Hits, HitsOfCells
from streameval.statistics.intervals import Audience, GroupSums, ratio_of
from streameval.statistics.statistic import Statistic

LEVELS = ("mean", "median", "quantile", "maximum")
"""Summary statistics that `finish` applies to; others are widths, not values."""


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
    if metric.is_per_user:
        return _of_users(metric, table, cells, method)
    if metric.definition.reads in ("hits", "lists"):
        readings = _of_lists(metric, table, cells)
    elif metric.definition.reads == "event":
        below, values = denominator(metric), _values(metric, table, cells)
        sums = [] if below is None else [under.total for under in _values(below, table, cells)]
        readings = [event_reading(metric, *pair) for pair in zip_longest(values, sums)]
    else:
        statistics = _statistic(metric, table).view(cells)
        readings = [_of_cell(metric, statistic, table) for statistic in statistics]
    if method is not None:
        readings = _with_intervals(metric, readings, table, cells, method)
    return _checked(metric, readings, table, cells, method)


def overlaps(
    metric: Metric, table: Table, cells: IntArray, method: IntervalMethod | None
) -> list[Overlap]:
    """For each of these cells, what shows whether an estimate can be trusted; empty if nothing."""
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


def joined(table: Table, cells: Sequence[int]) -> Table:
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
    told = biased if metric.definition.interactions else [None] * cells.size
    notes = [bias or metric.peers for bias in told]
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
    sides = (side_of_reference(sum_, method.intervals, reference) for sum_ in sums)
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


def group_sums(metric: Metric, table: Table, cells: IntArray) -> list[GroupSums] | None:
    """The group sums of a metric in each of these cells; None if `ungrouped` gives a reason."""
    if table.groups is None or ungrouped(metric, table) is not None:
        return None
    sums = table.groups.of(metric.per_list, cells)
    below = denominator(metric)
    if below is None:
        return sums
    return list(map(ratio_of, sums, table.groups.of(below.per_list, cells)))


def summed_together(
    metric: Metric, groups: Groups, cells: Sequence[int], without: Sequence[int] = ()
) -> GroupSums:
    """The group sums of a metric over all of these cells together, but those of `without`."""
    sums, below = groups.summed(metric.per_list, cells, without), denominator(metric)
    return sums if below is None else ratio_of(sums, groups.summed(below.per_list, cells, without))


def value_text(metric: Metric, read: Callable[[str], Reading]) -> str:
    """A metric with its value, for people; without it if it cannot be read."""
    try:
        reading = read(metric.text)
    except StreamevalError:
        return metric.text
    return f"{metric.text} {reading.value if reading.defined else math.nan:.6g}"


def audiences(table: Table, cells: IntArray) -> list[Audience]:
    """The users of each of these cells; empty if users are not kept."""
    if table.groups is None or table.audience is None:
        return []
    table.flush()
    groups = table.groups
    pairs = zip(cells.tolist(), table.audience.view(cells), strict=True)
    return [Audience(*sample, *groups.lists_by_day(np.array([cell]))) for cell, sample in pairs]


def activity(table: Table, cells: Sequence[int]) -> Activity | None:
    """Lists and clicks by event day and user group over these cells; None if they are not kept."""
    if table.groups is None or not table.plan.activity:
        return None
    lists, clicks = (table.groups.summed(metric.per_list, cells) for metric in table.plan.activity)
    return activity_of(clicks, lists)


def _with_intervals(
    metric: Metric,
    readings: Sequence[Reading],
    table: Table,
    cells: IntArray,
    method: IntervalMethod,
) -> list[Reading]:
    """The readings with their intervals, or with the reasons that there are none."""
    reason, groups, sums = ungrouped(metric, table), table.groups, group_sums(metric, table, cells)
    if groups is None or sums is None:
        return [replace(reading, no_interval=reason) for reading in readings]
    lists, anonymous = groups.lists(cells)
    # The denominators of a ratio are another metric's sums, and not its lists.
    whole = sums if denominator(metric) is None else groups.of(metric.per_list, cells)
    covered = [
        float(of_cell.denominators.sum()) / max(reading.count, 1)
        for of_cell, reading in zip(whole, readings, strict=True)
    ]
    named = (1.0 - anonymous / np.maximum(lists, 1)).tolist()
    shares = map(Shares, covered, named)
    rows = zip(readings, sums, shares, strict=True)
    return [with_interval(metric, *row, method) for row in rows]


def statistics_of(metric: Metric, table: Table) -> frozenset[str]:
    """Names of the statistics that a metric reads.

    Raises:
        NotKeptError: a required statistic was not kept, or the cut-off exceeds the ranks kept.
    """
    if metric.is_per_user:
        kept_user_sums(metric, table)
        return frozenset({f"{USER_SUMS_PREFIX}{metric.per_list}"})
    beside = (statistics_of(companion, table) for companion in companions(metric))
    if metric.definition.reads == "event":
        return frozenset({_name_of_values(metric, table)}).union(*beside)
    _statistic(metric, table)
    names = {name_of(table.plan.need(metric))}
    if metric.needs_values:
        names.add(_name_of_values(metric, table))
    elif f"graded:{metric.text}" in table.statistics:
        names.add(f"graded:{metric.text}")
    return frozenset(names)


def _statistic(metric: Metric, table: Table) -> Statistic:
    """The statistic that a metric reads."""
    ranked = metric.definition.reads in ("hits", "lists")
    if ranked:
        check_depth(metric, table.plan.depth)
    options = table.plan.need(metric)
    if options not in table.plan.needs:
        problem = "it was not counted at that cut-off"
        if ranked:
            problem = "hits were counted with other parameters"
        raise NotKeptError(metric.text, problem)
    return table.statistics[name_of(options)]


def _name_of_values(metric: Metric, table: Table) -> str:
    of_events = metric.definition.reads == "event"
    name = f"{'events' if of_events else 'values'}:{metric.per_list}"
    if name not in table.statistics:
        how = "event by event" if of_events else "list by list"
        raise NotKeptError(metric.text, f"its values were not kept, {how}")
    return name


def _values(metric: Metric, table: Table, cells: IntArray) -> list[Distribution]:
    return cast("Values", table.statistics[_name_of_values(metric, table)]).view(cells)


def _of_lists(metric: Metric, table: Table, cells: IntArray) -> list[Reading]:
    hits = cast("Hits", _statistic(metric, table)).view(cells)
    lists, rules = hits.count.tolist(), lists_by_rule(metric, hits)
    counts = rules["zero"]
    if metric.needs_values:
        values = zip(_values(metric, table, cells), lists, strict=True)
        readings = [_of_values(metric, *pair) for pair in values]
    else:
        sound = (rules["nan"] == 0) & (rules["error"] == 0)
        totals, left_out = _total(metric, hits, table, cells, sound)
        if metric.definition.per == "total":
            sums = zip(totals.tolist(), lists, strict=True)
            readings = [sum_reading(metric, *pair) for pair in sums]
        else:
            of_items = metric.definition.per == "item"
            in_mean = (items_shown(metric, hits.items) if of_items else counts) - left_out
            means = zip(totals.tolist(), in_mean.tolist(), lists, strict=True)
            readings = [mean_reading(metric, *each) for each in means]
    evidence = zip(counts.tolist(), lists, strict=True)
    return _with_refusals(metric, rules, readings, evidence)


def _of_users(
    metric: Metric, table: Table, cells: IntArray, method: IntervalMethod | None
) -> list[Reading]:
    """Readings over users; undefined or refused by the same lists as those over lists."""
    readings = of_users(metric, table, cells, method)
    if metric.definition.reads == "event":
        return readings
    rules = lists_by_rule(metric, cast("Hits", _statistic(metric, table)).view(cells))
    evidence = ((reading.count, reading.lists) for reading in readings)
    return _with_refusals(metric, rules, readings, evidence)


def _with_refusals(
    metric: Metric,
    rules: Mapping[Empty, IntArray],
    readings: Iterable[Reading],
    evidence: Iterable[tuple[int, int]],
) -> list[Reading]:
    """The readings; without value where a rule makes the mean undefined, or refuses a list.

    `evidence`: count and lists of those without value.
    """
    rows = zip(readings, evidence, rules["error"].tolist(), rules["nan"].tolist(), strict=True)
    return [
        _refusals(metric, *found, refused)
        if refused
        else mean_reading(metric, math.nan, *found)
        if undefined
        else reading
        for reading, found, refused, undefined in rows
    ]


def event_reading(metric: Metric, values: Summed, below: float | None = None) -> Reading:
    """The reading of a metric of events; other summaries than means and sums need a distribution.

    `below`: the sum that divides a ratio.
    """
    lists, rule = values.lists, metric.rules["undefined"]
    if metric.definition.over is None:
        if values.undefined and rule == "error":
            return _refusals(metric, values.count, lists, values.undefined)
        if lists and values.count < int(metric.rules["least"]):
            return _refusals(metric, values.count, lists, lists)
        if values.undefined and rule == "nan":
            return mean_reading(metric, math.nan, values.count, lists)
    reading = _of_values(metric, values, lists)
    if below is None:
        return reading
    value = (reading.total or 0.0) / below if below and reading.defined else math.nan
    return replace(reading, value=value, total=None, weight=below)


def _of_cell(metric: Metric, statistic: Any, table: Table) -> Reading:
    lists, context = statistic.lists, table.context
    if metric.definition.reads == "exposures" and metric.attribute is not None:
        if statistic.estimated:
            note = (
                "Only a sample of the items was counted, and values without an item in it are not "
                "seen: raise max_items above the number of items that are shown."
            )
            reading = mean_reading(metric, math.nan, lists, lists, note)
            return replace(reading, total=None, estimated=True)
        attribute = dict(context.attributes)[metric.attribute]
        statistic = statistic.by(attribute.of)
        context = replace(context, catalog=frozenset(attribute.values))
    try:
        result = call_metric(metric, statistic, context)
    except UndefinedMetricError as error:
        return _undefined(metric, lists, lists, error.why)
    three = result if isinstance(result, Bounded) else [result] * 3
    wanted = "a number, or Bounded(value, low, high)"
    value, low, high = (number_of(metric, number, wanted) for number in three)
    if metric.values.get("statistic", "mean") not in LEVELS:
        value = summary(Distribution.of_all(np.array([value])), metric.values, metric.rules)
    return Reading(
        metric=metric.text,
        value=value,
        count=lists,
        lists=lists,
        estimated=getattr(statistic, "estimated", False),
        low=low if low < high else None,
        high=high if low < high else None,
    )


def mean_reading(
    metric: Metric, total: float, count: int, lists: int, note: str | None = None
) -> Reading:
    """The reading of a mean; undefined if nothing is in it."""
    value = total / count if count else math.nan
    return Reading(
        metric=metric.text, value=value, count=count, lists=lists, total=total, note=note
    )


def sum_reading(metric: Metric, total: float, lists: int, note: str | None = None) -> Reading:
    """The reading of a sum over lists; undefined without lists."""
    value = float(total) if lists else math.nan
    return Reading(
        metric=metric.text, value=value, count=lists, lists=lists, total=float(total), note=note
    )


def _of_values(metric: Metric, values: Summed, lists: int) -> Reading:
    if metric.is_mean or metric.definition.over is not None:
        return mean_reading(metric, values.total, values.count, lists)
    distribution = cast("Distribution", values)
    value = summary(distribution, metric.values, metric.rules)
    statistic = metric.values["statistic"]
    finish = metric.definition.finish if statistic in LEVELS else None
    if finish and not math.isnan(value):
        value = number_of(metric, finish(value), "a number from finish=, too")
    return Reading(
        metric=metric.text,
        value=value,
        count=values.count,
        lists=lists,
        estimated=distribution.estimated and statistic in ("median", "quantile", "maximum"),
    )


def _refusals(metric: Metric, count: int, lists: int, refusing: int) -> Reading:
    problem = f"{metric.convention or 'its definition'} raises an error on {refusing} of the lists"
    return _undefined(metric, count, lists, problem)


def _undefined(metric: Metric, count: int, lists: int, problem: str) -> Reading:
    return UndefinedReading(
        metric=metric.text, value=math.nan, count=count, lists=lists, problem=problem
    )


def _total(
    metric: Metric, hits: HitsOfCells, table: Table, cells: IntArray, sound: BoolArray
) -> tuple[FloatArray, IntArray]:
    """The sum over the lists of each cell, and how many of them have no value."""
    graded = np.flatnonzero((hits.graded > 0) & sound) if metric.needs_gains else np.zeros(0, int)
    seen = hits.without_gains if metric.needs_gains else hits
    total = array_of(metric, call_metric(metric, seen, table.context), cells.size)
    left_out = np.zeros(cells.size, np.int64)
    if graded.size:
        kept = table.statistics.get(f"graded:{metric.text}")
        if not isinstance(kept, Values):
            raise NotKeptError(metric.text, "lists with gains came, and its values were not kept")
        valued = np.zeros(cells.size, np.int64)
        undefined = np.zeros(cells.size, np.int64)
        for at, values in zip(graded.tolist(), kept.view(cells[graded]), strict=True):
            total[at] = math.fsum((total[at], values.total))
            valued[at], undefined[at] = values.count + values.undefined, values.undefined
        left_out[graded] = (undefined + ungraded_lists(metric, hits, valued))[graded]
    return total, left_out
