"""`streameval rules`: writes the rules and alerts of a configuration for Prometheus."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from streameval.config import load
from streameval.evaluation.shell.flags import OutputFile
from streameval.evaluation.shell.terminal import Forms
from streameval.events.errors import UsageError
from streameval.monitoring.objectives import check_once, objective_of
from streameval.monitoring.rules import RuleOptions, rules_of, threshold_of


def rules(
    config: Annotated[Path, Argument(metavar="CONFIG", help="A TOML file.")],
    *,
    below: Annotated[
        list[str] | None,
        Option(
            metavar="METRIC=VALUE",
            help="Alert while a mean is below a value, for each label; may be repeated.",
        ),
    ] = None,
    above: Annotated[
        list[str] | None, Option(metavar="METRIC=VALUE", help="Alert while a mean is above it.")
    ] = None,
    over: Annotated[
        str | None,
        Option(
            "--for",
            metavar="LENGTH",
            help="Span of the means of --below and --above; 15m by default.",
        ),
    ] = None,
    support: Annotated[
        int | None,
        Option(
            min=1, help="Least number of lists (or items shown) behind such a mean; 200 by default."
        ),
    ] = None,
    objective: Annotated[
        list[str] | None,
        Option(
            metavar="NAME=SHARE",
            help="Alert if the error budget of 30 days burns too fast: valid=99.5% (records), "
            "fresh:60s=99.9% (time with values at most so old), lag:5m=99% (time with at most so "
            "much traffic waiting in Kafka).",
        ),
    ] = None,
    job: Annotated[
        str | None,
        Option(
            metavar="NAME",
            help="Scrape job that the rules are about, with that of its reader, NAME-serve; "
            "otherwise they are about every job, and 'streameval' must be there.",
        ),
    ] = None,
    runbook: Annotated[
        str | None,
        Option(metavar="URL", help="Address of your copy of the runbook, for links in alerts."),
    ] = None,
    output: OutputFile = None,
) -> None:
    """Write rules and alerts for Prometheus, with the names of a configuration.

    ```
    streameval rules streameval.toml -o rules.yml
    streameval rules streameval.toml --below ctr=0.02 --for 15m --support 200
    streameval rules streameval.toml --objective valid=99.5% --objective lag:10m=99%
    ```
    """
    settings = load(config)
    for option, value in (("--for", over), ("--support", support)):
        if value is not None and not (below or above):
            raise UsageError(f"{option}: no effect without --below or --above; give one of them.")
    thresholds = [
        threshold_of(option, text, settings, over or "15m", support or 200)
        for option, texts in (("--below", below), ("--above", above))
        for text in texts or ()
    ]
    objectives = [
        objective_of(text, reads_kafka=settings.source.has_topics) for text in objective or ()
    ]
    check_once(objectives)
    if job is not None and not re.fullmatch(r"[\w:/.-]+", job):
        raise UsageError(f"--job: found {job!r}; give a job_name of letters, digits and -_.:/")
    text = rules_of(settings, RuleOptions(thresholds, objectives, job, runbook))
    Forms(tuple, tuple, others={"yaml": lambda: text}).write("yaml", output)
