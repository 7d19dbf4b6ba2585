"""Views of a snapshot for people: number formats, windows as columns, differences to control."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Final, NamedTuple

import msgspec

from streameval.catalogue.metric import Metric
from streameval.catalogue.reading import Reading
from streameval.engine.snapshot import LIFETIME, Series, SeriesFamily, Snapshot
from streameval.engine.windows.labels import OTHER
from streameval.events.times import moment_of
from streameval.inference.words import confidence_text, percent, three_digits

UNDEFINED = "\N{EN DASH}"
"""Shown for a value without evidence, which is never shown as 0."""

_UNITS = (("d", 86_400), ("h", 3_600), ("min", 60))

_HUGE = 1e15
"""From here on a double does not have all digits before the decimal point."""


def figure(value: float) -> str:
    """A value with four decimals, or four digits below 0.1 and from 10; a dash if undefined.

    Whole numbers have all their digits.

    Example:
        >>> figure(0.5), figure(0.0046), figure(80.0), figure(float("nan")), figure(2.0**200)
        ('0.5000', '0.004600', '80', '\N{EN DASH}', '1.607e+60')
        >>> figure(10.8651), figure(12_345.6)
        ('10.87', '12,346')
    """
    if math.isnan(value):
        return UNDEFINED
    if abs(value) >= _HUGE:
        return f"{value:.4g}"
    if value.is_integer() and abs(value) > 1:
        return f"{value:,.0f}"
    if 0 < abs(value) < 0.1:
        return f"{value:#.4g}"
    decimals = 4 if abs(value) < 10 else max(0, 3 - math.floor(math.log10(abs(value))))
    return f"{value:,.{decimals}f}"


ESTIMATE_WARNING: Final = (
    "An estimate for a policy that was not shown. It holds if items were drawn with the logged "
    "probabilities, every item of the policy could be shown, and users react alike whoever chose "
    "the item. It does not replace an A/B test."
)
"""The warning beside every such estimate."""


def has_estimates(metrics: Iterable[Metric]) -> bool:
    """True if any of these metrics estimates a policy that was not shown."""
    return any(metric.definition.estimates_policy for metric in metrics)


def summary_of(metric: Metric) -> str:
    """Describe a metric in a sentence; names a statistic other than the mean.

    Example:
        >>> from streameval.catalogue import parse
        >>> summary_of(parse("importance_weight(statistic=effective_share)"))[:36]
        'Effective share of: Mean weight of a'
    """
    statistic = str(metric.values.get("statistic", "mean"))
    over = "" if statistic == "mean" else f"{statistic.replace('_', ' ').capitalize()} of: "
    return f"{over}{metric.definition.summary}"


def remarks(metric: Metric, reading: Reading) -> list[str]:
    """Caveats of a value: that it is an estimate, its verdict, its note.

    Example:
        >>> from streameval.catalogue import parse
        >>> remarks(parse("ips"), Reading(metric="ips", value=0.5, count=1, lists=1))
        ['estimate']
    """
    mark = ["estimate"] if metric.definition.estimates_policy else []
    # The note about peers is said once, beside the metric.
    note = None if reading.note == metric.peers else reading.note
    return [*mark, *filter(None, (reading.verdict, note))]


def certainty(reading: Reading) -> str:
    """The bounds of an inexact value, and its confidence interval; empty if it has neither.

    Example:
        >>> certainty(Reading(metric="ctr", value=0.5, count=1, lists=1, estimated=True))
        'estimated, without bounds'
        >>> certainty(Reading(metric="ctr", value=0.5, count=1, lists=1, low=0.25, high=0.75))
        'between 0.2500 and 0.7500'
        >>> from streameval.statistics.intervals import Interval
        >>> sure = Interval(low=0.25, high=0.75, confidence=0.95, kind="anytime", groups=200.0)
        >>> certainty(Reading(metric="ctr", value=0.5, count=1, lists=1, interval=sure))
        '95 % interval 0.2500 to 0.7500'
    """
    if not reading.defined:
        return ""
    low, high, limits = reading.low, reading.high, reading.interval
    bounds = "" if low is None or high is None else f"between {figure(low)} and {figure(high)}"
    if reading.estimated:
        bounds = f"estimated, {bounds or 'without bounds'}"
    if limits is None:
        return bounds
    level = confidence_text(limits.confidence)
    interval = f"{level} interval {figure(limits.low)} to {figure(limits.high)}"
    return f"{bounds}; {interval}" if bounds else interval


def beside(entry: Series) -> list[str]:
    """The text next to a value: its certainty, and its caveats."""
    return [*filter(None, [certainty(entry.reading)]), *remarks(entry.metric, entry.reading)]


def range_text(low: float | None, high: float | None) -> str:
    """The smallest and the largest value of a metric in words; None: there is no limit.

    Example:
        >>> range_text(0, 1), range_text(0, None), range_text(None, None)
        ('0 to 1', '0 or more', 'any number')
    """
    if low is None:
        return "any number" if high is None else f"{high:g} or less"
    return f"{low:g} or more" if high is None else f"{low:g} to {high:g}"


def unit_of_count(metric: Metric) -> str:
    """The unit of a metric's count.

    Example:
        >>> from streameval.catalogue import parse
        >>> [unit_of_count(parse(text)) for text in ("ctr", "hit_rate@10", "ndcg@10")]
        ['items shown', 'lists', 'lists with interactions']
    """
    if metric.values.get("empty") == "skip" and not metric.is_per_user:
        return "lists with interactions"
    return metric.unit


def moment(seconds: float) -> str:
    """A time since the epoch, to the second.

    Example:
        >>> moment(0)
        '1970-01-01 00:00:00 UTC'
    """
    return f"{moment_of(int(seconds * 1e6)):%Y-%m-%d %H:%M:%S} UTC"


def span(seconds: float) -> str:
    """A duration in its two largest units.

    Example:
        >>> span(59.9), span(3_725), span(200_000)
        ('59 s', '1 h 2 min', '2 d 7 h')
    """
    rest, words = int(max(0, seconds)), []
    for unit, size in _UNITS:
        if rest >= size:
            words.append(f"{rest // size} {unit}")
            rest %= size
    return " ".join([*words, f"{rest} s"][:2])


class Division(NamedTuple):
    """The series of one family.

    Attributes:
        windows: the columns, lifetime last; only lifetime if there are no windows.
    """

    family: SeriesFamily
    windows: tuple[str, ...]
    metrics: Sequence[tuple[Metric, Sequence[Series]]]

    @property
    def windowed(self) -> bool:
        """True if there are windows besides the lifetime."""
        return self.windows != (LIFETIME,)

    @property
    def by(self) -> str:
        """The names of its labels, as text."""
        return ", ".join(self.family.label_names) or "nothing"


def divisions(snapshot: Snapshot) -> list[Division]:
    """The families that have series, in order."""
    splits = []
    for index, series in groupby(snapshot.series, key=lambda entry: entry.family):
        entries, family = list(series), snapshot.families[index]
        windows = dict.fromkeys((*family.windows, *(entry.window for entry in entries)))
        windows.pop(LIFETIME, None)
        metrics = [(metric, list(of)) for metric, of in groupby(entries, key=lambda x: x.metric)]
        splits.append(Division(family, (*windows, LIFETIME), metrics))
    return splits


def by_slice(series: Iterable[Series]) -> dict[tuple[str, ...], Mapping[str, Series]]:
    """Label values -> window -> series."""
    slices: dict[tuple[str, ...], dict[str, Series]] = {}
    for entry in series:
        slices.setdefault(entry.labels, {})[entry.window] = entry
    return dict(slices)


def lift_bounds(low: float | None, high: float | None) -> str:
    """The interval of a lift; bounds are rounded outward, as verdicts are.

    Example:
        >>> lift_bounds(0.0099, 0.29), lift_bounds(None, None)
        ('+0.9 % to +29.0 %', 'no interval')
    """
    if low is None or high is None:
        return "no interval"
    return f"{percent(low, '+', math.floor)} to {percent(high, '+', math.ceil)}"


CONTROLS = ("control", "baseline")
"""Label values that name the control; the first one present is used."""


class Variants(msgspec.Struct, frozen=True):
    """The values of a label side by side.

    Attributes:
        label: that of the experiment, else "variant" if it exists, else the first.
        control: the value that the others are compared with: that of the experiment, else
            "control", else "baseline"; None if no value is named so, for then none is a baseline.
    """

    label: str
    control: str | None


def comparison(snapshot: Snapshot) -> Variants | None:
    """The comparison in a snapshot; None if the label has fewer than two values."""
    names = snapshot.label_names
    if not names:
        return None
    baselines = (analysis.baseline(report) for analysis, report in snapshot.findings)
    configured = next(filter(None, baselines), None)
    controls = CONTROLS if configured is None else configured[1:]
    values = {
        name: {entry.labels[index] for entry in snapshot.series if entry.family == 0}
        for index, name in enumerate(names)
    }
    label = "variant" if "variant" in names else names[0]
    if configured is not None and controls[0] in values.get(configured[0], ()):
        label = configured[0]
    if len(values[label]) < 2 or values[label] <= {OTHER}:
        return None
    return Variants(
        label, next((control for control in controls if control in values[label]), None)
    )


def differences(snapshot: Snapshot) -> list[float | None]:
    """The value of each series minus that of the control with the same other labels.

    None without a control, for the control itself, and if either value is undefined.
    """
    compared = comparison(snapshot)
    if compared is None or compared.control is None:
        return [None] * len(snapshot.series)
    # Series that differ only in the compared label have one key.
    keys, controls = [], dict[object, Series]()
    for entry in snapshot.series:
        labels = snapshot.labels_of(entry)
        is_control = labels.pop(compared.label, None) == compared.control
        keys.append((entry.family, entry.metric.text, entry.window, *labels.items()))
        if is_control:
            controls[keys[-1]] = entry
    by: list[float | None] = []
    for key, entry in zip(keys, snapshot.series, strict=True):
        control = controls.get(key, entry)
        defined = entry.reading.defined and control.reading.defined
        is_other = control is not entry and defined
        by.append(entry.reading.value - control.reading.value if is_other else None)
    return by


def difference_text(entry: Series, by: float) -> str:
    """The difference from the control with its sign, without a verdict: it may be due to chance.

    It has three digits; a difference that the values do not show says "no difference".
    """
    value, before = entry.reading.value, entry.reading.value - by
    if figure(value) == figure(before):
        return "no difference"
    share = "" if before == 0 else f" ({percent(by / before, '+')})"
    return f"{three_digits(by, '+')}{share}"
