"""Metrics of somebody's own: named in a text, given as functions, and what is wrong with some."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from streameval import Accumulator, Event, metric, metric_at
from streameval.catalogue import parse
from streameval.errors import (
    MetricDeclarationError,
    MetricError,
    MetricModuleError,
    MetricParameterError,
    UndeclaredMetricError,
    UnknownConventionError,
    UnknownMetricError,
)
from streameval.exporters.families import family_name
from streameval.metrics.ndcg import ndcg
from tests.effort import PATIENCE, every_case
from tests.testing import declared

MODULE = "tests.testing.declared"


def test_a_text_and_a_function_are_the_same_metric() -> None:
    accumulator = Accumulator(f"{MODULE}:dcg2@3", metric_at(declared.dcg2, k=3), declared.length)
    assert [each.text for each in accumulator.metrics] == [f"{MODULE}:dcg2@3", f"{MODULE}:length"]
    accumulator.update(["a", "b", "c"], ["b", "c"])
    assert accumulator.read(f"{MODULE}:dcg2@3").value == 2**-0.5 + 3**-0.5
    assert accumulator.read(f"{MODULE}:length").value == 3.0


def test_parameters_and_cutoff_are_part_of_its_text() -> None:
    found = metric_at(declared.dcg2, k=5, power=2)
    assert found.text == f"{MODULE}:dcg2(power=2)@5"
    assert parse(found.text) == found
    assert parse(found.text).values == found.values
    assert metric_at(declared.dcg2, power=0.5).text == f"{MODULE}:dcg2"


def test_a_function_of_the_catalogue_is_the_metric_of_the_catalogue() -> None:
    assert metric_at(ndcg, k=10, gain="exp2") == parse("ndcg(gain=exp2)@10")


def test_a_name_of_the_catalogue_can_be_used_again() -> None:
    accumulator = Accumulator(declared.ndcg, "ndcg")
    accumulator.update(["a"], ["a"])
    assert [each.value for each in accumulator.compute().values()] == [0.25, 1.0]
    names = [family_name(each) for each in accumulator.metrics]
    assert names == ["streameval_tests_testing_declared_ndcg", "streameval_ndcg"]


def test_a_convention_goes_before_a_module_of_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "recbole.py").write_text("raise SystemExit\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    assert parse("recbole:ndcg@7").convention == "recbole"


def test_a_function_of_nowhere_counts_too() -> None:
    def local(event: Event, k: int | None) -> float:
        return float(len(event.recommendations) + (k or 0))

    found = metric_at(metric(bounds=(0, 9), source="a notebook")(local), k=4)
    accumulator = Accumulator(found)
    accumulator.update(["a"], [])
    assert accumulator.read(found.text).value == 5.0


def test_an_accumulator_of_functions_travels_to_another_process() -> None:
    accumulator = Accumulator(metric_at(declared.length, k=2))
    accumulator.update(["a", "b", "c"], [])
    there = pickle.loads(pickle.dumps(accumulator))
    there.merge(accumulator)
    assert there.read(f"{MODULE}:length@2").total == 4.0


def test_a_declaration_without_parentheses_or_source_says_how_to_write_it() -> None:
    def length(event: Event) -> float:
        return float(len(event.recommendations))

    with pytest.raises(MetricDeclarationError, match="@metric above length needs parentheses with"):
        metric(length)
    with pytest.raises(MetricDeclarationError, match=r"write @metric\(bounds=\(0, 1\), source="):
        metric(bounds=(0, 1))


@every_case("given", [len, 7, None, "ndcg@10".split])
def test_what_is_no_metric_is_refused(given: object) -> None:
    with pytest.raises(UndeclaredMetricError, match="is not a metric; give its text"):
        Accumulator(given)  # type: ignore[arg-type]  # the mistake under test


@every_case(
    ("text", "error", "said"),
    [
        (f"{MODULE}:dcg3", UnknownMetricError, f"or '{MODULE}:dcg2'"),
        ("tests.testing.nowhere:dcg2", UnknownConventionError, "no module of that name"),
        ("recbol:ndcg", UnknownConventionError, "Did you mean 'recbole'"),
    ],
)
def test_a_text_that_leads_nowhere_says_why(text: str, error: type[MetricError], said: str) -> None:
    with pytest.raises(error, match=said):
        parse(text)


def test_a_parameter_that_means_something_else_already_is_refused() -> None:
    @metric(bounds=(0, 9), source="a notebook")
    def local(event: Event, *, least: float = 3.0) -> float:
        return least * len(event.recommendations)

    with pytest.raises(MetricParameterError, match=r"least = 3\.0 is not allowed; all metrics"):
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
    program = "import sys; from streameval.cli.app import main; sys.path.remove(''); main()"
    # As the installed program is: the folder it is started in is no place of modules by itself.
    done = subprocess.run(
        [sys.executable, "-c", program, "metrics", "ours:length@3"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Items shown." in done.stdout
