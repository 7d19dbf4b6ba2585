"""Texts round-trip, cut-offs stay within the depth, and documentation is complete."""

from __future__ import annotations

import re

import pytest
from msgspec.structs import replace

from streameval import Accumulator
from streameval.catalogue import catalogue, parse
from streameval.catalogue.conventions import CONVENTIONS
from streameval.errors import MetricParameterError, NotKeptError
from streameval.testing import traffic
from tests.contract import laws
from tests.contract.metric_cases import CASES, NAMES
from tests.effort import every_case
from tests.strategies import takes_k, texts_of

RANKED = tuple(
    name for name in NAMES if catalogue()[name].reads in ("hits", "lists") and takes_k(name)
)
PLAIN = traffic(60, plain=True)
EXPOSED = tuple(name for name in NAMES if catalogue()[name].reads == "exposures")
UNDER_A_CONVENTION = [
    f"{convention}:{name}{cut}"
    for convention, known in CONVENTIONS.items()
    for name in (*known.metrics, *known.spellings)
    for cut in ("", "@7")
    if not cut or takes_k(known.spellings.get(name, name))
]


def test_the_text_of_every_metric_round_trips() -> None:
    own = [text for name, k in CASES for text in texts_of(name, k)]
    for text in (*own, *UNDER_A_CONVENTION):
        metric = parse(text)
        again = parse(metric.text)
        assert (again, hash(again), again.text) == (metric, hash(metric), metric.text)
        assert (again.k, again.values) == (metric.k, metric.values)


@every_case("name", RANKED)
def test_default_values_are_omitted_from_the_text(name: str) -> None:
    assert parse(f" {name}( repeats = first,min_gain=0.0 )@5 ").text == f"{name}@5"
    assert (
        parse(f"{name}( repeats=every , min_gain=1)@5").text
        == parse(f"{name}(min_gain=1.0,repeats=every)@5").text
    )


@every_case("name", RANKED)
def test_a_cutoff_beyond_the_depth_is_refused(name: str) -> None:
    laws.beyond_the_depth_is_refused(name)


@every_case("name", RANKED)
def test_any_cutoff_up_to_the_depth_can_be_read(name: str) -> None:
    if catalogue()[name].reads == "lists":
        with pytest.raises(NotKeptError, match="list by list"):
            laws.counted([f"{name}@10"], PLAIN).read(f"{name}@7")
        return
    events = [replace(event, interactions=list(event.interactions)) for event in PLAIN]
    accumulator = laws.counted([f"{name}@10"], events)
    asked = accumulator.read(f"{name}@7")
    named = laws.counted([f"{name}@7"], events).read(f"{name}@7")
    assert asked == named


@every_case("name", EXPOSED)
def test_items_shown_can_only_be_read_at_counted_cutoffs(name: str) -> None:
    accumulator = laws.counted([f"{name}@10"], PLAIN)
    with pytest.raises(NotKeptError, match=f"{name}@7"):
        accumulator.read(f"{name}@7")


@every_case("name", NAMES)
def test_documentation_has_formula_example_source_and_the_undefined_case(name: str) -> None:
    definition = catalogue()[name]
    text = definition.documentation
    cut = "@k" if takes_k(name) else ""
    assert re.search(rf"^    {name}{cut} = \S", text, re.MULTILINE)
    assert f'Accumulator("{name}' in text
    assert ">>> " in text
    assert re.search(r"Undefined\swithout\s[^.]+\.", text)
    assert definition.summary.endswith(".")
    assert len(definition.source) > 10


@every_case("name", NAMES)
def test_bounds_and_direction_are_declared(name: str) -> None:
    definition = catalogue()[name]
    low, high = definition.bounds
    assert low < high
    assert definition.additive == (definition.per != "slice" and not definition.finish)


def test_a_repeated_metric_is_read_once() -> None:
    accumulator = Accumulator("hit_rate@3", "hit_rate(empty=zero)@3", " hit_rate@3")
    assert [metric.text for metric in accumulator.metrics] == ["hit_rate@3"]


_WITHOUT_INTERACTIONS = {
    *("average_popularity", "distinct_items", "gini", "item_coverage", "list_diversity"),
    *("novelty", "personalization", "shannon_entropy", "tail_percentage", "unexpectedness"),
    *("user_novelty", "users_covered"),
}


@every_case("name", sorted(catalogue()))
def test_every_metric_that_reads_interactions_takes_a_type(name: str) -> None:
    text = f"{name}(type=click)"
    if name in _WITHOUT_INTERACTIONS:
        with pytest.raises(MetricParameterError, match="type"):
            parse(text)
    else:
        assert parse(text).text == text
