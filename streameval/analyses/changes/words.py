"""Sentences about verdicts on changes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date, timedelta
from typing import Final

from msgspec.structs import replace

from streameval.analyses.changes.report import (
    CHANGED,
    OTHERS,
    WEEKS,
    Change,
    ChangesReport,
    ChangeVerdict,
)
from streameval.exporters.view import UNDEFINED, lift_bounds
from streameval.inference.text_table import TextColumn, TextTable
from streameval.inference.words import percent

_FEWEST: Final = 28.0
"""Evidence in days that calm days have on average, one for each day on which a change may have
begun: below it, there is no rate."""


def changes_promise(report: ChangesReport) -> str:
    """The rate at which chance alone leads to an alarm, and what the promise does not cover.

    Example:
        >>> changes_promise(ChangesReport())  # doctest: +ELLIPSIS
        'Chance alone leads to "worse" for any of these series at most once in 91 days. ...'
    """
    return (
        f'Chance alone leads to "worse" for any of these series at most once in '
        f"{report.settings.days:,} days. Where a series is compared with the weeks before, an "
        "unusual week can look like a change."
    )


def with_sentences(report: ChangesReport) -> ChangesReport:
    """The report with what happened in words, for programs."""
    changes = [replace(change, text=sentence(change)) for change in report.changes]
    return replace(report, changes=changes)


def change_text(change: Change) -> str:
    """A verdict in a few words.

    Example:
        >>> worse = ChangeVerdict.WORSE
        >>> change_text(Change(metric="ctr", slice="b", against="others", verdict=worse))
        'worse than the others'
        >>> change_text(Change(metric="ctr", verdict=ChangeVerdict.NO_CHANGE))
        'no change seen'
    """
    if change.verdict not in CHANGED:
        return change.verdict
    than = {WEEKS: "the weeks before", OTHERS: "the others"}.get(change.against, change.against)
    joint = "against" if change.verdict == ChangeVerdict.CHANGED else "than"
    return f"{change.verdict} {joint} {than}"


def changes_table(
    changes: Sequence[Change], title: str, *, dated: bool = False
) -> TextTable[Change]:
    """A line for each series: since when, by how much, how sure, and the verdict.

    `dated`: whether lines are of several days.
    """
    day = TextColumn[Change]("day", lambda change: day_text(change.until) if change.until else "")
    columns: list[TextColumn[Change]] = [
        *[day][:dated],
        TextColumn("metric", series_name),
        TextColumn("since", _since, "right"),
        TextColumn("change", _effect, "right"),
        TextColumn("by chance alone", _chance, "right"),
        TextColumn("lists, of the usual", _lists, "right"),
        TextColumn(
            "verdict",
            change_text,
            tone=lambda change: change.verdict if change.verdict in CHANGED else "",
            more=lambda change: [] if change.reason is None else [(change.reason, "")],
        ),
    ]
    return TextTable(columns, changes, title)


def series_name(change: Change) -> str:
    """Name of a series that is watched: a metric, or a metric of a slice."""
    return change.metric if change.slice is None else f"{change.metric} of {change.slice}"


def _since(change: Change) -> str:
    return UNDEFINED if change.since is None else f"{day_text(change.since)}{set_text(change)}"


def _effect(change: Change) -> str:
    if change.effect is None:
        return UNDEFINED
    effect = percent(change.effect, "+")
    return effect if change.low is None else f"{effect} ({lift_bounds(change.low, change.high)})"


def _chance(change: Change) -> str:
    return chance_text(change.evidence_days or 0.0) or UNDEFINED


def _lists(change: Change) -> str:
    return UNDEFINED if change.lists_ratio is None else f"{100 * change.lists_ratio:.0f} %"


def chance_text(days: float) -> str:
    """Words for how often chance alone shows as much; empty without evidence.

    Example:
        >>> chance_text(16.3), chance_text(40.2), chance_text(1e9)
        ('', 'once in 40 days', 'once in more than a million days')
    """
    if days < _FEWEST:
        return ""
    return f"once in {f'{days:,.0f}' if days <= 1e6 else 'more than a million'} days"


def day_text(day: date) -> str:
    """A day as people write it.

    Example:
        >>> day_text(date(2026, 3, 3))
        '3 Mar'
    """
    return f"{day.day} {day:%b}"


def until_text(report: ChangesReport) -> str:
    """The last day that is judged, with its time zone; empty before the first look.

    Example:
        >>> until_text(ChangesReport(until=date(2026, 3, 3), time_zone="Asia/Tokyo"))
        'until the end of 3 Mar in Asia/Tokyo'
        >>> until_text(ChangesReport(until=date(2026, 3, 3)))
        'until the end of 3 Mar in UTC'
    """
    if report.until is None:
        return ""
    return f"until the end of {day_text(report.until)} in {report.time_zone or 'UTC'}"


def sentence(change: Change) -> str:
    """Describe a change in a sentence or two.

    Example:
        >>> day = date(2026, 3, 3)
        >>> dates = {"since": day, "first": day, "last": date(2026, 3, 4)}
        >>> change = Change(metric="ctr", slice="b", against="others", verdict=ChangeVerdict.WORSE,
        ...     effect=-0.12, low=-0.18, high=-0.06, worse_days=2e6, **dates)
        >>> sentence(change)  # doctest: +NORMALIZE_WHITESPACE
        'ctr of b is worse than the others since 3 Mar (3 to 4 Mar): -12.0 % (-18.0 to -6.0 %).
        Chance alone shows as much at most once in more than a million days.'
    """
    name = series_name(change)
    if change.evidence_days is None or change.effect is None:
        because = "" if change.reason is None else f"; {change.reason}"
        return f"{name}: {change.verdict}{because}."
    chance = chance_text(change.evidence_days)
    if change.since is None or change.low is None or change.high is None:
        text = f"{name}: no change seen."
        if chance:
            text += f" Chance alone shows as much at most {chance}."
        return text + _past_text(change, name) + _mix_text(change)
    # Rounded outward, as in tables.
    low, high = percent(change.low, "+", math.floor), percent(change.high, "+", math.ceil)
    bounds = f"{low[:-2]} to {high}"
    since = f"since {day_text(change.since)}{set_text(change)}"
    text = f"{name} is {change_text(change)} {since}: {percent(change.effect, '+')} ({bounds})."
    text += f" Chance alone shows as much at most {chance}."
    suspects = [
        f" {rollout.value} began on {day_text(rollout.day)}."
        for rollout in change.rollouts
        if change.first is not None
        and change.last is not None
        and change.first <= rollout.day <= change.last
    ]
    return text + _past_text(change, name) + _mix_text(change) + "".join(suspects)


def _past_text(change: Change, name: str) -> str:
    texts = []
    for pulse in change.past:
        size = percent(abs(pulse.effect))
        how = f"{size} {'lower' if pulse.effect < 0 else 'higher'}"
        first, last = day_text(pulse.began), day_text(pulse.ended)
        when = f"on {last}" if pulse.began == pulse.ended else f"from {first} to {last}"
        normal = day_text(pulse.ended + timedelta(days=1))
        texts.append(f" {name} was {how} {when}; back to normal since {normal}.")
    return "".join(texts)


def set_text(change: Change) -> str:
    """The days on which a change may have begun, in brackets; empty if it is one."""
    if change.first is None or change.last is None or change.first == change.last:
        return ""
    same = change.first.month == change.last.month
    first = str(change.first.day) if same else day_text(change.first)
    return f" ({first} to {day_text(change.last)})"


def _mix_text(change: Change) -> str:
    if change.raw is None or change.mix is None or abs(change.mix) < 0.0005:
        return ""
    raw, audience = percent(change.raw, "+"), percent(change.mix, "+")
    return f" In total it is {raw}, of which {audience} is due to a changed audience."
