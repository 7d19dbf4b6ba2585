"""`streameval compare` on files of recommendations with one truth."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from streameval import Accumulator, Intervals
from streameval import compare as compare_accumulators
from tests.cli.program import from_json, run, usage_error
from tests.strategies import event_of

METRICS = ("ndcg@3", "recbole:map@3")
_ASKED = [part for text in METRICS for part in ("-m", text)]

Lists = Mapping[str, Sequence[str]]


def drawn(seed: int, quality: float, users: int = 900) -> dict[str, list[str]]:
    """Lists of a model that puts the user's item among the first with some probability."""
    draw = random.Random(seed)
    ranked_lists = {}
    for user in range(users):
        items = draw.sample([f"i{n}" for n in range(20)], 4)
        relevant = f"w{user % 7}"
        ranked_lists[f"u{user}"] = [relevant, *items[:3]] if draw.random() < quality else items
    return ranked_lists


def model_file(path: Path, lists: Lists) -> Path:
    rows = (
        f"{user},{item},{-at}" for user, items in lists.items() for at, item in enumerate(items)
    )
    path.write_text("\n".join(["user,item,score", *rows]) + "\n")
    return path


@pytest.fixture
def truth(tmp_path: Path) -> Path:
    rows = "".join(f"u{user},w{user % 7}\n" for user in range(900))
    (tmp_path / "truth.csv").write_text(f"user,item\n{rows}")
    return tmp_path / "truth.csv"


@pytest.fixture
def old(tmp_path: Path) -> Path:
    return model_file(tmp_path / "old.csv", drawn(1, 0.3))


@pytest.fixture
def new(tmp_path: Path) -> Path:
    return model_file(tmp_path / "new.csv", drawn(2, 0.5))


def arguments(truth: Path, *models: str | Path) -> list[str | Path]:
    given: list[str | Path] = ["--truth", truth]
    for model in models:
        given += ["--recommendations", model]
    return given


def compared(*arguments: str | Path) -> dict[str, Any]:
    comparison: dict[str, Any] = from_json("compare", *arguments, *_ASKED)
    return comparison


def compare_error(*given: str | Path) -> str:
    return usage_error("compare", *given, "-m", "ndcg@3")


def test_two_models_are_compared_as_accumulators_of_the_same_users(
    old: Path, new: Path, truth: Path
) -> None:
    report = compared(*arguments(truth, old, new))
    assert report["experiment"]["control"] == "old"
    assert report["experiment"]["same_users"]
    assert report["checks"]["trouble"] == []
    models = {}
    for name, lists in (("old", drawn(1, 0.3)), ("new", drawn(2, 0.5))):
        models[name] = Accumulator(*METRICS, intervals=Intervals())
        models[name].update_many(
            event_of(items, [f"w{int(user[1:]) % 7}"], user=user) for user, items in lists.items()
        )
    rows = {row["metric"]: row for row in report["comparisons"] if row["metric"] in METRICS}
    assert set(rows) == set(METRICS)
    for text, row in rows.items():
        expected = compare_accumulators(models["old"], models["new"], text)
        assert (row["variant"], row["verdict"]) == ("new", "better")
        assert row["difference"] == pytest.approx(expected.difference, rel=1e-12)


def test_each_user_is_compared_with_themselves(tmp_path: Path, truth: Path) -> None:
    """A small gain over a noisy model shows if users are paired, and not if they are not."""
    first = drawn(1, 0.5)
    better = {
        u: [f"w{int(u[1:]) % 7}", *ranked[:3]] if int(u[1:]) % 20 == 3 else ranked
        for u, ranked in first.items()
    }
    paths = [
        model_file(tmp_path / f"{n}.csv", ranked) for n, ranked in (("a", first), ("b", better))
    ]
    (row, *_) = compared(*arguments(truth, *paths))["comparisons"]
    assert row["verdict"] == "better"
    events = tmp_path / "events.ndjson"
    lines = [
        {
            "user": f"{variant}{user}",
            "variant": variant,
            "recommendations": ranked,
            "interactions": [f"w{int(user[1:]) % 7}"],
        }
        for variant, lists in (("control", first), ("b", better))
        for user, ranked in lists.items()
    ]
    events.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert compared(events)["comparisons"][0]["verdict"] != "better"


def test_models_may_be_named_and_the_control_chosen(old: Path, new: Path, truth: Path) -> None:
    named = arguments(truth, f"first={old}", f"second={new}", new)
    report = compared(*named, "--control", "second")
    assert report["experiment"]["control"] == "second"
    assert {row["variant"] for row in report["comparisons"]} == {"first", "new"}
    assert "Did you mean 'second'?" in compare_error(*named, "--control", "secnd")


def test_doubts_name_the_model(tmp_path: Path, old: Path, truth: Path) -> None:
    fewer = model_file(tmp_path / "fewer.csv", drawn(2, 0.5, users=600))
    done = run("compare", *arguments(truth, old, fewer), *_ASKED)
    assert "fewer: users in both files: 600; without recommendations: 300" in done.stderr
    assert "old: " not in done.stderr
