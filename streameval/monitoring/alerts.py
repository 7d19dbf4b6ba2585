"""The alerts of a configuration: about the pipeline, about estimates, and of its analyses."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from importlib.resources import files
from typing import Final

import msgspec

from streameval.engine.analysis import configured
from streameval.engine.monitoring import Alert
from streameval.monitoring.exported_names import WEIGHT, Names

JOB: Final = "streameval"
"""The scrape job, unless another one is named."""
_READERS: Final = "(-serve)?"
"""The end of a pattern that matches the job of a reader, too."""


def alerts_of(names: Names, job: str | None) -> list[Alert]:
    """The alerts whose families exist in this configuration.

    `job`: the scrape job; None: JOB.
    """
    has = _has(names)
    alerts = [alert for alert in _read_alerts() if all(has[need] for need in alert.needs)]
    # In one pass: the name of a job may itself have these letters.
    jobs = {"JOB": job or JOB, "JOBS": _pattern(job)}
    alerts = [
        msgspec.structs.replace(
            alert,
            expression=re.sub("JOBS?", lambda match: jobs[match[0]], alert.expression),
        )
        for alert in alerts
    ]
    for analysis, settings in configured(names.config):
        alerts += analysis.monitoring(settings).alerts
    return alerts


def jobs_matcher(job: str | None) -> str:
    """The matcher of the processes that count, and of their reader."""
    return f'job=~"{_pattern(job)}"'


def _pattern(job: str | None) -> str:
    return (job or JOB).replace(".", "[.]") + _READERS


def _read_alerts() -> list[Alert]:
    text = files("streameval.monitoring").joinpath("alerts.toml").read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(text)["alert"], list[Alert])


def _has(names: Names) -> Mapping[str, bool]:
    """The needs of alerts -> whether the configuration has each."""
    config = names.config
    state = config.state
    weights = names.windows and config.intervals is not None
    return {
        "kafka": config.source.has_topics,
        "time": config.event.time is not None,
        "joined": config.attribution is not None,
        "unjoined": config.attribution is None,
        "letters": config.dead_letter_options is not None,
        "state": state is not None,
        "skip": state is not None and state.on_retention == "skip",
        "registry": config.registry is not None,
        "labels": bool(config.dimensions()),
        "compared": bool(config.segments)
        or any([*analysis.expects(settings)] for analysis, settings in configured(config)),
        "web": config.web.config_file is not None,
        "coverage": names.has_coverage_windows,
        "weights": bool(weights) and any(m.definition.name == WEIGHT for m in names.means),
        "overlap": bool(names.windows) and f"{WEIGHT}_effective_share" in names.gauges,
    }
