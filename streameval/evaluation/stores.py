"""Saved states as input of a command: their counts, the metrics selected, and the method."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from streameval.accumulator.formulas import needed_inputs
from streameval.catalogue import parse
from streameval.catalogue.metric import Metric
from streameval.config import Config
from streameval.config.states import newest_checkpoints, restore, without_copies
from streameval.engine.capture import lifetimes_of
from streameval.engine.windows.views import SliceTable
from streameval.evaluation.arguments import OF_FILES, Note, Surroundings, refuse_options
from streameval.evaluation.setup import Request
from streameval.events.errors import UsageError
from streameval.statistics.intervals import Intervals, Method


class StateCounts(NamedTuple):
    """The lifetime counts of saved states, all partitions together.

    Attributes:
        clocks: event time of each log with events, microseconds.
    """

    config: Config
    families: Sequence[SliceTable]
    intervals: Intervals
    clocks: Sequence[int]
    is_doubtful: bool = False


def restore_states(request: Request, around: Surroundings) -> StateCounts:
    """The counts of saved states, and their configuration."""
    reading = ("columns", "time_unit", "time_zone", *OF_FILES, "ties", "combine")
    refuse_options(
        request.options, reading, " is for events; those of a state are counted already."
    )
    # First, as a state imports no module: it has the metrics of those that the caller names.
    for text in (*request.options.metrics, *request.added):
        parse(text).require_numbers()
    checkpoints = without_copies(newest_checkpoints(request.files, around.note), around.note)
    if not checkpoints:
        raise UsageError(f"no state in {', '.join(request.files)}.")
    path = request.options.config
    config, ingest = restore(checkpoints, Path(path) if path else None, around.note)
    if config.intervals is None:
        raise UsageError(
            f"{request.files[0]}: the state was made without intervals; add intervals = {{}} to "
            "the daemon's configuration to count by user."
        )
    families = lifetimes_of(ingest, config.series_labels())
    return StateCounts(config, families, config.intervals, [*ingest.copied().times.values()])


def selected_metrics(request: Request, metrics: Sequence[Metric]) -> Sequence[Metric]:
    """The metrics of a state that a request names; all if it names none."""
    if not request.options.metrics:
        return metrics
    requested = {parse(text).text for text in request.options.metrics}
    texts = [metric.text for metric in metrics]
    for text in sorted(requested.difference(texts)):
        raise UsageError(f"-m {text}: not in the state, which has {', '.join(texts)}.")
    return [metric for metric in metrics if metric.text in {*requested, *request.added}]


def without_sets(request: Request, around: Surroundings) -> Request:
    """The request without metrics of all lists together that need an input, such as a catalogue.

    They cannot be compared, so the input is not needed.
    """
    parsed = {text: parse(text) for text in request.options.metrics}
    left_out = [
        text
        for text, metric in parsed.items()
        if metric.definition.per == "slice" and needed_inputs(metric)
    ]
    for text in left_out:
        around.note(f"{text} is not compared: it is not a mean over lists or items.")
    metrics = [text for text in request.options.metrics if text not in left_out]
    if left_out and not metrics and not request.added:
        raise UsageError("no metric that can be compared; `streameval metrics` lists them all.")
    return request.with_options(metrics=metrics)


def method_of(
    request: Request, method: Method | None, around: Surroundings, looks: int = 1
) -> Method:
    """The method named, else the one that survives the looks; a state is looked at often."""
    often = request.call.is_state or looks > 1
    if method == "fixed" and often:
        what = f"{looks} looks" if looks > 1 else "a state, which grows,"
        text = "fixed holds for one look only: for {what} use {method=anytime}."
        around.note(Note(text, what=what))
    return method or ("anytime" if often else "fixed")
