"""Generated lists inside pages: families in /metrics, reasons, names of other systems."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from streameval.analyses.changes.analysis import CHANGES
from streameval.analyses.gaps.analysis import GAPS
from streameval.catalogue import catalogue, parameters, parse
from streameval.catalogue.conventions import CONVENTIONS, RULES, Convention
from streameval.catalogue.grammar import format_value
from streameval.catalogue.systems import step_of
from streameval.decoding.invalid import REASONS
from streameval.engine.analysis import Finding
from streameval.engine.snapshot import JoinHealth, JoinWait, LogClock, StoredPartition, StreamHealth
from streameval.exporters.families import PrometheusFamily
from streameval.exporters.operations import (
    analysis_families,
    family,
    memory_limit,
    operations,
    scalar_family,
)
from tests.exporters.changing import changes_report
from tests.exporters.experiments import adjusted_report, findings, gap_series
from tests.exporters.pictures import busy_health, picture, refused_value

_JOIN = JoinHealth(
    streams=tuple(
        StreamHealth(name=name, outcomes={"counted": 1}, open=1, outside=0)
        for name in ("impressions", "clicks")
    ),
    bytes=1,
    clocks=[LogClock(topic="impressions", partition=0, event_time=1.0)],
    idle_timeouts=0,
    by_request=True,
    waits=[JoinWait(topic="clicks", partition=0, since=1.0, records=1)],
)


_STORED = (StoredPartition(topic="events", partition=0, offset=1, written_at=1.0, lag=0),)


def with_families(page: str) -> str:
    """The page of Prometheus with the families of the pipeline and of an experiment."""
    page = _with_list(page, "## The pipeline", map(_family, _families()))
    result = (
        *findings(adjusted_report()),
        Finding(CHANGES, changes_report()),
        Finding(GAPS, (gap_series(),)),
    )
    for finding in result:
        families = map(_family, analysis_families([finding]))
        page = _with_list(page, f"## {finding.analysis.title}", families)
    return page


def with_reasons(page: str) -> str:
    """The page of dead letters with the reasons of invalid records."""
    return _with_list(page, "## Reasons", (f"- `{name}`: {text}" for name, text in REASONS.items()))


def _with_list(page: str, heading: str, items: Iterator[str]) -> str:
    """The page with a new first list below a heading."""
    before, heading_line, after = page.partition(f"{heading}\n")
    text = "\n".join(items) + "\n"
    return (
        before
        + heading_line
        + re.sub(r"^- (?:.+\n)+", lambda _: text, after, count=1, flags=re.MULTILINE)
    )


def _families() -> Iterator[PrometheusFamily]:
    yield family("build_info", [({"version": "1"}, 1.0)])
    state = msgspec.structs.replace(busy_health(), join=_JOIN)
    seen = picture(refused_value("capri:recall@5", ("a",)), state=state)
    yield from operations(msgspec.structs.replace(seen, stored=_STORED), lag=True)
    yield scalar_family("snapshot_age_seconds", 1.0)
    yield memory_limit()
    yield scalar_family("otlp_failures_total", 0)


def _family(family: PrometheusFamily) -> str:
    labels = ", ".join(f"`{name}`" for name in family.samples[0].labels)
    by = f" by {labels}" if labels else ""
    meaning = family.documentation.partition(". ")[0].removesuffix(".")
    return f"- `{family.samples[0].name}` ({family.type}{by}): {meaning}"


_OF_SUMMARIES = {"deviation", "method"}
"""Rules that affect only medians and standard errors; the index explains them once."""

_TABLE = re.compile(r"(?<=<!-- names of )(?P<name>\w+) -->\n.*?(?=<!-- end -->)", re.DOTALL)


def with_names(page: str) -> str:
    """The page with current lists of each system's names."""
    return _TABLE.sub(lambda match: f"{match['name']} -->\n{_table(match['name'])}\n", page)


def _table(name: str) -> str:
    convention = CONVENTIONS[name]
    names = sorted(_names(name, convention), key=str.lower)
    return f"\n{convention.system}, behind `{name}:`: {', '.join(names)}.\n"


def _names(name: str, convention: Convention) -> Iterator[str]:
    """The names of the system, each with a cut-off and a link to the metric."""
    spellings = convention.spellings
    others = {metric: metric for metric in convention.metrics if metric not in spellings.values()}
    for theirs, ours in {**spellings, **others}.items():
        cut = "@10" if catalogue()[ours].takes_k else ""
        assert parse(f"{name}:{theirs}{cut}") == parse(f"{name}:{ours}{cut}")
        yield f"[`{theirs}{cut}`](../reference/metrics/{ours}.md#values)"


def chosen(convention: str, metric: str) -> list[str]:
    """What a convention sets for a metric to other values than the usual, and its own step."""
    declared = parameters(parse(f"{convention}:{metric}").definition, convention)
    usual = {name: parameter.default for name, parameter in declared.items()}
    usual |= RULES
    step = step_of(convention, metric)
    return [
        *(
            f"`{name}={format_value(value)}`"
            for name, value in sorted(CONVENTIONS[convention].metrics[metric].items())
            if value != usual[name] and name not in _OF_SUMMARIES
        ),
        *([step] if step else []),
    ]
