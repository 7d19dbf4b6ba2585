"""Finds changes in files or saved states: which series got worse, and since when."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import Any, NamedTuple

import msgspec

from streameval.accumulator.by_user import ungrouped
from streameval.analyses.changes.analysis import CHANGES
from streameval.analyses.changes.reader import (
    SlicedCounts,
    closed_day,
    families_in,
    watched_series,
)
from streameval.analyses.changes.report import ChangesReport
from streameval.analyses.changes.settings import OTHERS, WEEKS, ChangeSettings
from streameval.analyses.changes.statistics import (
    WatchedSeries,
    judge_changes,
    look,
    replayed,
)
from streameval.catalogue import parse
from streameval.config import Config
from streameval.decoding.values import MISSING_LABEL
from streameval.engine.windows.times import Windowing
from streameval.evaluation.counted import count
from streameval.evaluation.options import NoEventsError, Surroundings
from streameval.evaluation.setup import Request, setup_of
from streameval.evaluation.stores import restore_states
from streameval.events.errors import UsageError, suggestion
from streameval.inference.days import date_of, number_of_day
from streameval.statistics.intervals import Intervals


class ChangeOptions(NamedTuple):
    """Options of a search for changes.

    Attributes:
        settings: given fields of ChangeSettings; they override the configuration.
        until: the last day that counts; None: the last one that is closed.
        replay: whether each earlier day is judged as it was.
    """

    settings: Mapping[str, Any]
    until: date | None = None
    replay: bool = False


class ChangesResult(NamedTuple):
    """The changes with the settings that they were found with.

    Attributes:
        reports: one for each day that was judged, the oldest first; one without replay.
        is_doubtful: whether most records with interactions are invalid.
    """

    reports: Sequence[ChangesReport]
    is_doubtful: bool = False

    @property
    def latest(self) -> ChangesReport:
        """The report of the last day."""
        return self.reports[-1]


class _Counts(NamedTuple):
    """What was counted.

    Attributes:
        closed: the last closed day, since 1970-01-01 (UTC); None without event time.
        open_too: whether a day after it may be asked for, as no more events come.
    """

    families: Sequence[SlicedCounts]
    settings: ChangeSettings
    intervals: Intervals
    closed: int | None
    is_doubtful: bool = False
    open_too: bool = False


def find_changes(request: Request, options: ChangeOptions, around: Surroundings) -> ChangesResult:
    """Count the events by day and user, and judge every series; notes doubts about the events.

    Raises:
        UsageError: the request contradicts itself, or names what is not there.
        NoEventsError: there is no valid event.
        ConfigError: a setting is not valid, or a day in the future is accepted.
    """
    count = _from_states if request.given.is_state else _from_files
    counts = count(request, options, around)
    settings = counts.settings
    series = list(watched_series(counts.families, settings))
    _check_series(series, counts, request)
    newest = max(int(part.traffic.days[-1]) for part in series if part.traffic.days.size)
    settings.check(newest, "command line")
    _check_fields(counts, request, options, around)
    until, precision = _until(options, counts, newest), counts.intervals.precision
    if options.replay:
        by_day = replayed(series, until, settings, precision)
    else:
        looks = [look(part, until, settings) for part in series]
        by_day = [judge_changes(looks, settings, precision)]
    reports = []
    for changes in by_day:
        days = (change.until for change in changes if change.until is not None)
        last = max(days, default=None)
        reports.append(ChangesReport(settings=settings, until=last, changes=changes))
    return ChangesResult(reports, counts.is_doubtful)


def _check_series(series: Sequence[WatchedSeries], counts: _Counts, request: Request) -> None:
    """Raise an error if there is nothing to watch, or nothing to compare with."""
    if not any(part.traffic.days.size for part in series):
        if counts.families and not series:
            raise UsageError(
                "no metric that can be watched; `streameval metrics` lists those with intervals."
            )
        raise NoEventsError(request.files)
    settings = counts.settings
    values = sorted(
        {value for family in counts.families for value in family.values_of(settings.label)}
    )
    if settings.against not in {WEEKS, OTHERS, *values}:
        choices = ", ".join((WEEKS, OTHERS, *values))
        hint = suggestion(settings.against, (WEEKS, OTHERS, *values))
        raise UsageError(f"--against {settings.against}: choose one of {choices}.{hint}")


def _check_fields(
    counts: _Counts, request: Request, options: ChangeOptions, around: Surroundings
) -> None:
    """Raise an error if no event has a field that was asked for; note one of a configuration."""
    settings = counts.settings
    for key, name in (
        ("label", settings.label),
        ("mix", settings.mix),
        ("rollouts", settings.rollouts),
    ):
        values = {value for family in counts.families for value in family.values_of(name)}
        if values == {MISSING_LABEL}:
            problem = f"no event in {', '.join(request.files)} has the field {name!r}"
            if key in options.settings:
                raise UsageError(f"{problem}; name the field with --{key}.")
            around.note(f"{problem} of changes.{key}")


def _until(options: ChangeOptions, counts: _Counts, newest: int) -> int:
    closed = counts.closed
    if closed is None:
        raise UsageError("changes need event time: name its field with --time.")
    if options.until is None:
        return closed
    until = number_of_day(options.until)
    last = max(newest, closed) if counts.open_too else closed
    if until > last:
        day = date_of(last)
        raise UsageError(f"--until {options.until}: give a day up to {day}, the last one to judge.")
    return until


def _from_states(request: Request, options: ChangeOptions, around: Surroundings) -> _Counts:
    states = restore_states(request, around)
    config = states.config
    settings = _settings(config, options, request)
    for key, name, names in (
        ("--label", settings.label, config.series_labels()),
        ("--rollouts", settings.rollouts, config.series_labels()),
        ("--mix", settings.mix, [*config.segments, *config.series_labels()]),
    ):
        if name is not None and name not in names:
            there = ", ".join(names) or "none"
            raise UsageError(f"{key} {name}: not counted in the state, which has {there}.")
    families = families_in(states.families, settings)
    settings = _with_metrics(settings, request, families)
    closed = closed_day(states.clocks, config.windowing().lateness)
    return _Counts(families, settings, states.intervals, closed)


def _from_files(request: Request, options: ChangeOptions, around: Surroundings) -> _Counts:
    request = request.with_options(intervals=Intervals())
    setup = setup_of(request, CHANGES)
    settings = _settings(setup.config, options, request)
    needed = [settings.label, settings.rollouts, settings.mix]
    labels = list(dict.fromkeys(name for name in needed if name is not None))
    if not {*labels} <= {*setup.labels}:
        setup = setup_of(request.with_options(by=labels), CHANGES)
    if setup.fields.time is None:
        raise UsageError("changes need event time: name its field with --time.")
    counted = count(setup, around)
    families = families_in(counted.families, settings)
    for family in counted.families:
        for metric in family.metrics:
            if (reason := ungrouped(metric, family.table)) is not None:
                around.note(f"{metric.text} is not watched: {reason}")
    # Files are read to their end, so none is waited for.
    lateness = Windowing().lateness if setup.config is None else setup.config.windowing().lateness
    closed = closed_day([] if counted.clock is None else [counted.clock], lateness)
    settings = _with_metrics(settings, request, families)
    doubtful = counted.is_doubtful
    return _Counts(families, settings, counted.intervals, closed, doubtful, open_too=True)


def _settings(config: Config | None, options: ChangeOptions, request: Request) -> ChangeSettings:
    settings_given = CHANGES.settings_in(config) or ChangeSettings()
    settings = msgspec.structs.replace(settings_given, **options.settings)
    if settings.label is None and "against" in options.settings and settings.against != WEEKS:
        raise UsageError("--against is for the values of a label; name it with --label.")
    return msgspec.structs.replace(
        settings, metrics=[] if request.options.metrics else settings.metrics
    )


def _with_metrics(
    settings: ChangeSettings, request: Request, families: Iterable[SlicedCounts]
) -> ChangeSettings:
    if not request.options.metrics:
        return settings
    counted = {metric.text for family in families for metric in family.metrics}
    named = [parse(text).text for text in request.options.metrics]
    for text in named if request.given.is_state else ():
        if text not in counted:
            there = ", ".join(sorted(counted))
            raise UsageError(f"-m {text}: not counted by user in the state, which has {there}.")
    return msgspec.structs.replace(settings, metrics=named)
