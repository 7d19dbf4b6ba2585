"""The work of `streameval compare`: variants counted from files, and what is asked of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from typing import cast

import msgspec
import numpy as np
from typer import Exit

from streameval.accumulator import Accumulator
from streameval.cli.comparison_report import Written, write_report
from streameval.cli.ending import FAILED, WrongCallError, tell, wrong_call_where
from streameval.cli.evaluation import Request, configured
from streameval.cli.evaluation_records import FileCounting, beginning, read_all
from streameval.comparison import Method
from streameval.config import Config
from streameval.config.pipeline import layout
from streameval.errors import SourceError, nearest
from streameval.experiment import Experiment, Report, Variant, compared
from streameval.intervals import Audience, Intervals
from streameval.pipeline.decode import Decoded
from streameval.pipeline.labels import MISSING_LABEL
from streameval.sources.files import FilesSource
from streameval.sources.options import FilesOptions


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What the caller says of the experiment; as `Experiment`, but as text.

    Attributes:
        control: value of the label.
        primary: metrics.
        guardrails: "metric=lift" each.
        shares: "variant=share,..."; None for equal ones.
        same_users: whether users meet several variants by design.
        method: what bounds must hold for.
        confidence: of intervals.
        precision: lift that matters.
        since: first day.
        fail_on: verdicts that end in status 1.
    """

    control: str
    primary: Sequence[str]
    guardrails: Sequence[str]
    shares: str | None
    same_users: bool
    method: Method
    confidence: float
    precision: float
    since: str | None
    fail_on: Sequence[str]

    def experiment(self, label: str) -> Experiment:
        """The same as an experiment.

        Raises:
            WrongCallError: a text is none that can be read.
        """
        return Experiment(
            label=label,
            control=self.control,
            since=_date(self.since),
            shares=dict(_pairs("--shares", (self.shares or "").split(","))),
            primary=list(self.primary),
            guardrails=dict(_pairs("--guardrail", self.guardrails)),
            same_users=self.same_users,
        )


def _pairs(option: str, texts: Sequence[str]) -> Iterator[tuple[str, float]]:
    for text in filter(None, texts):
        # A metric's own parameters have equal signs, too: the last one is meant.
        name, _, number = text.rpartition("=")
        try:
            yield (name.strip() or _refuse(option, text)), float(number)
        except ValueError:
            _refuse(option, text)


def _refuse(option: str, text: str) -> str:
    example = "ctr=-0.01" if option == "--guardrail" else "control=9,treatment=1"
    raise WrongCallError(f"{option}: found {text!r}; give NAME=NUMBER, like {example}.")


def _date(text: str | None) -> date | None:
    try:
        return None if text is None else date.fromisoformat(text)
    except ValueError:
        raise WrongCallError(f"--since: found {text!r}; give a day, like 2026-03-01.") from None


def compared_files(request: Request, asked: Asked) -> None:
    """Compare the variants in files, and write the report.

    Raises:
        WrongCallError: files or options cannot be used.
        ConfigError: what is asked for does not fit together.
        MetricError: a metric cannot be understood.
        SourceError: a file is damaged.
    """
    (label,) = request.labels
    config = configured(request)
    experiment = asked.experiment(label)
    intervals = Intervals(confidence=asked.confidence, precision=asked.precision)
    empty = msgspec.structs.replace(config, intervals=intervals).accumulator()
    experiment.check(empty.metrics, "command line")
    if experiment.since is not None and config.event.time is None:
        raise WrongCallError("--since needs event time: name its field with --time.")
    counted = _of_records(request, config, empty)
    _refuse_what_cannot_be_compared(counted, request, experiment)
    variants = {name: _variant(each) for name, each in counted.items()}
    report = compared(experiment, empty.metrics, variants, intervals, asked.method)
    for metric in empty.metrics:
        if empty.groups(metric.text) is None:
            tell(f"{metric.text} is not compared: {empty.read(metric.text).no_interval}")
    if not report.rows:
        raise WrongCallError("no metric that can be compared; `streameval metrics` lists them all.")
    write_report(Written(report, experiment, intervals, asked.method), request.format)
    if any(name in asked.fail_on for name in _failures(report)):
        raise Exit(FAILED)


def _failures(report: Report) -> Iterator[str]:
    if report.checks.trouble:
        yield "untrusted"
    for row in report.rows:
        if row.comparison.verdict == "worse":
            yield "worse"
        if row.guardrail is not None and row.guardrail.verdict == "broken":
            yield "guardrail"


def _variant(counted: Accumulator) -> Variant:
    sums = {metric.text: counted.groups(metric.text) for metric in counted.metrics}
    audience = cast("Audience", counted.audience)
    return Variant({name: each for name, each in sums.items() if each is not None}, audience)


class _Arms:
    """An accumulator for each value of a label."""

    def __init__(self, empty: Accumulator, column: int) -> None:
        self._empty, self._column = empty, column
        self.counted: dict[str, Accumulator] = {}

    def update(self, decoded: Decoded) -> None:
        """Count events, each in its variant."""
        times = None if decoded.times is None else decoded.times.tolist()
        batch = msgspec.structs.replace(
            decoded.batch,
            times=times,
            event_ids=decoded.event_ids,
            users=decoded.batch.users or decoded.users,
        )
        values = np.array([each[self._column] for each in decoded.dimensions or ()], object)
        for value in sorted(set(values.tolist())):
            if value not in self.counted:
                self.counted[value] = self._empty.copy()
            self.counted[value].update_many(batch.take(np.flatnonzero(values == value).tolist()))


def _of_records(request: Request, config: Config, empty: Accumulator) -> dict[str, Accumulator]:
    """Variants in JSON lines."""
    arms = _Arms(empty, config.dimensions().index(request.labels[0]))
    counting = FileCounting(config, layout(config), arms.update)
    source = FilesSource(cast("FilesOptions", config.source))
    with wrong_call_where(SourceError):
        source.open(beginning(config, counting))
    read_all(source, counting)
    return arms.counted


def _refuse_what_cannot_be_compared(
    counted: Mapping[str, Accumulator], request: Request, experiment: Experiment
) -> None:
    """Refuse files without variants or users.

    Raises:
        WrongCallError: it says what is missing, and which option names it.
    """
    files, label = ", ".join(request.files), experiment.label
    if not counted:
        raise WrongCallError(f"no valid event in {files}.")
    found = [name for name in sorted(counted) if name != MISSING_LABEL]
    if not found:
        raise WrongCallError(
            f"no event in {files} has the label {label!r}; name the field of the variant with "
            f"--by FIELD, or with --column {label}=FIELD."
        )
    if experiment.control not in counted:
        offered = nearest(experiment.control, found)
        hint = f" Did you mean {offered[0]!r}?" if offered else ""
        raise WrongCallError(
            f"no event has {label}={experiment.control}; found are {', '.join(found)}. Name the "
            f"one that the others are compared with by --control.{hint}"
        )
    if len(found) < 2:
        raise WrongCallError(f"every event has {label}={found[0]}; there is nothing to compare.")
    audiences = [cast("Audience", each.audience) for each in counted.values()]
    if all(each.anonymous == each.lists for each in audiences):
        raise WrongCallError(
            f"no event in {files} names its user, and a user's lists resemble each other: without "
            "users nobody can say what is real. Name the field of users with --column user=FIELD."
        )
