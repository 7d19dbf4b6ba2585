"""User-defined metrics: named in a text, passed as functions, and invalid ones."""

from __future__ import annotations

import math
import os
import pickle
import sys
from collections.abc import Callable, Iterator
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pytest

from streameval import Accumulator, Event, Intervals, metric, metric_at
from streameval.catalogue import parse
from streameval.catalogue.reading import Bounded
from streameval.catalogue.signature import Span
from streameval.events.errors import (
    MetricDeclarationError,
    MetricError,
    MetricModuleError,
    MetricParameterError,
    MetricValueError,
    UnknownMetricError,
)
from streameval.exporters.names import family_name
from streameval.metrics.ndcg import ndcg
from tests.effort import PATIENCE
from tests.processes import finished
from tests.testing import declared

MODULE = "tests.testing.declared"


def test_a_text_and_a_function_are_the_same_metric() -> None:
    accumulator = Accumulator(f"{MODULE}:dcg2@3", metric_at(declared.dcg2, k=3), declared.length)
    assert [metric_.text for metric_ in accumulator.metrics] == [
        f"{MODULE}:dcg2@3",
        f"{MODULE}:length",
    ]
    accumulator.update(["a", "b", "c"], ["b", "c"])
    assert accumulator.read(f"{MODULE}:dcg2@3").value == 2**-0.5 + 3**-0.5
    assert accumulator.read(f"{MODULE}:length").value == 3.0


def test_parameters_and_cutoff_are_part_of_its_text() -> None:
    metric_here = metric_at(declared.dcg2, k=5, power=2)
    assert metric_here.text == f"{MODULE}:dcg2(power=2)@5"
    assert parse(metric_here.text) == metric_here
    assert parse(metric_here.text).values == metric_here.values
    assert metric_at(declared.dcg2, power=0.5).text == f"{MODULE}:dcg2"


def test_a_function_of_the_catalogue_is_the_metric_of_the_catalogue() -> None:
    assert metric_at(ndcg, k=10, gain="exp2") == parse("ndcg(gain=exp2)@10")


def test_a_name_of_the_catalogue_can_be_used_again() -> None:
    accumulator = Accumulator(declared.ndcg_, "ndcg")
    assert accumulator.metrics[0] == parse(f"{MODULE}:ndcg")
    accumulator.update(["a"], ["a"])
    assert [reading.value for reading in accumulator.compute().values()] == [0.25, 1.0]
    names = [family_name(metric_) for metric_ in accumulator.metrics]
    assert names == ["streameval_tests_testing_declared_ndcg", "streameval_ndcg"]


def test_a_convention_takes_precedence_over_a_module_of_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "recbole.py").write_text("raise SystemExit\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    assert parse("recbole:ndcg@7").convention == "recbole"


def test_a_local_function_can_be_counted() -> None:
    def local(event: Event, k: int | None) -> float:
        return float(len(event.recommendations) + (k or 0))

    metric_here = metric_at(metric(bounds=(0, 9), source="a notebook")(local), k=4)
    accumulator = Accumulator(metric_here)
    accumulator.update(["a"], [])
    assert accumulator.read(metric_here.text).value == 5.0


def test_an_accumulator_of_functions_can_be_pickled() -> None:
    accumulator = Accumulator(metric_at(declared.length, k=2))
    accumulator.update(["a", "b", "c"], [])
    there = pickle.loads(pickle.dumps(accumulator))
    there.merge(accumulator)
    assert there.read(f"{MODULE}:length@2").total == 4.0


def test_a_declaration_without_parentheses_or_source_says_how_to_write_it() -> None:
    def length(event: Event) -> float:
        return float(len(event.recommendations))

    with pytest.raises(MetricDeclarationError, match="@metric of length needs parentheses with"):
        metric(length)
    with pytest.raises(MetricDeclarationError, match=r"write @metric\(bounds=\(0, 1\), source="):
        metric(bounds=(0, 1))


class Tensor:
    """An array of one number, whose __iter__ raises."""

    def __iter__(self) -> Iterator[float]:
        raise TypeError("iteration over a 0-d tensor")

    def tolist(self) -> float:
        return 0.5


def _declared(source: str, bounds: Any = (0, 1), **options: Any) -> Callable[..., Any]:
    made: dict[str, Any] = {"np": np, "Tensor": Tensor, "__name__": "a_notebook", "wraps": wraps}
    made |= {"Annotated": Annotated, "Literal": Literal, "Span": Span, "Bounded": Bounded}
    exec(source, made)  # as a notebook runs a cell
    declare: Any = metric(bounds=bounds, source="our own rule", **options)
    declaration: Callable[..., Any] = declare(made["ours"])
    return declaration


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("def ours(rows): ...", "the first argument must be one of hits, lists,"),
        ("def ours(): ...", "the first argument must be one of hits, lists,"),
        (
            "def ours(event, price): ...",
            "price is not one of k, catalog, popularity, similarity, attribute, examination;",
        ),
        ("def ours(event, price=2, k=None): ...", "write parameters after a *, as in (event, *, p"),
        ("def ours(event, *, price): ...", "parameter price needs a default: a number,"),
        ("def ours(event, *, price=[]): ...", "parameter price needs a default: a number,"),
        ("def ours(event, *, k=10): ...", "k is an input, not a parameter; write it before the *"),
        ("async def ours(event): ...", "write def without async"),
        ("ours = lambda event: 1.0", "write a function with def"),
        ("class ours:\n    def __init__(self, event): ...", "write a function with def"),
        ("def __(event): ...\nours = __", "write a function with def"),
        ("def ours(hits, k=10): ...", "the default of k is never used; write k without it"),
        ("def ours(event, *, by: Literal['a']='b'): ...", "default of by is 'b'; choose one of a"),
        (
            "def ours(event, *, p: Annotated[float, Span(0, 1)]=2): ...",
            "the default of p is 2.0; give a number from 0 to 1",
        ),
        ("def ours(event, *, p: 'Nowhere'=2): ...", "names 'Nowhere'; import it outside of `if T"),
        ("def ours(event, catalog: 'Nowhere'): ...", "names 'Nowhere'; import it outside of `if T"),
    ],
)
def test_an_invalid_declaration_is_refused_at_the_decorator(source: str, problem: str) -> None:
    with pytest.raises(MetricDeclarationError, match=r"^@metric of .*: ") as told:
        _declared(source)
    assert problem in str(told.value)


@pytest.mark.parametrize("option", ["graded", "finish"])
def test_an_option_that_is_no_function_is_refused(option: str) -> None:
    with pytest.raises(MetricDeclarationError, match=f"{option}='sqrt' is not a function"):
        _declared("def ours(hits, k): ...", **{option: "sqrt"})


@pytest.mark.parametrize(
    ("first", "per"),
    [
        ("exposures", "list"),
        ("users", "total"),
        ("scores", "item"),
        ("event", "total"),
        ("event", "slice"),
        ("lists", "item"),
        ("hits", "slice"),
    ],
)
def test_a_unit_that_does_not_fit_the_statistic_is_refused(first: str, per: Any) -> None:
    with pytest.raises(MetricDeclarationError, match=f"per='{per}' does not fit {first}; give '"):
        _declared(f"def ours({first}): ...", per=per)


def test_annotations_that_only_type_checkers_see_are_left_alone() -> None:
    source = "def ours(event: 'Nowhere', k: 'Nowhere', *, power: float = 0.5) -> 'Nowhere': "
    ours = _declared(source + "return power")
    accumulator = Accumulator(metric_at(ours, k=3, power=0.25))
    accumulator.update(["a"], ["a"])
    assert [reading.value for reading in accumulator.compute().values()] == [0.25]


@pytest.mark.parametrize("given", [0.25, np.float64(0.25), np.float32(0.25)])
def test_a_number_may_have_a_whole_default_and_be_a_number_of_numpy(given: Any) -> None:
    ours = _declared("def ours(event, *, price: float = 1): return price")
    texts = [metric_at(ours, price=price).text for price in (given, 2, 1)]
    assert texts == ["a_notebook:ours(price=0.25)", "a_notebook:ours(price=2)", "a_notebook:ours"]
    accumulator = Accumulator(metric_at(ours, price=given))
    accumulator.update(["a"], ["a"])
    assert [reading.value for reading in accumulator.compute().values()] == [0.25]


def test_an_input_with_none_as_default_is_optional() -> None:
    ours = _declared("def ours(event, k=None, catalog=None): return 1 / (k or 1) / (catalog or 1)")
    accumulators = [Accumulator(ours), Accumulator(metric_at(ours, k=2), catalog=2)]
    for accumulator in accumulators:
        accumulator.update(["a"], ["a"])
    values = [reading.value for counter in accumulators for reading in counter.compute().values()]
    assert values == [1.0, 0.25]


def test_a_function_in_a_wrapper_gets_its_parameters() -> None:
    wrapped = "def ours(event, *, price: float = 1.0): return price\n"
    wrapped += "ours = wraps(ours)(lambda *given, inner=ours, **named: inner(*given, **named))"
    accumulator = Accumulator(metric_at(_declared(wrapped), price=0.25))
    accumulator.update(["a"], ["a"])
    assert [reading.value for reading in accumulator.compute().values()] == [0.25]


def test_a_metric_of_the_program_has_one_name_in_spawned_processes() -> None:
    ours = _declared("__name__ = '__mp_main__'\ndef ours(event): return 0.5")
    assert metric_at(ours).text == "__main__:ours"


@pytest.mark.parametrize("bounds", [(1, 0), (math.nan, 1), (0, 1, 2), "01", 5, (0, 0)])
def test_invalid_bounds_are_refused(bounds: object) -> None:
    with pytest.raises(MetricDeclarationError, match="must be the smallest and the largest value"):
        _declared("def ours(event): ...", bounds)


@pytest.mark.parametrize(
    "option", [{"higher_is_better": "yes"}, {"higher_is_better": 1}, {"per": "user"}]
)
def test_an_invalid_option_is_refused(option: dict[str, Any]) -> None:
    (name,) = option
    with pytest.raises(MetricDeclarationError, match=f"{name}=.* is not one of "):
        _declared("def ours(event): ...", **option)


@pytest.mark.parametrize(
    ("returned", "value"),
    [
        ("Tensor()", 0.5),
        ("np.float32(0.5)", 0.5),
        ("np.int64(1)", 1.0),
        ("np.bool_(True)", 1.0),
        ("np.array(0.5)", 0.5),
        ("np.array([0.5, 1.0])", 0.75),
        ("(each for each in (0.25, 0.75))", 0.5),
        ("[np.float32(0.5), None] [:1]", 0.5),
    ],
)
def test_any_number_is_a_value(returned: str, value: float) -> None:
    ours = _declared(f"def ours(event): return {returned}")
    for intervals in (None, Intervals()):
        accumulator = Accumulator(ours, intervals=intervals)
        accumulator.update(["a"], ["a"], user="u")
        assert accumulator.read(metric_at(ours).text).value == value


@pytest.mark.parametrize(
    "source",
    [
        "def ours(event): return '12'",
        "def ours(event): return {0.5: 1}",
        "def ours(event): return [0.5, None]",
        "def ours(event): return 1j",
        "def ours(event): return 10**400",
        "def ours(hits, k): return 0.5",
        "def ours(hits, k): return None",
        "def ours(hits, k): return np.array([None])",
        "def ours(hits, k): return np.array(['1'])",
        "def ours(hits, k): return np.array([1j])",
        "def ours(lists, k): return 0.5",
        "def ours(lists, k): return np.array([0.5])",
        "def ours(lists, k): return 'ab'",
        "def ours(lists, k): return [None] * len(lists)",
        "def ours(exposures): return None",
        "def ours(exposures): return '0.5'",
        "def ours(exposures): return Bounded('0.5', 0, 1)",
        "def ours(exposures): return Bounded(0.5, None, None)",
    ],
)
def test_a_value_of_another_type_is_reported_with_the_metric(source: str) -> None:
    accumulator = Accumulator(_declared(source))

    def count_and_read() -> None:
        accumulator.update(["a", "b"], ["b"])
        accumulator.update(["a", "b", "c"], [])
        accumulator.compute()

    with pytest.raises(MetricValueError, match=r"metric 'a_notebook:ours' returned .*; return "):
        count_and_read()


def test_what_finish_returns_is_a_number() -> None:
    accumulator = Accumulator(_declared("def ours(event): return 0.25", finish=str))
    accumulator.update(["a"], ["a"])
    with pytest.raises(MetricValueError, match=r"returned '0.25'; return a number from finish="):
        accumulator.compute()


def test_two_functions_with_one_name_are_refused() -> None:
    first = _declared("def ours(event): return 0.1")
    other = _declared("def ours(event): return 0.9")
    with pytest.raises(
        MetricDeclarationError, match="'a_notebook:ours' names two different functions"
    ):
        Accumulator(first, other)
    assert len(Accumulator(first, metric_at(first)).metrics) == 1


def test_a_text_names_the_latest_declaration(monkeypatch: pytest.MonkeyPatch) -> None:
    for value in (0.25, 0.75):
        monkeypatch.setattr(
            declared,
            "again",
            _declared(f"def again(event): return {value}\nours = again"),
            raising=False,
        )
        accumulator = Accumulator(f"{MODULE}:again")
        accumulator.update(["a"], ["a"])
        assert accumulator.read(f"{MODULE}:again").value == value


@pytest.mark.parametrize("given", [len, 7, None, "ndcg@10".split])
def test_an_invalid_metric_is_refused(given: object) -> None:
    with pytest.raises(MetricDeclarationError, match="is not a metric; give its text"):
        Accumulator(given)  # type: ignore[arg-type]  # the mistake under test


@pytest.mark.parametrize(
    ("text", "error", "said"),
    [
        (f"{MODULE}:dcg3", UnknownMetricError, f"or '{MODULE}:dcg2'"),
        (f"{MODULE}:math", UnknownMetricError, "unknown metric"),
        ("tests.testing.nowhere:dcg2", UnknownMetricError, "no module of that name"),
        ("recbol:ndcg", UnknownMetricError, "Did you mean 'recbole'"),
    ],
)
def test_an_unresolvable_text_is_explained(text: str, error: type[MetricError], said: str) -> None:
    with pytest.raises(error, match=said):
        parse(text)


def test_a_parameter_with_the_name_of_a_shared_one_is_refused() -> None:
    @metric(bounds=(0, 9), source="a notebook")
    def local(event: Event, *, q: float = 3.0) -> float:
        return q * len(event.recommendations)

    with pytest.raises(MetricParameterError, match=r"q = 3\.0 is not allowed; all metrics"):
        Accumulator(local)


def test_a_module_that_fails_is_named_with_its_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_metrics.py").write_text("import nowhere_to_be_found\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(MetricModuleError, match="'broken_metrics' cannot be imported: ModuleNotF"):
        parse("broken_metrics:ndcg")


def test_the_program_finds_modules_in_the_folder_it_is_started_in(tmp_path: Path) -> None:
    (tmp_path / "ours.py").write_text(
        "from streameval import metric\n\n"
        '@metric(bounds=(0, 99), source="our own rule")\n'
        "def length(event, k):\n"
        '    """Items shown."""\n'
        "    return float(len(event.recommendations[:k]))\n",
        encoding="utf-8",
    )
    program = (
        "import sys; from streameval.cli import run_command; sys.path.remove(''); run_command()"
    )
    # Like the installed program, which does not have the working directory on its path.
    done = finished(
        [sys.executable, "-c", program, "metrics", "ours:length@3"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])},
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    assert "Items shown." in done.stdout
