"""User-defined metrics: named in a text, passed as functions, and invalid ones."""

from __future__ import annotations

import os
import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streameval import Accumulator, Event, Intervals, metric, metric_at
from streameval.catalogue import parse
from streameval.events.errors import MetricTextError, OwnMetricError
from streameval.exporters.names import family_name
from streameval.metrics.ndcg import ndcg
from tests.effort import PATIENCE
from tests.processes import finished
from tests.testing import declared
from tests.testing.notebook import in_a_notebook

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
    assert values(accumulator) == [0.25, 1.0]
    names = [family_name(metric_) for metric_ in accumulator.metrics]
    assert names == ["streameval_tests_testing_declared_ndcg", "streameval_ndcg"]


def test_a_convention_takes_precedence_over_a_module_of_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "recbole.py").write_text("raise SystemExit\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    assert parse("recbole:ndcg@7").convention == "recbole"


def values(accumulator: Accumulator) -> list[float]:
    """Of one list with one hit."""
    accumulator.update(["a"], ["a"])
    return [reading.value for reading in accumulator.compute().values()]


def test_a_local_function_can_be_counted() -> None:
    def local(event: Event, k: int | None) -> float:
        return float(len(event.recommendations) + (k or 0))

    declaration = metric(bounds=(0, 9), source="a notebook")(local)
    assert values(Accumulator(metric_at(declaration, k=4))) == [5.0]


def test_an_accumulator_of_functions_can_be_pickled() -> None:
    accumulator = Accumulator(metric_at(declared.length, k=2))
    accumulator.update(["a", "b", "c"], [])
    there = pickle.loads(pickle.dumps(accumulator))
    there.merge(accumulator)
    assert there.read(f"{MODULE}:length@2").total == 4.0


def test_a_declaration_without_parentheses_or_source_says_how_to_write_it() -> None:
    def length(event: Event) -> float:
        return float(len(event.recommendations))

    with pytest.raises(OwnMetricError, match="@metric of length needs parentheses with"):
        metric(length)
    with pytest.raises(OwnMetricError, match=r"write @metric\(bounds=\(0, 1\), source="):
        metric(bounds=(0, 1))


_WRAPPED = """
def ours(event, *, price: float = 1.0): return price
ours = wraps(ours)(lambda *given, inner=ours, **named: inner(*given, **named))
"""


@pytest.mark.parametrize(
    ("source", "chosen"),
    [
        # Annotations that only type checkers see are left alone.
        ("def ours(event: 'No', k: 'No', *, price: float = 0.5) -> 'No': return price", 0.25),
        # A number may have a whole default, and be a number of NumPy.
        ("def ours(event, k=None, *, price: float = 1): return price", 0.25),
        ("def ours(event, k=None, *, price: float = 1): return price", np.float64(0.25)),
        ("def ours(event, k=None, *, price: float = 1): return price", np.float32(0.25)),
        # A function in a wrapper gets its parameters.
        (_WRAPPED, 0.25),
    ],
)
def test_a_parameter_reaches_the_function_and_its_text(source: str, chosen: Any) -> None:
    ours = in_a_notebook(source)
    assert values(Accumulator(metric_at(ours, price=chosen))) == [0.25]
    texts = [metric_at(ours, price=price).text for price in (chosen, 2)]
    assert texts == ["a_notebook:ours(price=0.25)", "a_notebook:ours(price=2)"]


def test_an_input_with_none_as_default_is_optional() -> None:
    source = "def ours(event, k=None, catalog=None): return 1 / (k or 1) / (catalog or 1)"
    ours = in_a_notebook(source)
    assert values(Accumulator(ours)) == [1.0]
    assert values(Accumulator(metric_at(ours, k=2), catalog=2)) == [0.25]


def test_a_metric_of_the_program_has_one_name_in_spawned_processes() -> None:
    ours = in_a_notebook("__name__ = '__mp_main__'\ndef ours(event): return 0.5")
    assert metric_at(ours).text == "__main__:ours"


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
    ours = in_a_notebook(f"def ours(event): return {returned}")
    for intervals in (None, Intervals()):
        accumulator = Accumulator(ours, intervals=intervals)
        accumulator.update(["a"], ["a"], user="u")
        assert accumulator.read(metric_at(ours).text).value == value


def test_a_function_that_is_given_twice_is_one_metric() -> None:
    first = in_a_notebook("def ours(event): return 0.1")
    assert len(Accumulator(first, metric_at(first)).metrics) == 1


def test_a_text_names_the_latest_declaration(monkeypatch: pytest.MonkeyPatch) -> None:
    for value in (0.25, 0.75):
        monkeypatch.setattr(
            declared,
            "again",
            in_a_notebook(f"def again(event): return {value}\nours = again"),
            raising=False,
        )
        assert values(Accumulator(f"{MODULE}:again")) == [value]


def test_a_parameter_with_the_name_of_a_shared_one_is_refused() -> None:
    @metric(bounds=(0, 9), source="a notebook")
    def local(event: Event, *, q: float = 3.0) -> float:
        return q * len(event.recommendations)

    with pytest.raises(MetricTextError, match=r"q = 3\.0 is not allowed; all metrics"):
        Accumulator(local)


def test_a_module_that_fails_is_named_with_its_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_metrics.py").write_text("import nowhere_to_be_found\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(MetricTextError, match="'broken_metrics' cannot be imported: ModuleNotF"):
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
