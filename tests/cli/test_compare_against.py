"""`streameval compare --against`: two policies that one log judges."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from streameval import Accumulator, Intervals, compare
from streameval.config import load
from streameval.events.errors import NotComparableError
from tests.cli.program import from_csv, from_json, json_lines, run, usage_error
from tests.stores.received import write_state
from tests.strategies import event_of

CHANCES: Final = {"a": (0.7, 0.05), "b": (0.2, 0.10), "c": (0.1, 0.20)}
"""Item -> its propensity and its click rate; the policy that is judged shows all items alike."""

UNIFORM: Final = "snips(target=uniform)"
CONFIG: Final = """
metrics = ["snips(target=uniform)", "value_per_list", "ctr", "gini@1"]
intervals = {}
catalog = 3
source = { type = "files", paths = ["log.ndjson"] }
state = { path = "state" }
web = { listen = "127.0.0.1:0" }
[event]
per_item = { propensity = "p", uniform = "u" }
"""


def rows(scale: float = 1.0) -> Iterator[dict[str, Any]]:
    """6,000 lists of 2,000 users; `scale`: share of the policy that the log shows."""
    draw = random.Random(11)
    for number in range(6_000):
        item = draw.choices([*CHANCES], [chance for chance, _ in CHANCES.values()])[0]
        chance, rate = CHANCES[item]
        clicked = [item] if draw.random() < rate else []
        yield {
            "user": f"u{number % 2_000}",
            "recommendations": [item],
            "interactions": clicked,
            "p": [chance],
            "u": [scale / 3],
        }


def log_of(folder: Path, scale: float = 1.0) -> tuple[Path, Path]:
    config = folder / "streameval.toml"
    config.write_text(CONFIG)
    return json_lines(folder / "log.ndjson", [*rows(scale)]), config


def compare_arguments(folder: Path, *others: str, scale: float = 1.0) -> list[Any]:
    log, config = log_of(folder, scale)
    return [log, "--config", config, *(others or ("-m", UNIFORM, "--against", "value_per_list"))]


def test_policies_of_one_log_compare_as_in_python(tmp_path: Path) -> None:
    document = from_json("compare", *compare_arguments(tmp_path))
    (comparison,) = document["comparisons"]
    log = Accumulator(UNIFORM, "value_per_list", intervals=Intervals())
    log.update_many(
        event_of(
            row["recommendations"],
            row["interactions"],
            user=row["user"],
            per_item={"propensity": row["p"], "uniform": row["u"]},
        )
        for row in rows()
    )
    alone = compare(log, log, UNIFORM, against="value_per_list")
    fields = "control", "treatment", "low", "high", "lift_low", "lift_high", "p_value", "verdict"
    assert {name: comparison[name] for name in fields} == {
        name: getattr(alone, name) for name in fields
    }
    assert (comparison["metric"], comparison["verdict"]) == (UNIFORM, "better")
    assert document["experiment"]["control"] == "value_per_list"
    assert document["checks"]["trouble"] == []


def test_every_format_says_the_verdict_and_that_it_is_an_estimate(tmp_path: Path) -> None:
    arguments = compare_arguments(tmp_path)
    table = run("compare", *arguments).stdout
    assert "Control is value_per_list of the same lists." in table
    (row,) = from_csv("compare", *arguments)
    assert (row["metric"], row["verdict"]) == (UNIFORM, "better")
    html = run("compare", *arguments, "--format", "html").stdout
    for text in (table, html):
        # A page keeps a number and its sign on one line.
        assert row["text"] in " ".join(text.split())
        assert "An estimate for a policy that was not shown" in " ".join(text.split())


def test_an_estimate_without_support_gets_no_verdict(tmp_path: Path) -> None:
    (row,) = from_json("compare", *compare_arguments(tmp_path, scale=0.7))["comparisons"]
    assert row["verdict"] == "do not trust"
    assert "are never shown, or the logged propensities are too high" in row["sentence"]
    assert row["lift_low"] is None


def test_a_saved_state_compares_like_its_log(tmp_path: Path) -> None:
    arguments = compare_arguments(tmp_path)
    state = write_state(tmp_path / "state", load(tmp_path / "streameval.toml"), [*rows()])
    policies = ("-m", UNIFORM, "--against", "value_per_list")
    saved = from_json("compare", state, *policies)
    assert saved == from_json("compare", *arguments, "--method", "anytime")
    message = usage_error("compare", state, "-m", UNIFORM, "--against", "ips(target=uniform)")
    assert (
        "--against ips(target=uniform): not counted here; there are snips(target=uniform)"
        in message
    )


@pytest.mark.parametrize(
    ("metrics", "why"),
    [
        (("value_per_list", "ctr"), "mean over items, and value_per_list over lists"),
        (("snips", "fallout@1"), "do not have the same better direction"),
    ],
)
def test_python_refuses_metrics_of_other_units_or_directions_too(
    metrics: tuple[str, str], why: str
) -> None:
    log = Accumulator(*metrics, catalog=3, intervals=Intervals())
    with pytest.raises(NotComparableError, match=why):
        compare(log, log, metrics[0], against=metrics[1])


NOTE: Final = "It does not replace an A/B test"


def test_estimates_of_variants_carry_the_note_too(tmp_path: Path) -> None:
    log, config = log_of(tmp_path)
    arms = ("a", "b")
    json_lines(log, (event | {"arm": arms[number % 2]} for number, event in enumerate(rows())))
    arguments = ("compare", log, "--config", config, "--label", "arm", "--control", "a")
    for form in ("table", "json", "html"):
        for metrics in (("-m", UNIFORM, "-m", "value_per_list"), ("-m", "value_per_list")):
            output = run(*arguments, *metrics, "--format", form).stdout
            assert (NOTE in " ".join(output.split())) == (UNIFORM in metrics)
