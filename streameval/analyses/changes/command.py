"""`streameval changes`: finds what changed in files or saved states, and since when."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from enum import StrEnum
from typing import Annotated, Any

import msgspec
from msgspec.structs import replace
from typer import Option

from streameval.accumulator.kinds.groups import ungrouped
from streameval.analyses.changes.analysis import CHANGES
from streameval.analyses.changes.reader import (
    closed_day,
    families_in,
    watched_series,
)
from streameval.analyses.changes.report import (
    CHANGED,
    OTHERS,
    WEEKS,
    Change,
    ChangeSettings,
    ChangesReport,
    ChangeVerdict,
)
from streameval.analyses.changes.statistics import judge_changes, look, replay_days
from streameval.analyses.changes.words import (
    changes_promise,
    changes_table,
    sentence,
    until_text,
    with_sentences,
)
from streameval.catalogue import parse
from streameval.config import Config
from streameval.decoding.values import MISSING_LABEL
from streameval.engine.windows.times import Windowing
from streameval.evaluation.arguments import as_usage_error, no_events
from streameval.evaluation.result import FileCounts, count, note_idle
from streameval.evaluation.setup import Request, explicit_options, setup_of
from streameval.evaluation.shell.flags import (
    OutputFormat,
    ReadOptions,
    day_option,
    share,
    with_struct_options,
)
from streameval.evaluation.shell.terminal import SURROUNDINGS, Forms
from streameval.evaluation.sources import field_suggestion
from streameval.evaluation.stores import StateCounts, restore_states
from streameval.events.errors import InvalidEventError, SourceError, UsageError
from streameval.events.spelling import suggestion
from streameval.inference.days import calendar_of, date_of, number_of_day
from streameval.inference.text_table import TextTable
from streameval.statistics.intervals import Intervals


class ChangeCondition(StrEnum):
    """A verdict on which the search for changes may exit with status 1."""

    WORSE = "worse"
    CHANGED = "changed"
    UNTRUSTED = "untrusted"


class WatchOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of `changes` alone."""

    label: Annotated[
        str | None,
        Option(help="Field whose values are also watched, like variant or country."),
    ] = None
    against: Annotated[
        str | None,
        Option(
            metavar="weeks|others|VALUE",
            help="What values of the label are compared with: their own earlier weeks (weeks), the "
            "other values (others), or one value, like control.",
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
        Option(
            parser=share,
            metavar="SHARE",
            help="Relative change that does not count.",
            show_default="1%",
        ),
    ] = None
    once_in: Annotated[
        str | None,
        Option(
            metavar="DAYS",
            help="Chance alone raises at most one alarm in this time, over all series, like 365d.",
            show_default="91d",
        ),
    ] = None
    accepted: Annotated[
        list[str],
        Option(
            metavar="DATE", help="Day on which a change became the new normal. May be repeated."
        ),
    ] = []
    ignore: Annotated[
        list[str],
        Option(
            metavar="DATE[/DATE]",
            help="Day or range of days to leave out, like a holiday: 2026-12-24/2027-01-01. May be "
            "repeated.",
        ),
    ] = []
    until: Annotated[
        str | None,
        Option(
            metavar="DATE",
            help="Last full day to judge, like 2026-03-31.",
            show_default="the last closed day",
        ),
    ] = None
    replay: Annotated[
        bool, Option("--replay", help="Judge each earlier day as of then; show verdict changes.")
    ] = False
    fail_on: Annotated[
        list[ChangeCondition],
        Option(
            metavar="VERDICT",
            help="Exit with status 1 on this verdict of the last day: worse, changed (including "
            "better) or untrusted. May be repeated.",
        ),
    ] = []


@with_struct_options
def changes(
    *,
    read: ReadOptions,
    watch: WatchOptions,
    format: OutputFormat = "table",  # noqa: A002  the option is called --format
) -> None:
    """Find changes: did it get worse, really, and since when?

    ```
    streameval changes events.ndjson.gz -m ctr -m ndcg@10 --time ts --time-unit s
    streameval changes logs/2026/ -m ctr --label variant --against control --mix country --time ts
    streameval changes state --fail-on worse     # what a daemon has saved, all partitions together
    streameval changes state --replay            # when would it have been seen?
    ```

    Each of the last 28 days is compared with the same weekdays before it, allowing for the
    spread between users and between days. The total is compared with earlier weeks; the values of
    --label with each other, because a bad week is bad for all of them.

    Evidence in days: chance alone shows as much at most once in that many days, over all series. A
    change needs evidence of --once-in days. Files need users, event time and at least 22 days. The
    newest day may be incomplete, so it does not count unless --until names it.
    """
    overrides = explicit_options(
        label=watch.label,
        against=watch.against,
        mix=watch.mix,
        rollouts=watch.rollouts,
        once_in=watch.once_in,
        accepted=[day_option("--accepted", text) for text in watch.accepted],
        ignore=watch.ignore,
        tolerate=watch.tolerate,
    )
    until = None if watch.until is None else day_option("--until", watch.until)
    with as_usage_error(SourceError, InvalidEventError):
        request = read.request()
        reports, is_doubtful = _reports(request, overrides, until, replay=watch.replay)
    latest = reports[-1]
    verdicts = {change.verdict for change in latest.changes}
    failures = {
        ChangeCondition.CHANGED: verdicts & CHANGED,
        ChangeCondition.WORSE: verdicts & {ChangeVerdict.WORSE},
        ChangeCondition.UNTRUSTED: verdicts & {ChangeVerdict.DO_NOT_TRUST},
    }
    texts = [with_sentences(report) for report in reports]
    rows = [row for report in texts for row in report.changes]
    forms = Forms(
        lambda: _parts(reports),
        lambda: {
            "settings": msgspec.to_builtins(latest.settings),
            "time_zone": latest.time_zone,
            "changes": list(map(_record, rows)),
        },
        lambda: map(_flat_record, rows),
    )
    fails = any(failures[condition] for condition in watch.fail_on)
    read.write(forms, format, is_doubtful=is_doubtful, fails=fails)


def _reports(
    request: Request, overrides: Mapping[str, Any], until: date | None, *, replay: bool
) -> tuple[list[ChangesReport], bool]:
    """The verdicts on every series, and whether most records with interactions are invalid.

    They are of the last day, or with `replay` of each day, the oldest first.

    `overrides`: settings that override the configuration. `until`: None for the last closed day.
    """
    count_all = _from_states if request.call.is_state else _from_files
    counted, settings, closed, time_zone = count_all(request, overrides)
    families, files = families_in(counted.families, settings), ", ".join(request.files)
    if named := [parse(text).text for text in request.options.metrics]:
        texts = {metric.text for family in families for metric in family.metrics}
        for text in named if request.call.is_state else ():
            if text not in texts:
                available = ", ".join(sorted(texts))
                raise UsageError(
                    f"-m {text}: not counted by user in the state, which has {available}."
                )
        settings = replace(settings, metrics=named)
    series = list(watched_series(families, settings))
    if not any(part.traffic.days.size for part in series):
        if families and not series:
            raise UsageError(
                "no metric that can be watched; `streameval metrics` lists those with intervals."
            )
        raise no_events(request.files)
    values = {
        key: {value for family in families for value in family.values_of(name).values()}
        for key in ("label", "mix", "rollouts")
        if (name := getattr(settings, key)) is not None
    }
    choices = (WEEKS, OTHERS, *sorted(values.get("label", ())))
    if settings.against not in choices:
        hint = suggestion(settings.against, choices)
        choice = f"choose one of {', '.join(choices)}"
        raise UsageError(f"--against {settings.against}: {choice}.{hint}")
    newest = max(int(part.traffic.days[-1]) for part in series if part.traffic.days.size)
    settings.check(newest, "command line")
    for key, field_values in values.items():
        if field_values == {MISSING_LABEL}:
            problem = f"no event in {files} has the field {getattr(settings, key)!r}"
            hint = field_suggestion(request.call, getattr(settings, key))
            if key in overrides:
                raise UsageError(f"{problem}; name the field with --{key}.{hint}")
            SURROUNDINGS.note(f"{problem} of changes.{key}.{hint}")
    if closed is None:
        raise UsageError("changes need event time: name its field with --time.")
    day, last = closed, closed
    if until is not None:
        # No more events come to files, so that a day after the last closed one is whole.
        day, last = number_of_day(until), last if request.call.is_state else max(newest, last)
    if day > last:
        raise UsageError(
            f"--until {until}: give a day up to {date_of(last)}, the last one to judge."
        )
    precision = counted.intervals.precision
    if replay:
        by_day = replay_days(series, day, settings, precision)
    else:
        looks = [look(part, day, settings) for part in series]
        by_day = [judge_changes(looks, settings, precision)]
    reports = []
    for changes_of_day in by_day:
        days = (change.until for change in changes_of_day if change.until is not None)
        last_day = max(days, default=None)
        reports.append(
            ChangesReport(
                settings=settings, until=last_day, changes=changes_of_day, time_zone=time_zone
            )
        )
    return reports, counted.is_doubtful


def _from_states(
    request: Request, overrides: Mapping[str, Any]
) -> tuple[StateCounts, ChangeSettings, int | None, str | None]:
    """The counts, the settings, the last closed day (None without event time), and its zone."""
    states = restore_states(request, SURROUNDINGS)
    config = states.config
    settings, labels = _settings(config, overrides), config.series_labels()
    for key, names in (
        ("label", labels),
        ("rollouts", labels),
        ("mix", [*config.segments, *labels]),
    ):
        name = getattr(settings, key)
        if name is not None and name not in names:
            available = ", ".join(names) or "none"
            raise UsageError(f"--{key} {name}: not counted in the state, which has {available}.")
    calendar = calendar_of(config.time_zone)
    closed = closed_day(states.clocks, config.windowing().lateness, calendar)
    return states, settings, closed, calendar.time_zone


def _from_files(
    request: Request, overrides: Mapping[str, Any]
) -> tuple[FileCounts, ChangeSettings, int | None, str | None]:
    request = request.with_options(intervals=Intervals())
    setup = setup_of(request, CHANGES)
    settings = _settings(setup.config, overrides)
    needed = [settings.label, settings.rollouts, settings.mix]
    labels = list(dict.fromkeys(name for name in needed if name is not None))
    if not {*labels} <= {*setup.labels}:
        setup = setup_of(request.with_options(by=labels), CHANGES)
    if setup.fields.time is None:
        raise UsageError("changes need event time: name its field with --time.")
    counted = count(setup, SURROUNDINGS)
    note_idle(SURROUNDINGS, counted)
    for family in counted.families:
        for metric in family.metrics:
            if (reason := ungrouped(metric, family.table)) is not None:
                SURROUNDINGS.note(f"{metric.text} is not watched: {reason}")
    # Files are read to their end, so none is waited for.
    lateness = Windowing().lateness if setup.config is None else setup.config.windowing().lateness
    clocks = [] if counted.clock is None else [counted.clock]
    zone = setup.options.time_zone if setup.config is None else setup.config.time_zone
    calendar = calendar_of(zone)
    return counted, settings, closed_day(clocks, lateness, calendar), calendar.time_zone


def _settings(config: Config | None, overrides: Mapping[str, Any]) -> ChangeSettings:
    settings = replace(CHANGES.settings_in(config) or ChangeSettings(), **overrides)
    if settings.label is None and "against" in overrides and settings.against != WEEKS:
        raise UsageError("--against is for the values of a label; name it with --label.")
    return settings


def _record(change: Change) -> dict[str, Any]:
    row: dict[str, Any] = msgspec.to_builtins(change)
    del row["days"]
    return row


def _flat_record(change: Change) -> dict[str, Any]:
    rollouts = (f"{rollout.day}={rollout.value}" for rollout in change.rollouts)
    past = (f"{pulse.began}/{pulse.ended}={pulse.effect:g}" for pulse in change.past)
    return _record(change) | {"rollouts": " ".join(rollouts), "past": " ".join(past)}


def _parts(reports: Sequence[ChangesReport]) -> Iterator[str | TextTable[Change]]:
    """A line for each series, or with replay for each turn; then the changes in sentences."""
    latest, dated = reports[-1], len(reports) > 1
    rows = list(latest.changes)
    if dated:
        # The first verdict on each series, and every other one that differs from the day before.
        before: dict[tuple[str, str | None], str] = {}
        rows = []
        for change in (change for report in reports for change in report.changes):
            key = change.metric, change.slice
            if before.get(key) != change.verdict:
                rows.append(change)
            before[key] = change.verdict
    yield changes_table(rows, f"{'verdict changes ' * dated}{until_text(latest)}", dated=dated)
    for change in latest.changes:
        if change.verdict in CHANGED or change.reason is not None or change.mix or change.past:
            yield sentence(change)
    judged = sum(change.evidence_days is not None for change in latest.changes)
    if not judged:
        yield "No series is judged, so nothing is said about changes."
        return
    series = "1 series is judged" if judged == 1 else f"{judged:,} series are judged"
    yield f"{series}. {changes_promise(latest)}"
