"""What is wrong with the changes of a configuration."""

from __future__ import annotations

from collections.abc import Iterator

from streameval.analyses.changes.settings import ChangeSettings
from streameval.engine.analysis import Kept, Problem
from streameval.events.errors import suggestion, unknown_name_problem


def change_problems(changes: ChangeSettings, kept: Kept) -> Iterator[Problem]:
    """Changes without intervals or event time, or of what is not counted."""
    if kept.intervals is None:
        yield "changes", "changes need intervals; add intervals = { confidence = 0.95 }."
    if not kept.timed:
        yield "changes", "changes need event time; name its field in [event] time."
    for key, name, chosen, what in (
        ("label", changes.label, kept.labels, "`labels`"),
        ("rollouts", changes.rollouts, kept.labels, "`labels`"),
        ("mix", changes.mix, kept.segments, "`segments`"),
    ):
        if name is not None and (problem := unknown_name_problem(name, chosen, what)):
            yield f"changes.{key}", f"{name!r} is {problem}"
    choices = _watchable(kept)
    if not choices:
        yield "changes.metrics", "no metric has an interval, so none can be watched."
    for index, name in enumerate(changes.metrics):
        if name not in choices and choices:
            problem = f"{name!r} is not counted by user; choose one of {', '.join(choices)}."
            yield f"changes.metrics[{index}]", f"{problem}{suggestion(name, choices)}"


def _watchable(kept: Kept) -> list[str]:
    """The metrics that have sums by user group, by their text."""
    families = [family.metrics for family in kept.families if family.segment is None]
    texts = [metric.text for metrics in families for metric in metrics if metric.has_interval]
    return list(dict.fromkeys(texts))
