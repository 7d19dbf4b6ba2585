"""The gaps between the values of a field, in files or saved states."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from streameval.analyses.gaps.reader import gaps_in
from streameval.analyses.gaps.report import Gap
from streameval.config import Config
from streameval.config.config import without_analyses
from streameval.decoding.values import MISSING_LABEL
from streameval.engine.ingest import Ingest
from streameval.evaluation.offline.counting import count_events
from streameval.evaluation.offline.request import ExperimentOptions, Request, config_of
from streameval.evaluation.offline.surroundings import NoEventsError, Surroundings
from streameval.evaluation.stores import is_state, restore_states, without_sets
from streameval.events.errors import UsageError, suggestion
from streameval.statistics.intervals import Intervals, Method


class GapResult(NamedTuple):
    """The gaps of each metric.

    Attributes:
        is_doubtful: whether most records with interactions are invalid.
    """

    gaps: Sequence[Gap]
    is_doubtful: bool = False


def compare_values(
    request: Request, options: ExperimentOptions, by: str, method: Method, around: Surroundings
) -> GapResult:
    """Count the values of a field and compare them with each other.

    Raises:
        UsageError: the request contradicts itself, or names what is not there.
        NoEventsError: there is no valid event.
    """
    _refuse_options(request, options)
    result = _of_state(request, options, by, method, around)
    if result is None:
        result = _of_files(request, options, by, method, around)
    if not result.gaps:
        raise UsageError("no metric that can be compared; `streameval metrics` lists them all.")
    files = ", ".join(request.files)
    value_names = {value.name for gap in result.gaps for value in gap.values}
    if not value_names:
        raise NoEventsError(f"no valid event in {files}.")
    if value_names == {MISSING_LABEL}:
        raise UsageError(
            f"no event in {files} has the field {by!r} of --gap; name it with --gap FIELD or "
            f"--column {by}=FIELD."
        )
    return result


def _refuse_options(request: Request, options: ExperimentOptions) -> None:
    """Refuse options about variants, which a gap between values has not."""
    given = {
        "--label": request.labels,
        "--by": options.by,
        "--recommendations": options.models,
        "--fail-on": options.fail_on,
        **{f"--{name.replace('_', '-')}": value for name, value in options.experiment.items()},
    }
    for option in filter(given.get, given):
        raise UsageError(f"{option.removesuffix('s')} is for variants; with --gap leave it out.")


def _of_files(
    request: Request, options: ExperimentOptions, by: str, method: Method, around: Surroundings
) -> GapResult:
    config = _settings(request, options, by, around)
    ingest = count_events(request, config, around).ingest
    gaps = _of_ingest(ingest, config, by, (), method)
    return GapResult(gaps, ingest.tally.warning() is not None)


def _settings(
    request: Request, options: ExperimentOptions, by: str, around: Surroundings
) -> Config:
    """The configuration to count with: the field is its only label."""
    chosen = msgspec.structs.replace(without_sets(request, around), labels=[by])
    config = without_analyses(config_of(chosen))
    intervals = msgspec.structs.replace(config.intervals or Intervals(), **options.intervals)
    return msgspec.structs.replace(config, intervals=intervals)


def _of_state(
    request: Request, options: ExperimentOptions, by: str, method: Method, around: Surroundings
) -> GapResult | None:
    """The gaps of a saved state; None for files."""
    if not is_state(request.files):
        return None
    config, ingest = restore_states(request, around)
    names = config.series_dimensions()
    if by not in names:
        choices = ", ".join(names) or "none"
        problem = f"--gap {by}: neither a label nor a segment of the state: {choices}."
        raise UsageError(f"{problem}{suggestion(by, names)}")
    intervals = msgspec.structs.replace(config.intervals or Intervals(), **options.intervals)
    config = msgspec.structs.replace(config, intervals=intervals)
    return GapResult(_of_ingest(ingest, config, by, request.metrics, method))


def _of_ingest(
    ingest: Ingest, config: Config, by: str, chosen: Sequence[str], method: Method
) -> list[Gap]:
    intervals = config.intervals or Intervals()
    return gaps_in(ingest, by, config.series_labels(), intervals, method, chosen)
