"""`streameval changes`: finds what changed in files or saved states, and since when."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from functools import partial
from typing import Annotated, Any

import msgspec
from typer import Option

from streameval.analyses.changes.files import ChangeOptions, ChangesResult, find_changes
from streameval.analyses.changes.report import CHANGED, Change, ChangesReport
from streameval.analyses.changes.words import (
    changes_promise,
    changes_table,
    day_text,
    sentence,
    told,
)
from streameval.evaluation.options import as_usage_error
from streameval.evaluation.setup import given_options
from streameval.evaluation.shell.options import Format, ReadOptions, day_option, with_fields
from streameval.evaluation.shell.terminal import SURROUNDINGS, Forms
from streameval.events.errors import InvalidEventError, SourceError
from streameval.inference.table import TextTable


class ChangeCondition(StrEnum):
    """A verdict on which the search for changes may exit with status 1."""

    WORSE = "worse"
    CHANGED = "changed"
    UNTRUSTED = "untrusted"


class WatchOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of `changes` alone."""

    label: Annotated[
        str | None,
        Option(help="Field whose values are watched, too, like variant or country."),
    ] = None
    against: Annotated[
        str | None,
        Option(
            metavar="weeks|others|VALUE",
            help="What values of the label are compared with: their weeks before, the other "
            "values, or one of them, like control.",
            show_default="others",
        ),
    ] = None
    mix: Annotated[
        str | None,
        Option(help="Field by whose values the audience is held constant, like country."),
    ] = None
    rollouts: Annotated[
        str | None, Option(help="Field whose new values are suspects, like model.")
    ] = None
    tolerate: Annotated[
        float | None,
        Option(min=0.0, max=0.99, help="Relative change that does not count.", show_default="0.01"),
    ] = None
    once_in: Annotated[
        str | None,
        Option(
            metavar="DAYS",
            help="How long chance alone takes for a change, over all series, like 365d.",
            show_default="91d",
        ),
    ] = None
    accepted: Annotated[
        list[str],
        Option(
            metavar="DATE", help="Day from which on a change is the new normal. May be repeated."
        ),
    ] = []
    ignore: Annotated[
        list[str],
        Option(
            metavar="DATE[/DATE]",
            help="Day, or days from one to another, that count nowhere, like a holiday: "
            "2026-12-24/2027-01-01. May be repeated.",
        ),
    ] = []
    until: Annotated[
        str | None,
        Option(
            metavar="DATE",
            help="Last whole day (UTC) to judge, like 2026-03-31.",
            show_default="the last that is closed",
        ),
    ] = None
    replay: Annotated[
        bool, Option("--replay", help="Judge each earlier day as it was, and show the turns.")
    ] = False
    fail_on: Annotated[
        list[ChangeCondition],
        Option(
            metavar="VERDICT",
            help="Exit with status 1 on this verdict of the last day: worse, changed (also better) "
            "or untrusted. May be repeated.",
        ),
    ] = []


@with_fields
def changes(
    *,
    read: ReadOptions,
    watch: WatchOptions,
    format: Format = "table",  # noqa: A002  the option is called --format
) -> None:
    """Find changes: did it get worse, really, and since when?

    ```
    streameval changes events.ndjson.gz -m ctr -m ndcg@10 --time ts --time-unit s
    streameval changes logs/2026/ -m ctr --label variant --against control --mix country --time ts
    streameval changes state --fail-on worse     # what a daemon has saved, all partitions together
    streameval changes state --replay            # when would it have been seen?
    ```

    Each of the last 28 days is compared with the same weekdays before it, over users, and with
    how much days move. The total is compared with earlier weeks; the values of --label with each
    other, as a bad week is bad for all of them.

    Evidence in days: chance alone shows as much at most once in so many days, over all series. A
    change has evidence of --once-in days. Files need users, event time and 22 days or more. The
    newest day may be incomplete and does not count, unless --until names it.
    """
    settings = given_options(
        label=watch.label,
        against=watch.against,
        mix=watch.mix,
        rollouts=watch.rollouts,
        once_in=watch.once_in,
        accepted=[day_option("--accepted", text) for text in watch.accepted],
        ignore=watch.ignore,
        tolerate=watch.tolerate,
    )
    last = None if watch.until is None else day_option("--until", watch.until)
    with as_usage_error(SourceError, InvalidEventError):
        options = ChangeOptions(settings, last, watch.replay)
        result = find_changes(read.request(), options, SURROUNDINGS)
    forms = Forms(partial(_parts, result), partial(_content, result), partial(_records, result))
    fails = not {*watch.fail_on}.isdisjoint(_failures(result.latest))
    read.write(forms, format, is_doubtful=result.is_doubtful, fails=fails)


def _failures(report: ChangesReport) -> Iterator[str]:
    for change in report.changes:
        if change.verdict in CHANGED:
            yield "changed"
        if change.verdict == "worse":
            yield "worse"
        if change.verdict == "do not trust":
            yield "untrusted"


def _content(result: ChangesResult) -> object:
    """An object: the settings, and the changes at the end of each judged day; null if unknown."""
    rows = [_record(change) for report in result.reports for change in told(report).changes]
    return {"settings": msgspec.to_builtins(result.latest.settings), "changes": rows}


def _record(change: Change) -> dict[str, Any]:
    row: dict[str, Any] = msgspec.to_builtins(change)
    del row["days"]
    return row


def _records(result: ChangesResult) -> Iterator[dict[str, Any]]:
    for report in result.reports:
        for change in told(report).changes:
            rollouts = (f"{rollout.day}={rollout.value}" for rollout in change.rollouts)
            past = (f"{pulse.began}/{pulse.ended}={pulse.effect:g}" for pulse in change.past)
            yield _record(change) | {"rollouts": " ".join(rollouts), "past": " ".join(past)}


def _parts(result: ChangesResult) -> Iterator[str | TextTable[Change]]:
    """A line for each series, or with replay for each turn; then the changes in sentences."""
    until, dated = result.latest.changes[0].until, len(result.reports) > 1
    rows = list(_turns(result.reports)) if dated else result.latest.changes
    day = "" if until is None else day_text(until)
    yield changes_table(rows, f"{'the turns ' * dated}until the end of {day}", dated=dated)
    yield from (sentence(change) for change in result.latest.changes if _is_told(change))
    yield _promise(result.latest)


def _turns(reports: Sequence[ChangesReport]) -> Iterator[Change]:
    """The first verdict on each series, and every other one that differs from the day before."""
    before: dict[tuple[str, str | None], str] = {}
    for report in reports:
        for change in report.changes:
            key = change.metric, change.slice
            if before.get(key) != change.verdict:
                yield change
            before[key] = change.verdict


def _is_told(change: Change) -> bool:
    told = change.verdict in CHANGED or change.reason is not None
    return told or bool(change.mix or change.past)


def _promise(report: ChangesReport) -> str:
    judged = sum(change.evidence_days is not None for change in report.changes)
    if not judged:
        return "No series is judged, so nothing is said about changes."
    series = "1 series is judged" if judged == 1 else f"{judged:,} series are judged"
    return f"{series}. {changes_promise(report)}"
