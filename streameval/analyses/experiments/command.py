"""`streameval compare`: counts variants in files or saved states, and compares them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
from typer import Option

from streameval.analyses.experiments.files import (
    CompareResult,
    ExperimentOptions,
    compare_variants,
    page_of_report,
)
from streameval.analyses.experiments.outcomes import Decision, GuardrailVerdict, Verdict
from streameval.analyses.experiments.settings import (
    SINCE,
    DatedShares,
    Experiment,
    Shares,
    deciding_metrics,
    metric_name,
)
from streameval.analyses.experiments.verdicts import Compared
from streameval.analyses.experiments.words import (
    closing,
    comparison_table,
    decision_lines,
    opening,
    summary_lines,
)
from streameval.evaluation.arguments import as_usage_error
from streameval.evaluation.evaluation import title_of
from streameval.evaluation.files import finite_or_none, is_table
from streameval.evaluation.setup import Request, explicit_options
from streameval.evaluation.shell.exits import report
from streameval.evaluation.shell.flags import (
    IntervalOptions,
    MethodOption,
    PairOptions,
    ReadOptions,
    ReportFormat,
    day_option,
    events_of_command,
    files_of_command,
    share_or_none,
    with_struct_options,
)
from streameval.evaluation.shell.terminal import SURROUNDINGS, Forms, command_text
from streameval.events.errors import InvalidEventError, SourceError, UsageError
from streameval.inference.text_table import TextTable


class FailureCondition(StrEnum):
    """A verdict on which a comparison may exit with status 1."""

    WORSE = "worse"
    GUARDRAIL = "guardrail"
    UNTRUSTED = "untrusted"
    WAIT = "wait"


def _name_gaps(field: str | None) -> None:
    """Say what became of an option of 0.2."""
    if field is not None:
        raise UsageError(f"--gap is a separate command: streameval gaps --by {field}.")


class CompareOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of `compare` alone."""

    label: Annotated[
        str | None,
        Option(help="Field whose values are the variants.", show_default="variant"),
    ] = None
    by: Annotated[
        str | None,
        Option(help="Also compare within each value of this field, like country."),
    ] = None
    within: Annotated[
        str | None,
        Option(
            help="Compare within the values of this field, if users are assigned by it. It must "
            "be a field that variants do not change."
        ),
    ] = None
    control: Annotated[
        str | None,
        Option(help="Variant that the others are compared with.", show_default="control"),
    ] = None
    against: Annotated[
        str | None,
        Option(
            metavar="METRIC",
            help="Compare the metrics of -m with this metric on the same lists, instead of "
            "variants: two policies judged by one log.",
        ),
    ] = None
    primary: Annotated[
        list[str],
        Option(
            metavar="METRIC",
            help="Metric that decides; needs no -m. Several share the error. May be repeated.",
        ),
    ] = []
    guardrail: Annotated[
        list[str],
        Option(
            metavar="METRIC=LIFT",
            help="Largest accepted loss of a metric, like ctr=-0.01 (log_loss=0.01 if lower is "
            "better); needs no -m. May be repeated.",
        ),
    ] = []
    shares: Annotated[
        list[str],
        Option(
            metavar="[DATE:]VARIANT=SHARE,...",
            help="Planned split of users, like control=9,treatment=1. On a ramp, repeat it for "
            "each change with its day: 2026-03-01:control=99,treatment=1.",
            show_default="evenly",
        ),
    ] = []
    same_users: Annotated[
        bool, Option("--same-users", help="Users see several variants by design.")
    ] = False
    recommendations: Annotated[
        list[str],
        Option(
            metavar="[NAME=]PATH",
            help="(user, item, score) rows of one model: a file, folder or pattern; needs --truth. "
            "Repeat it for each model, the control first. The variant is NAME, else the file name.",
        ),
    ] = []
    looks: Annotated[
        int,
        Option(min=1, help="How often you look at this experiment, for example each day of 14."),
    ] = 1
    look: Annotated[
        int | None,
        Option(
            metavar="NUMBER",
            help="Number of this look, if all --looks are planned at equal distances. Bounds are "
            "then hardly wider than those of a single look.",
        ),
    ] = None
    since: Annotated[
        str | None,
        Option(
            metavar="DATE",
            help="First day to compare and to check users, like 2026-03-01.",
        ),
    ] = None
    until: Annotated[
        str | None,
        Option(metavar="DATE", help="Last day to compare, like 2026-03-14."),
    ] = None
    pre_period: Annotated[
        int | None,
        Option(
            metavar="DAYS",
            help="Days before --since whose clicks and lists adjust the values (CUPED); 0 for no "
            "adjustment.",
            show_default="28",
        ),
    ] = None
    untreated_before: Annotated[
        bool,
        Option(
            "--untreated-before",
            help="No user was treated before --since, although some had a treatment's label: they "
            "were assigned in advance.",
        ),
    ] = False
    gap: Annotated[str | None, Option(hidden=True, callback=_name_gaps)] = None
    fail_on: Annotated[
        list[FailureCondition],
        Option(
            metavar="VERDICT",
            help="Exit with status 1 on this verdict: worse (any metric), guardrail (any is "
            "broken), untrusted (a check failed) or wait (any variant does not ship). May be "
            "repeated.",
        ),
    ] = []

    def experiment(self) -> dict[str, Any]:
        """The fields of Experiment that were given."""
        return explicit_options(
            control=self.control,
            primary=list(map(metric_name, self.primary)),
            same_users=self.same_users,
            within=self.within,
            since=None if self.since is None else day_option("--since", self.since),
            until=None if self.until is None else day_option("--until", self.until),
            pre_period=self.pre_period,
            untreated_before=self.untreated_before,
            guardrails={
                metric_name(name): limit
                for name, limit in number_options("--guardrail", self.guardrail).items()
            },
            shares=shares_option(self.shares),
        )


@with_struct_options
def compare(
    *,
    read: ReadOptions,
    arms: CompareOptions,
    pair: PairOptions,
    intervals: IntervalOptions,
    method: MethodOption = None,
    format: ReportFormat = "table",  # noqa: A002  the option is called --format
) -> None:
    """Compare variants: is treatment better than control, and is it real?

    ```
    streameval compare events.ndjson.gz -m ndcg@10 -m ctr --label variant --by country
    streameval compare week.parquet -m ndcg@10 --primary ndcg@10 --guardrail ctr=-0.01
    streameval compare events.ndjson -m ctr --time ts --time-unit s --shares control=9,new=1
    streameval compare events.ndjson -m ctr --method anytime --format json --fail-on worse
    streameval compare log.csv --config c.toml -m "snips(target=b)" --against value_per_list
    streameval compare state    # what a daemon has saved, all partitions together
    streameval compare --recommendations old.csv --recommendations new.csv --truth t.csv -m map@10
    ```

    Events must name their users (`user`, or --column user=FIELD): lists of one user are
    correlated, so users are compared, in 256 buckets.

    - `fixed`: for one planned look; the default for files
    - `anytime`: valid at every look, 1.6 times as wide; the default for states
    - `--looks 5 --look 2`: the second of five planned looks

    Files of recommendations are joined with the truth as in `evaluate`, and each user is compared
    with themselves.

    Metrics that are not means over lists or items are left out, with a message.
    """
    how = read.options(by=[arms.label] if arms.label else [], **pair.reading())
    experiment = arms.experiment()
    with as_usage_error(SourceError, InvalidEventError):
        models = {
            name: files_of_command(read.paths, path, pair.truth, pair.exclude, how)
            for name, path in named_paths(arms.recommendations).items()
        }
        source = next(iter(models.values()), None) or events_of_command(
            read.paths, how, truth=pair.truth, exclude=pair.exclude
        )
        request = Request(source, how, deciding_metrics(Experiment(**experiment)))
        options = ExperimentOptions(
            *(experiment, intervals.explicit, method, arms.looks),
            *(arms.look, arms.by, models, arms.against),
        )
        result = compare_variants(request, options, SURROUNDINGS)
    compared_rows, segments = result.report.rows, result.report.segments
    checks, levels, look = result.report.checks, result.report.intervals, result.report.look
    forms = Forms(
        lambda: _parts(result),
        lambda: {
            "experiment": msgspec.to_builtins(result.experiment),
            "method": result.method,
            "confidence": levels.confidence,
            "precision": levels.precision,
            "looks": None if look is None else look.looks,
            "look": None if look is None else look.look,
            "summaries": msgspec.to_builtins(result.report.summaries),
            "decisions": msgspec.to_builtins(result.report.decisions),
            "caps": msgspec.to_builtins(result.caps),
            "checks": msgspec.to_builtins(checks),
            "comparisons": list(map(_record, compared_rows)),
            "segments": list(map(_record, segments)),
        },
        lambda: _records(result),
        {"html": lambda: page_of_report(title_of(request.files), result, command_text())},
    )
    decisions = result.report.decisions
    if FailureCondition.WAIT in arms.fail_on and not decisions:
        raise UsageError("--fail-on wait: only primary metrics decide; give one with --primary.")
    failures = {
        FailureCondition.WAIT: any(decision.decision != Decision.SHIP for decision in decisions),
        FailureCondition.UNTRUSTED: bool(checks.trouble),
        FailureCondition.WORSE: any(row.verdict == Verdict.WORSE for row in compared_rows),
        FailureCondition.GUARDRAIL: any(
            row.guardrail_verdict == GuardrailVerdict.BROKEN for row in compared_rows
        ),
    }
    fails = any(failures[condition] for condition in arms.fail_on)
    read.write(forms, format, is_doubtful=result.is_doubtful, fails=fails)


def named_paths(texts: Sequence[str]) -> dict[str, str]:
    """Variant -> file of each --recommendations: NAME=PATH, or a path whose file has the name.

    Raises:
        UsageError: two have one name, or there is one alone.

    Example:
        >>> named_paths(["new=runs/1.parquet", "runs/old.csv.gz"])
        {'new': 'runs/1.parquet', 'old': 'runs/old.csv.gz'}
    """
    models: dict[str, str] = {}
    for text in texts:
        name, is_named, path = text.partition("=")
        # A folder of a data lake is called like day=2026-03-01.
        if not is_named or "/" in name or Path(text).exists():
            file = Path(text).name.removesuffix(".gz").removesuffix(".zst")
            name, path = Path(file).stem if is_table(text) else file, text
        elif not name or not path:
            raise UsageError(f"--recommendations: found {text!r}; give NAME=PATH or a path.")
        if name in models:
            raise UsageError(
                f"--recommendations: {models[name]} and {path} are both {name!r}; name one, like "
                f"--recommendations other={path}."
            )
        models[name] = path
    if len(models) == 1:
        raise UsageError(
            f"--recommendations: only {texts[0]!r}; give a file for each model to compare, the "
            "control first."
        )
    return models


_DATED: Final = re.compile(r"[\d./-]+:")
"""The beginning of shares that hold from a day on."""


def number_options(option: str, texts: Sequence[str]) -> dict[str, float]:
    """The values of an option NAME=NUMBER."""
    numbers: dict[str, float] = {}
    for text in filter(None, texts):
        # Parameters of a metric contain equal signs, too, so the last one separates.
        name, _, number = text.rpartition("=")
        is_lift = option == "--guardrail"
        value = share_or_none(number) if is_lift else finite_or_none(number)
        if not name.strip() or value is None:
            example = "ctr=-1%" if is_lift else "control=9,treatment=1"
            raise UsageError(f"{option}: found {text!r}; give NAME=NUMBER, like {example}.")
        if name.strip() in numbers:
            raise UsageError(f"{option}: {name.strip()!r} is given twice; give it once.")
        numbers[name.strip()] = value
    return numbers


def shares_option(texts: Sequence[str]) -> Shares | DatedShares:
    """The shares of --shares, which may be given once without a day, or once for each change."""
    pairs = [text.split(":", 1) if _DATED.match(text) else ["", text] for text in texts]
    shares = [number_options("--shares", numbers.split(",")) for _, numbers in pairs]
    days = [day_option("--shares", day) if day else None for day, _ in pairs]
    if days in ([], [None]):
        return shares[0] if shares else {}
    if None in days:
        raise UsageError(
            "--shares: given several times, each needs its first day, like "
            "2026-03-01:control=99,treatment=1."
        )
    return [
        {SINCE: day, **share} for day, share in zip(days, shares, strict=True) if day is not None
    ]


def _record(row: Compared) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(row)
    return {name: fields[name] for name in ("metric", "variant", "control", "treatment")} | fields


def _records(result: CompareResult) -> Iterator[dict[str, Any]]:
    """Records, one for each comparison; failed checks go to standard error."""
    for reason in result.report.checks.trouble:
        report(f"do not trust this: {reason}.")
    yield from map(_record, (*result.report.rows, *result.report.segments))


def _parts(result: CompareResult) -> Iterator[str | TextTable[Compared]]:
    """Lifts with their intervals, the checks, and the reason for each verdict."""
    rows, segments = result.report.rows, result.report.segments
    yield from summary_lines(result.report)
    yield from decision_lines(result.report)
    yield from opening(result.report)
    if result.against is not None:
        yield f"Control is {result.against} of the same lists."
    if any(row.primary for row in rows):
        yield "* primary metric: it decides."
    yield from (comparison_table(of) for of in (rows, segments) if of)
    yield from closing(result.report, result.experiment)
