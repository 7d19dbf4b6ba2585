"""Generated lists inside pages: families in /metrics, reasons of invalid records."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from streameval.decoding.invalid import REASONS
from streameval.engine.snapshot import JoinHealth, StreamHealth
from streameval.events.records import Partition
from streameval.exporters.families import Family
from streameval.exporters.operations import (
    build_information,
    comparison_families,
    memory_limit,
    operations,
)
from tests.exporters.experiments import report
from tests.exporters.pictures import busy_health, picture, refused

_JOIN = JoinHealth(
    streams=tuple(
        StreamHealth(name=name, outcomes={"counted": 1}, open=1, outside=0)
        for name in ("impressions", "clicks")
    ),
    bytes=1,
    clocks={Partition("impressions", 0): 1},
    idle_timeouts=0,
    by_request=True,
)


def with_families(page: str) -> str:
    """The page of Prometheus with the families of the pipeline and of an experiment."""
    page = _with_list(page, "## The pipeline", map(_family, _families()))
    return _with_list(page, "## The experiment", map(_family, comparison_families(report())))


def with_reasons(page: str) -> str:
    """The page of dead letters with the reasons of invalid records."""
    return _with_list(page, "## Reasons", (f"- `{name}`: {text}" for name, text in REASONS.items()))


def _with_list(page: str, heading: str, items: Iterator[str]) -> str:
    """The page with a new first list below a heading."""
    before, found, after = page.partition(f"{heading}\n")
    text = "\n".join(items) + "\n"
    return (
        before + found + re.sub(r"^- (?:.+\n)+", lambda _: text, after, count=1, flags=re.MULTILINE)
    )


def _families() -> Iterator[Family]:
    yield build_information("1")
    state = msgspec.structs.replace(busy_health(), join=_JOIN)
    yield from operations(picture(refused("capri:recall@5", ("a",)), state=state), lag=True)
    yield memory_limit()


def _family(family: Family) -> str:
    labels = ", ".join(f"`{name}`" for name in family.samples[0].labels)
    by = f" by {labels}" if labels else ""
    meaning = family.help.partition(". ")[0].removesuffix(".")
    return f"- `{family.samples[0].name}` ({family.kind}{by}): {meaning}"
