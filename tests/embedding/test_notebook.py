from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from matplotlib import pyplot as plt

from streameval import Accumulator, Reading, evaluate
from streameval.events.errors import MetricError, MissingExtraError
from streameval.plot import lifts, over_time, readings, row
from tests.effort import PATIENCE
from tests.embedding.examples import EXAMPLES
from tests.processes import finished


@pytest.fixture(autouse=True)
def _figures() -> Iterator[None]:
    """Close what a test draws: pyplot keeps figures, and warns of more than 20."""
    yield
    plt.close("all")


_SAY = """
import json
print(json.dumps(windows))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the notebook was run by Jupyter, with one more cell that says what was drawn."""
    folder = tmp_path_factory.mktemp("notebook")
    notebook = json.loads((EXAMPLES / "over_time.ipynb").read_text(encoding="utf-8"))
    last = {**notebook["cells"][-1], "id": "said", "source": _SAY}
    notebook["cells"].append(last)
    path = folder / "over_time.ipynb"
    path.write_text(json.dumps(notebook), encoding="utf-8")
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    command = [sys.executable, "-m", "jupyter", "execute", "--inplace", str(path)]
    environment = {**os.environ, "PATH": programs, "IPYTHONDIR": str(folder / "ipython")}
    done = finished(command, cwd=folder, env=environment, timeout=PATIENCE)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder


def _outputs(folder: Path) -> list[dict[str, Any]]:
    notebook = json.loads((folder / "over_time.ipynb").read_text(encoding="utf-8"))
    return [output for cell in notebook["cells"] for output in cell.get("outputs", [])]


def test_the_notebook_has_two_charts(folder: Path) -> None:
    pictures = [output for output in _outputs(folder) if "image/png" in output.get("data", {})]
    assert len(pictures) == 2


def test_the_notebook_draws_the_values_of_the_events(folder: Path) -> None:
    windows = json.loads("".join(_outputs(folder)[-1]["text"]))
    lines = (folder / "events.ndjson").read_text(encoding="utf-8").splitlines()
    last = Accumulator("ndcg@10")
    for event in map(json.loads, lines):
        if event["variant"] == "control" and event["ts"] >= "2026-01-01T00:00:40":
            last.update(event["recommendations"], event["interactions"])
    of_control = [window for window in windows if window["labels"] == {"variant": "control"}]
    drawn = {window["start"]: window["value"] for window in of_control}
    assert drawn["2026-01-01T00:00:55+00:00"] == last.read("ndcg@10").value


def test_the_example_keeps_no_output() -> None:
    notebook = json.loads((EXAMPLES / "over_time.ipynb").read_text(encoding="utf-8"))
    assert not any(cell.get("outputs") for cell in notebook["cells"])


def _rows(values: dict[str, list[float | None]]) -> list[dict[str, Any]]:
    rows = []
    for name, line in values.items():
        for index, value in enumerate(line):
            accumulator = Accumulator("hit_rate@1")
            if value is not None:
                accumulator.update(["a"], ["a"] if value else ["b"])
            reading = accumulator.read("hit_rate@1")
            rows.append(row(3600.0 * index, reading, variant=name))
    return rows


def test_an_undefined_value_breaks_the_line() -> None:
    lines = over_time(_rows({"a": [1, None, 0], "b": [0, 1]}), "hit_rate@1").lines
    lines_drawn = {
        str(line.get_label()): [str(y) for y in np.asarray(line.get_ydata())] for line in lines
    }
    assert lines_drawn == {"a": ["1.0", "nan", "0.0"], "b": ["0.0", "1.0", "nan"]}


def test_it_draws_on_given_axes() -> None:
    axes = over_time(_rows({"a": [1, 0]}), "hit_rate@1")
    assert over_time(_rows({"b": [0, 1]}), "hit_rate@1", axes) is axes
    assert [line.get_label() for line in axes.lines] == ["a", "b"]


def test_one_moment_is_one_point_however_it_is_written() -> None:
    starts = {
        "a": "2025-01-01T01:00:00Z",
        "b": "2025-01-01T00:30:00+00:00",
        "c": "2025-01-01T02:00+01:00",
    }
    rows = [
        {"start": start, "metric": "mrr", "labels": {"variant": name}, "value": 0.5}
        for name, start in starts.items()
    ]
    lines_drawn = [np.asarray(line.get_ydata()).tolist() for line in over_time(rows, "mrr").lines]
    assert [[value == 0.5 for value in line] for line in lines_drawn] == [
        [False, True],
        [True, False],
        [False, True],
    ]


def test_no_label_is_cut_and_dates_fit_the_data() -> None:
    text = "ndcg(empty=zero,gain=exp2,relevant=all)@10"
    drawn = readings(evaluate([["a", "b"]] * 9, [["b"]] * 9, "mrr", text))
    figure = drawn.figure
    figure.canvas.draw()
    for label in drawn.get_yticklabels():
        box = label.get_window_extent()
        assert 0 <= box.x0 < box.x1 <= drawn.get_window_extent().x0
    for step, texts in ((3_600, {"06:00", "12:00"}), (86_400, {"05", "09"})):
        rows = [row(1_767_225_600 + number * step, _reading()) for number in range(31)]
        axes = over_time(rows, "mrr")
        axes.figure.canvas.draw()
        assert texts <= {label.get_text() for label in axes.get_xticklabels()}


def test_the_legend_has_each_label_whole() -> None:
    labels = ["_control", "$", "$\\no$", f"a variant {'of many words ' * 9}"]
    drawn = over_time(_rows({label: [1, 0] for label in labels}), "hit_rate@1")
    drawn.figure.canvas.draw()
    legend = drawn.get_legend()
    assert legend is not None
    texts = [" ".join(text.get_text().split()) for text in legend.get_texts()]
    assert texts == [label.strip() for label in labels]


def _reading() -> Reading:
    accumulator = Accumulator("mrr")
    accumulator.update(["a"], ["a"])
    return accumulator.read("mrr")


def test_an_evaluation_is_drawn_with_intervals_and_by_spans() -> None:
    frame = {
        "recommendations": [["a", "b"]] * 40,
        "interactions": [["b"], ["a"], []] * 13 + [["b"]],
        "user": [f"u{number}" for number in range(40)],
        "time": [1_700_000_000 + 3_600 * (number // 10) for number in range(40)],
    }
    events = pa.table(frame)
    evaluation = evaluate(events, "ctr")
    point_of = {str(line.get_marker()): line for line in readings(evaluation).lines}
    interval = evaluation["ctr"].interval
    assert interval is not None
    assert np.asarray(point_of["None"].get_xdata()).tolist() == [interval.low, interval.high]
    assert np.asarray(point_of["o"].get_xdata()).tolist() == [evaluation["ctr"].value]
    hours = evaluate(events, "ctr", every="1h", columns={"time": "time"}, time_unit="s")
    (line,) = over_time(hours, "ctr").lines
    assert np.asarray(line.get_ydata()).tolist() == [reading.value for _, reading in hours.items()]


def test_a_reading_without_a_value_has_its_name_only() -> None:
    drawn = readings({"mrr": READ})
    assert [text.get_text() for text in drawn.get_yticklabels()] == ["mrr: no value"]
    assert not drawn.lines


ONE = {"start": "2025-01-01T00:00:00Z", "metric": "mrr", "labels": {"a": "b"}, "value": 0.5}
READ = Accumulator("mrr").read("mrr")


@pytest.mark.parametrize(
    ("drawn", "named"),
    [
        (lambda: over_time(None, "mrr"), "rows=None: give the result of evaluate"),  # type: ignore[arg-type]  # the mistake
        (lambda: over_time(ONE, "mrr"), "give the result of evaluate"),  # type: ignore[arg-type]  # the mistake
        (lambda: over_time([ONE, 5], "mrr"), "rows[1]=5: give the result of evaluate"),  # type: ignore[list-item]  # the mistake
        (lambda: over_time([{"metric": "mrr"}], "mrr"), "rows[0]={'metric': 'mrr'}"),
        (lambda: over_time([ONE], READ), "give the text of a metric"),  # type: ignore[arg-type]  # the mistake
        (lambda: over_time([ONE | {"start": 5}], "mrr"), "start=5: give ISO 8601"),
        (lambda: over_time([ONE | {"start": "noon"}], "mrr"), "start='noon': give ISO 8601"),
        (lambda: over_time([ONE, ONE | {"start": "2025-01-01"}], "mrr"), "an offset from UTC"),
        (lambda: over_time([ONE | {"labels": ["b"]}], "mrr"), "labels=['b']: give name -> text"),
        (lambda: over_time([ONE | {"value": "0.5"}], "mrr"), "value='0.5': give a number"),
        (lambda: over_time([ONE], "mrr", [1]), "axes=[1]: give one Axes"),  # type: ignore[arg-type]  # the mistake
        (lambda: over_time(evaluate([["a"]], [["a"]], "mrr"), "mrr"), "has no spans"),
        (lambda: readings([]), "values=[]: give text -> reading"),  # type: ignore[arg-type]  # the mistake
        (lambda: readings({"mrr": 0.5}), "values['mrr']=0.5: give a reading"),  # type: ignore[dict-item]  # the mistake
        (lambda: lifts([]), "comparisons=[]: give name -> result"),  # type: ignore[arg-type]  # the mistake
        (lambda: lifts({"mrr": READ}), "comparisons['mrr']=Reading("),  # type: ignore[dict-item]  # the mistake
        (lambda: row("now", READ), "start='now': give seconds"),  # type: ignore[arg-type]  # the mistake
        (lambda: row(1e99, READ), "start=1e+99: give seconds"),
        (lambda: row(0.0, 0.5), "reading=0.5: give the result of Accumulator.read"),  # type: ignore[arg-type]  # the mistake
    ],
)
def test_an_invalid_argument_is_refused_with_what_to_give(
    drawn: Callable[[], object], named: str
) -> None:
    with pytest.raises(MetricError) as raised:
        drawn()
    assert named in str(raised.value)


def test_without_matplotlib_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'matplotlib>="):
        over_time([], "ctr")
