"""The public laws of metrics: each of them detects a violation."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from streameval import Event, metric, metric_at
from streameval.events.errors import MetricError, MetricLawError, StreamevalError
from streameval.testing import LAWS, check_metric, traffic
from tests.house.checkout import ROOT
from tests.testing import declared

BROKEN = [
    (declared.never_undefined, "undefined without evidence", "it must be NaN over 0"),
    (declared.divides, "takes any event", "it raises ZeroDivisionError"),
    (declared.writes_to_hits, "undefined without evidence", "read-only"),
    (declared.writes_to_lists, "takes any event", "read-only"),
    (declared.spoils_events, "changes no event", "it changes its event, to Event"),
    # Their values are right.
    (declared.sorts, "changes no event", "it changes its event, to Event"),
    (declared.replaces_items, "changes no event", "it changes its event, to Event"),
    (declared.never_a_value, "has a value", "neither a single event nor 40 events"),
    (
        declared.too_large,
        "within its bounds",
        r"its value is 1\.0, outside of its bounds 0 to 0\.5",
    ),
    (declared.infinite, "within its bounds", "its value is inf, outside of its bounds 0 to 1"),
    (declared.changes_what_it_reads, "reading changes nothing", "reading it changed the counts"),
    (declared.remembers, "any order", "in another order the value is"),
    (declared.shares_a_batch, "any split and merge", "counted in parts and merged, the value is"),
    (declared.copies_lists, "any form", "it raises AttributeError"),
    (declared.indexes, "any form", "it raises TypeError"),
    (declared.mixes_slices, "many slices", "beside other slices the value is"),
    (declared.knows_one_slice, "many slices", r"a sum over all lists, by rows\.total"),
]
"""Metrics, the law that each breaks first, and what is said of it."""


def by_hand(events: Sequence[Event], k: int, power: float) -> float:
    values = []
    for event in events:
        gains = event.interactions
        interactions = (
            set(gains) if not isinstance(gains, dict) else {i for i in gains if gains[i] > 0}
        )
        ranks = event.positions or range(1, len(event.recommendations) + 1)
        placed = sorted(
            zip(ranks, event.recommendations, strict=True), key=lambda placed_item: placed_item[0]
        )
        first: dict[object, int] = {}
        for rank, item in placed:
            first.setdefault(item, rank)
        values.append(sum(r**-power for i, r in first.items() if i in interactions and r <= k))
    return sum(values) / len(values) if values else math.nan


def test_a_user_defined_metric_satisfies_every_law_and_equals_its_twin() -> None:
    text = "tests.testing.declared:dcg2(power=1.5)@3"
    check_metric(text, twin=lambda events: by_hand(events, 3, 1.5), seeds=2)
    metric_here = metric_at(declared.dcg2, k=3)
    check_metric(metric_here, twin=lambda events: by_hand(events, 3, 0.5), seeds=1)
    check_metric(declared.length, seeds=1)


@pytest.mark.parametrize(("broken", "law", "said"), BROKEN)
def test_a_broken_law_is_named(broken: Callable[..., Any], law: str, said: str) -> None:
    with pytest.raises(MetricLawError, match=said) as raised:
        check_metric(broken)
    assert raised.value.law == law
    assert f"'tests.testing.declared:{broken.__name__}' breaks" in str(raised.value)
    assert isinstance(raised.value, (AssertionError, StreamevalError))


def test_every_law_has_a_metric_here_that_breaks_it() -> None:
    assert LAWS["the state returns"](metric_at(declared.remembers), traffic(20))
    assert {law for _, law, _ in BROKEN} | {"name goes round", "the state returns"} == set(LAWS)


def test_a_metric_without_a_valid_text_is_reported() -> None:
    @metric(bounds=(0, 1), source="our own rule")
    def local(event: Event) -> float:
        return float(bool(event.recommendations))

    with pytest.raises(MetricLawError, match=r"unknown metric 'tests\.testing.*:local'") as raised:
        check_metric(local)
    assert raised.value.law == "name goes round"


@pytest.mark.parametrize(
    ("broken", "smallest"),
    [(declared.divides, Event(recommendations=[], interactions=[])), (declared.too_large, 6)],
)
def test_the_events_shown_are_the_smallest(broken: Callable[..., Any], smallest: object) -> None:
    with pytest.raises(MetricLawError) as raised:
        check_metric(broken)
    (event,) = raised.value.events
    assert isinstance(event, Event)
    recommended = len(event.recommendations) if isinstance(smallest, int) else event
    assert recommended == smallest
    assert not any((event.interactions, event.scores, event.baseline, event.typed))


def test_a_twin_that_differs_is_shown_with_both_values() -> None:
    with pytest.raises(MetricLawError, match="by its twin") as raised:
        check_metric(
            "hit_rate@2", twin=lambda events: 0.5 if len(events) > 3 else math.nan, seeds=1
        )
    assert raised.value.law == "equals its twin"
    assert "Event(recommendations=" in str(raised.value)


@pytest.mark.parametrize(
    ("twin", "said"),
    [(lambda events: 1 / len(events), "ZeroDivisionError"), (lambda _: None, "TypeError: float")],
)
def test_a_twin_that_raises_is_not_taken_for_the_metric(twin: Any, said: str) -> None:
    with pytest.raises(MetricLawError, match=f"its twin raises {said}") as raised:
        check_metric("hit_rate@2", twin=twin, seeds=1)
    assert raised.value.law == "equals its twin"


@pytest.mark.parametrize("few", [{"events": 0}, {"seeds": 0}, {"seeds": -1}])
def test_no_events_prove_nothing(few: Any) -> None:
    with pytest.raises(MetricError, match="give at least 1 of each"):
        check_metric("ndcg@3", **few)


def test_the_laws_import_only_what_the_core_imports() -> None:
    used = "import sys, streameval.testing; print(sorted({n.split('.')[0] for n in sys.modules}))"
    bare = subprocess.run([sys.executable, "-c", used], capture_output=True, text=True, check=True)
    assert not {"hypothesis", "pytest", "kafka", "typer", "rich"}.intersection(eval(bare.stdout))


def test_the_documents_name_every_law() -> None:
    page = (ROOT / "docs" / "how-to" / "your-own-metric.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `([a-z ]+ [a-z ]+)` \|", page, re.MULTILINE) == [
        *LAWS,
        "equals its twin",
    ]
