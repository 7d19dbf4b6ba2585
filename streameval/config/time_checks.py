"""Whether what is said of event time makes sense: durations, windows, duplicates."""

from __future__ import annotations

from collections.abc import Iterator

from streameval.config.attribution import durations
from streameval.config.durations import SECOND, DurationError, microseconds
from streameval.config.labels import Problem
from streameval.config.options import WindowsOptions
from streameval.config.settings import Config
from streameval.windows.times import FINE, HOUR, span_text


def duration_problems(config: Config) -> Iterator[Problem]:
    """Durations that are none, or 0 where that would be nothing."""
    for key, text, least in _durations(config):
        try:
            length = microseconds(text)
        except DurationError as error:
            yield key, str(error)
            continue
        if length < least:
            yield key, f"found {text!r}; at least {span_text(least)} is needed."


def _durations(config: Config) -> Iterator[tuple[str, str, int]]:
    """The key of each, its text, and the least it may be."""
    yield "labels_idle", config.labels_idle, SECOND
    yield "max_ahead", config.max_ahead, SECOND
    yield "web.first_exposure", config.web.first_exposure, 0
    if config.dedup is not None:
        yield "dedup", config.dedup, SECOND
    if config.windows is not None:
        yield "windows.pane", config.windows.pane, SECOND
        yield "windows.lateness", config.windows.lateness, 0
        for index, span in enumerate(config.windows.spans):
            yield f"windows.spans[{index}]", span, SECOND
    for number, metric in enumerate(config.metric):
        for index, span in enumerate(metric.windows or []):
            yield f"metric[{number}].windows[{index}]", span, SECOND
    if config.attribution is not None:
        yield from durations(config.attribution)
    if config.state is not None:
        yield "state.interval", config.state.interval, SECOND


def window_problems(config: Config) -> Iterator[Problem]:
    """Windows of a stream without time, and panes and spans that do not divide each other."""
    if config.windows is None:
        return
    if config.event.time is None:
        yield "windows", "windows are of event time, and no field holds it; name it in event.time."
    yield from _pane_problems(config.windows)
    yield from _span_problems(config.windows)


def _pane_problems(windows: WindowsOptions) -> Iterator[Problem]:
    if HOUR % microseconds(windows.pane):
        allowed = "'10s', '1m', '5m', '15m' or '1h'"
        yield "windows.pane", f"found {windows.pane!r}; it must divide an hour, like {allowed}."


def _span_problems(windows: WindowsOptions) -> Iterator[Problem]:
    pane, lengths = microseconds(windows.pane), list(map(microseconds, windows.spans))
    for index, (text, length) in enumerate(zip(windows.spans, lengths, strict=True)):
        key = f"windows.spans[{index}]"
        if length in lengths[:index]:
            yield key, f"{text!r} is windows.spans[{lengths.index(length)}] again; remove one."
        if length % pane:
            yield key, f"{text!r} is no multiple of the pane, {windows.pane!r}."
        elif length > FINE and length % HOUR:
            yield key, f"{text!r}: above 2h, where hours are kept, give a multiple of 1h."


def duplicate_problems(config: Config) -> Iterator[Problem]:
    """Duplicates looked for without the fields that show them."""
    if config.dedup is not None:
        for name, what in (("event_id", "the event's identity"), ("time", "event time")):
            if getattr(config.event, name) is None:
                problem = f"missing beside dedup = {config.dedup!r}; name the field of {what}."
                yield f"event.{name}", problem
