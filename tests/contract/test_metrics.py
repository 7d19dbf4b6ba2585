"""Every metric satisfies every law for every choice of its parameters, and is documented."""

from __future__ import annotations

import ast
import math
import re
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from msgspec.structs import replace

from streameval import Accumulator
from streameval.catalogue import catalogue, parameters, parse
from streameval.catalogue.conventions import CONVENTIONS
from streameval.catalogue.cumulative_gain import discount, ideal
from streameval.events import Event
from streameval.events.errors import MetricLawError, NotKeptError
from streameval.testing import check_metric, traffic
from tests.contract import laws
from tests.contract.metric_cases import CASES, DUMPED, NAMES, stream
from tests.effort import few_examples, sampled, thorough
from tests.metrics import preparation
from tests.metrics.twins import twins
from tests.strategies import CUTOFFS, measurable_gains, streams, takes_k, texts, texts_of

Texts = tuple[str, ...]

_NO_PAIRS = "list_diversity@1"


def test_every_metric_has_a_twin_and_every_twin_a_metric() -> None:
    assert set(twins()) == set(catalogue())


def test_no_twin_imports_the_package() -> None:
    folder = Path(preparation.__file__).parent
    helpers = {*folder.glob("[a-s]*.py")} - {folder / "mistakes.py"}
    sources = [*helpers, *(folder / "twins").glob("*.py")]
    assert len(sources) > 5
    for path in sources:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            modules = [node.module] if isinstance(node, ast.ImportFrom) else []
            modules += [
                alias.name for alias in getattr(node, "names", ()) if hasattr(alias, "name")
            ]
            assert not any(str(module).startswith("streameval") for module in modules), path


@pytest.mark.parametrize("k", sampled(reversed(CUTOFFS), 3))
def test_every_choice_of_parameters_equals_the_twin(k: int | None) -> None:
    for name in _metrics_at(k):
        events = stream(60 if thorough() else 20, unshown=name == "overlap")
        laws.equals_its_twin(texts_of(name, k), events)


def _metrics_at(k: int | None) -> list[str]:
    return [name for name in NAMES if k is None or takes_k(name)]


@few_examples()
@given(texts=texts(), events=streams(measurable_gains))
def test_every_metric_equals_its_twin(texts: Texts, events: list[Event]) -> None:
    laws.equals_its_twin(texts, events)


@pytest.mark.parametrize(("name", "k"), sampled(DUMPED, 18))
def test_every_metric_is_restored_from_a_dump_with_any_other_metrics(
    name: str, k: int | None
) -> None:
    few, events = texts_of(name, k), stream(20, unshown=name == "overlap")
    # All at one cut-off, because another depth is another statistic.
    others = [f"{other}@{k}" for other in NAMES if takes_k(other)] if k else NAMES
    laws.other_metrics_adopt_what_they_need(few, [*few, *others], events)


@pytest.mark.parametrize("k", sampled([3, None, 1, 10], 4))
def test_every_metric_satisfies_the_public_laws(k: int | None) -> None:
    events, seeds = (40, 5) if thorough() else (8, 1)
    texts = {f"{name}@{k}" if k and takes_k(name) else name for name in NAMES}
    # A list of one item has no pairs to compare, so this one never has a value.
    for text in sorted(texts - {_NO_PAIRS}):
        check_metric(text, events=events, seeds=seeds)


def test_a_metric_that_never_has_a_value_is_named() -> None:
    with pytest.raises(MetricLawError, match="neither a single event nor 40 events"):
        check_metric(_NO_PAIRS)


@pytest.mark.parametrize("k", sampled(reversed(CUTOFFS), 3))
def test_no_evidence_is_undefined_without_a_warning(k: int | None) -> None:
    for name in _metrics_at(k):
        laws.no_evidence_is_undefined(texts_of(name, k))


RANKED = tuple(
    name for name in NAMES if catalogue()[name].reads in ("hits", "lists") and takes_k(name)
)
PLAIN = traffic(60, plain=True)
EXPOSED = tuple(name for name in NAMES if catalogue()[name].reads == "exposures")
UNDER_A_CONVENTION = [
    f"{convention}:{name}{cut}"
    for convention, cases in CONVENTIONS.items()
    for name in (*cases.metrics, *cases.spellings)
    for cut in ("", "@7")
    if not cut or takes_k(cases.spellings.get(name, name))
]


LONG = [event for event in traffic(150, seed=5, plain=True) if len(event.recommendations) == 6]
"""Lists of one length, without which some systems have no personalization."""


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_every_convention_equals_the_twins_with_the_steps_of_its_system(convention: str) -> None:
    names = [text for text in UNDER_A_CONVENTION if text.startswith(f"{convention}:")]
    for events in (traffic(90, seed=4), LONG):
        laws.equals_its_twin(names, events)


def test_the_text_of_every_metric_round_trips() -> None:
    own_texts = [text for name, k in CASES for text in texts_of(name, k)]
    for text in (*own_texts, *UNDER_A_CONVENTION):
        metric = parse(text)
        again = parse(metric.text)
        assert (again, hash(again), again.text) == (metric, hash(metric), metric.text)
        assert (again.k, again.values) == (metric.k, metric.values)


@pytest.mark.parametrize("name", RANKED)
def test_default_values_are_omitted_from_the_text(name: str) -> None:
    assert parse(f" {name}( repeats = first,min_gain=0.0 )@5 ").text == f"{name}@5"
    assert (
        parse(f"{name}( repeats=every , min_gain=1)@5").text
        == parse(f"{name}(min_gain=1.0,repeats=every)@5").text
    )


@pytest.mark.parametrize("name", RANKED)
def test_a_cutoff_beyond_the_depth_is_refused(name: str) -> None:
    laws.beyond_the_depth_is_refused(name)


@pytest.mark.parametrize("name", RANKED)
def test_any_cutoff_up_to_the_depth_can_be_read(name: str) -> None:
    if catalogue()[name].reads == "lists":
        with pytest.raises(NotKeptError, match="list by list"):
            laws.counted([f"{name}@10"], PLAIN).read(f"{name}@7")
        return
    events = [replace(event, interactions=list(event.interactions)) for event in PLAIN]
    accumulator = laws.counted([f"{name}@10"], events)
    requested = accumulator.read(f"{name}@7")
    named = laws.counted([f"{name}@7"], events).read(f"{name}@7")
    assert requested == named


@pytest.mark.parametrize("name", EXPOSED)
def test_items_shown_can_only_be_read_at_counted_cutoffs(name: str) -> None:
    accumulator = laws.counted([f"{name}@10"], PLAIN)
    with pytest.raises(NotKeptError, match=f"{name}@7"):
        accumulator.read(f"{name}@7")


@pytest.mark.parametrize("name", NAMES)
def test_documentation_has_formula_example_source_and_the_undefined_case(name: str) -> None:
    definition = catalogue()[name]
    text = definition.documentation
    cut = "@k" if takes_k(name) else ""
    formula = rf"^    {name}{cut} = \S"
    assert re.search(formula, text, re.MULTILINE), f"a line '    {name}{cut} = ...' is missing"
    assert f'Accumulator("{name}' in text, "an example is missing"
    assert ">>> " in text
    assert re.search(r"Undefined\swithout\s[^.]+\.", text), "'Undefined without ...' is missing"
    assert definition.summary.endswith(".")
    assert len(definition.source) > 10, "the source does not say where the formula is from"


@pytest.mark.parametrize("name", NAMES)
def test_bounds_and_direction_are_declared(name: str) -> None:
    definition = catalogue()[name]
    low, high = definition.bounds
    assert low < high
    assert definition.additive == (definition.per != "slice" and not definition.finish)


def test_a_repeated_metric_is_read_once() -> None:
    accumulator = Accumulator("hit_rate@3", "hit_rate(empty=zero)@3", " hit_rate@3")
    assert [metric.text for metric in accumulator.metrics] == ["hit_rate@3"]


def test_a_metric_takes_a_type_if_interactions_change_its_value() -> None:
    events = stream(40)
    fewer = [*events[:20], *(replace(each, interactions=[], typed=()) for each in events[20:])]
    first, second = (laws.counted([*NAMES], each) for each in (events, fewer))
    values = {name: [laws.value(each.read(name)) for each in (first, second)] for name in NAMES}
    changed = {name for name, (before, after) in values.items() if repr(before) != repr(after)}
    takes = {name for name, definition in catalogue().items() if "type" in parameters(definition)}
    assert changed - takes == set(), "their statistic needs takes_type=True in BY_CELL"
    assert takes - changed == {"group_disparity", "retrieved"}, "they need interactions=False"


def test_threads_that_read_longer_lists_than_before_find_all_discounts() -> None:
    together = threading.Barrier(4)

    def read(rank: int) -> tuple[float, float]:
        together.wait()
        return float(discount(np.array([rank]))[0]), float(ideal(np.array([rank]))[0])

    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as threads:
            for rank in (1_500, 6_000, 20_000, 60_000):
                expected = [1 / math.log2(position + 1) for position in range(1, rank + 1)]
                discounts = {*threads.map(read, [rank] * 4)}
                assert discounts == {(expected[-1], [*accumulate(expected)][-1])}
    finally:
        sys.setswitchinterval(usual)
