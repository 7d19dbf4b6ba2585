"""Service objectives, and alerts on the rate at which they spend their error budget.

The method is that of "Alerting on SLOs" in the Site Reliability Workbook: an alert fires if the
budget burns too fast over a long window, and still does over a short one, so that it ends soon
after the cause has.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from streameval.engine.monitoring import Alert, Severity
from streameval.engine.windows.times import SECOND, duration_of, duration_problem
from streameval.events.errors import UsageError
from streameval.events.spelling import unknown_name_problem

BURNING: Final = "StreamevalErrorBudgetBurning"
_DAYS: Final = 30
"""Period of an objective."""


class Burn(NamedTuple):
    """A rate at which a budget is spent, and the windows over which it is measured."""

    long: str
    short: str
    factor: float
    severity: Severity


BURNS: Final = (
    Burn("1h", "5m", 14.4, "critical"),
    Burn("6h", "30m", 6, "critical"),
    Burn("1d", "2h", 3, "warning"),
    Burn("3d", "6h", 1, "warning"),
)
"""They have spent 2, 5, 10 and 10 % of the budget of 30 days when they fire."""

_LIMITS: Final = {"fresh": "60s", "lag": "5m"}
"""Objective of time -> how long is right, by default."""
_NAMES: Final = ("fresh", "lag", "valid")
_FORM: Final = "give NAME=SHARE, like valid=99.5% or lag:10m=99%"
_LEAST_RECORDS: Final = 100


class Objective(NamedTuple):
    """A share of the records, or of the time, that must be right.

    Attributes:
        name: "fresh": the time with values that are at most `limit` old, of a process that can be
            scraped; those of a reader are as old as the checkpoint of a partition with new
            records. "lag": the time in which at most `limit` of traffic waits in Kafka. "valid":
            the records that are valid.
        share: above 0.5 and below 1.
        limit: seconds; None of a share of records.
    """

    name: str
    share: float
    limit: float | None = None

    @property
    def budget(self) -> float:
        """The share that may be wrong."""
        return 1 - self.share


def objective_of(text: str, *, reads_kafka: bool) -> Objective:
    """The objective of an option.

    Raises:
        UsageError: the text is not NAME=SHARE, or the configuration has no such objective.
    """
    key, separator, share_text = text.partition("=")
    name, has_limit, limit = key.partition(":")
    names = _NAMES if reads_kafka else tuple(other for other in _NAMES if other != "lag")
    whose = "the objectives" if reads_kafka else "the objectives of a source that is not Kafka"
    if not separator:
        raise UsageError(f"--objective: found {text!r}; {_FORM}.")
    if problem := unknown_name_problem(name, names, whose):
        raise UsageError(f"--objective: {name!r} is {problem}")
    if has_limit and name not in _LIMITS:
        raise UsageError(f"--objective: {name!r} has no limit of time; give {name}={share_text}.")
    share = _share(share_text)
    if share is None or not 0.5 < share < 1:
        problem = "give a share above 50% and below 100%, like 99.5%"
        raise UsageError(f"--objective: found {text!r}; {problem}.")
    if name not in _LIMITS:
        return Objective(name, share)
    limit = limit or _LIMITS[name]
    if problem := duration_problem(limit):
        raise UsageError(f"--objective: {problem}")
    return Objective(name, share, duration_of(limit) / SECOND)


def _share(text: str) -> float | None:
    number, is_percent, rest = text.partition("%")
    try:
        return None if rest else float(number) / (100 if is_percent else 1)
    except ValueError:
        return None


def objective_records(
    objective: Objective, jobs: str, *, has_reader: bool
) -> Iterator[tuple[str, str]]:
    """Name and expression of the recorded shares that are wrong; the first names come first.

    `jobs`: matcher of the scrape jobs. `has_reader`: whether checkpoints can be served.
    """
    windows = sorted(
        {window for burn in BURNS for window in (burn.long, burn.short)}, key=duration_of
    )
    if objective.limit is not None:
        yield "job:streameval_wrong:bool", _is_wrong(objective, jobs, has_reader=has_reader)
    for window in windows:
        yield f"job:streameval_wrong:ratio{window}", _ratio(objective, window)


def _is_wrong(objective: Objective, jobs: str, *, has_reader: bool) -> str:
    """1 while a job is wrong, else 0."""
    if objective.name == "fresh":
        stored = (
            "    or on (job, instance, topic, partition) (\n"
            f"      (time() - streameval_stored_timestamp_seconds > bool {objective.limit:g})\n"
            "        and on (job, topic, partition) (streameval_kafka_consumer_lag > 0)\n    )\n"
        )
        return (
            "max by (job) (\n"
            f"  (streameval_snapshot_age_seconds > bool {objective.limit:g})\n"
            f"    or on (job, instance) (1 - up{{{jobs}}})\n{stored if has_reader else ''})"
        )
    return (
        "sum by (job) (max by (job, topic, partition) (streameval_kafka_consumer_lag))\n"
        f"  > bool {objective.limit:g} * "
        "sum by (job) (rate(streameval_events_consumed_total[5m]))"
    )


def _ratio(objective: Objective, window: str) -> str:
    if objective.limit is not None:
        return f'avg_over_time(job:streameval_wrong:bool{{objective="{objective.name}"}}[{window}])'
    return (
        f"sum by (job) (rate(streameval_events_invalid_total[{window}]))\n"
        f"  / (sum by (job) (rate(streameval_events_consumed_total[{window}])) > 0)"
    )


def objective_alerts(objective: Objective) -> Iterator[Alert]:
    """The alerts of an objective; none for a rate that no share of errors can reach."""
    what = f'{{objective="{objective.name}"}}'
    for burn in BURNS:
        threshold = burn.factor * objective.budget
        if threshold >= 1:
            continue
        parts = [
            f"job:streameval_wrong:ratio{window}{what} > {threshold:.6g}"
            for window in (burn.long, burn.short)
        ]
        if objective.limit is None:
            # A few records say little.
            read = f"sum by (job) (increase(streameval_events_consumed_total[{burn.long}]))"
            parts.append(f"on (job) {read} >= {_LEAST_RECORDS}")
        yield Alert(
            name=BURNING,
            expression="\n  and ".join(parts),
            severity=burn.severity,
            labels={"objective": objective.name, "window": burn.long},
            summary=f"The error budget of {objective.name!r} is spent too fast.",
            description=(
                f"{{{{ $value | humanizePercentage }}}} of {_subject(objective)} in the last "
                f"{burn.long} ({{{{ $labels.job }}}}), {burn.factor:g} times the "
                f"{100 * objective.budget:.6g} % of the objective or more: at this rate the budget "
                f"of {_DAYS} days is spent in {_spent(burn)}."
            ),
        )


def _subject(objective: Objective) -> str:
    if objective.name == "valid":
        return "the records were invalid"
    if objective.name == "lag":
        return f"the time more than {objective.limit:g} s of traffic waited in Kafka"
    return f"the time values were more than {objective.limit:g} s old or could not be scraped"


def _spent(burn: Burn) -> str:
    days = _DAYS / burn.factor
    return f"{days:.3g} days" if days >= 3 else f"{24 * days:.3g} hours"


def check_once(objectives: Sequence[Objective]) -> None:
    """Refuse two objectives of one name, whose recorded series would collide.

    Raises:
        UsageError: one is given twice.
    """
    names = [objective.name for objective in objectives]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"--objective: {name!r} is given twice; give it once.")
