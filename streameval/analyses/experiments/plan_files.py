"""Plans an experiment from the users of files or saved states."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from streameval.analyses.experiments.planning import ExperimentPlan, Wanted, plan_sums
from streameval.analyses.experiments.reader import everyone_in
from streameval.analyses.experiments.statistics import Variant
from streameval.catalogue.metric import Metric
from streameval.config.config import relabel
from streameval.engine.capture import lifetimes_of
from streameval.evaluation.configured import config_of, count_events
from streameval.evaluation.request import Request
from streameval.evaluation.result import Surroundings, as_usage_error
from streameval.evaluation.stores import chosen_metrics, is_state, restore_states
from streameval.events.errors import NotComparableError, UsageError
from streameval.statistics.intervals import Intervals


class _Counted(NamedTuple):
    """Everyone who was counted."""

    metrics: Sequence[Metric]
    everyone: Variant
    intervals: Intervals


def plan_experiments(
    request: Request, wanted: Wanted, options: Mapping[str, Any], around: Surroundings
) -> list[ExperimentPlan]:
    """A plan for each metric that an experiment can compare; notes those left out.

    `options`: given fields of Intervals.

    Raises:
        UsageError: no metric can be compared, or there is no valid event.
    """
    counted = (
        _of_states(request, around)
        if is_state(request.files)
        else _of_files(request, options, around)
    )
    intervals = msgspec.structs.replace(counted.intervals, **options)
    plans = list(_plans(counted, intervals, wanted, around))
    if not plans:
        raise UsageError("no metric that an experiment can compare; give another one with -m.")
    return plans


def _plans(
    counted: _Counted, intervals: Intervals, wanted: Wanted, around: Surroundings
) -> Iterator[ExperimentPlan]:
    for metric in counted.metrics:
        sums = counted.everyone.sums.get(metric.text)
        if sums is None:
            around.note(f"{metric.text} is left out: it is not a mean over lists or items.")
            continue
        users = counted.everyone.audience.users
        with as_usage_error(NotComparableError):
            yield plan_sums(metric.text, sums, users, intervals, wanted)


def _of_files(request: Request, options: Mapping[str, Any], around: Surroundings) -> _Counted:
    config = config_of(request.given, request.options)
    intervals = msgspec.structs.replace(config.intervals or Intervals(), **options)
    config = msgspec.structs.replace(config, intervals=intervals)
    if request.given.is_columns:
        # A table need not have the columns of labels.
        config = relabel(msgspec.structs.replace(config, segments=[]), labels=[])
    ingest = count_events(request.given, request.options, config, around).ingest
    if not ingest.tally.valid:
        raise UsageError(f"no valid event in {', '.join(request.files)}.")
    return _Counted(*everyone_in(lifetimes_of(ingest, config.series_labels())), intervals)


def _of_states(request: Request, around: Surroundings) -> _Counted:
    config, ingest = restore_states(request, around)
    metrics, everyone = everyone_in(lifetimes_of(ingest, config.series_labels()))
    return _Counted(chosen_metrics(request, metrics), everyone, config.intervals or Intervals())
