"""Worlds drawn from a seed, as the command sees them: who fell, who did not, and why."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from tests.changes.events import DAY, FIRST, SLICES, audience, events, slices
from tests.changes.test_command import TIME, report_rows
from tests.cli.program import json_lines, run


@pytest.fixture(scope="module")
def sliced(tmp_path_factory: pytest.TempPathFactory) -> dict[str | None, dict[str, Any]]:
    log = json_lines(tmp_path_factory.mktemp("slices") / "events.ndjson", slices())
    rows = report_rows(log, "-m", "ctr", "--label", "variant", "--rollouts", "model", *TIME)
    return {row["slice"]: row for row in rows}


def test_the_slices_that_fall_are_named_and_no_other(
    sliced: dict[str | None, dict[str, Any]],
) -> None:
    total = sliced[None]
    assert (total["against"], total["until"]) == ("weeks", "2026-02-18")
    others = {name: row for name, row in sliced.items() if name is not None}
    assert [*others] == [*SLICES]
    assert {row["against"] for row in others.values()} == {"others"}
    worse = {name for name, row in others.items() if row["verdict"] == "worse"}
    assert worse == {"decay", "down"}
    since = date.fromisoformat(sliced["down"]["since"])
    assert abs((since - date(2026, 2, 13)).days) <= 1
    assert [rollout["value"] for rollout in sliced["down"]["rollouts"]] == ["m2"]
    assert "m2 began on 13 Feb" in sliced["down"]["text"]
    assert sliced["decay"]["effect"] < -0.15


def test_two_silent_days_are_no_fall_and_their_lists_tell(
    sliced: dict[str | None, dict[str, Any]],
) -> None:
    assert (sliced["silent"]["verdict"], sliced["silent"]["lists_ratio"]) == ("no change seen", 0)
    assert sliced["a"]["lists_ratio"] == pytest.approx(1.0)


def test_an_audience_that_changes_is_loud_raw_and_silent_if_it_is_held_constant(
    tmp_path: Path,
) -> None:
    log = json_lines(tmp_path / "events.ndjson", audience())
    (raw,) = report_rows(log, "-m", "ctr", *TIME)
    (held,) = report_rows(log, "-m", "ctr", "--mix", "country", *TIME)
    assert (raw["verdict"], held["verdict"]) == ("worse", "no change seen")
    assert held["mix"] == pytest.approx(held["raw"] - held["effect"])
    assert held["mix"] < -0.3
    assert abs(held["effect"]) < 0.04
    assert "due to a changed audience" in held["text"]
    assert (
        "due to a changed audience"
        in run("changes", log, "-m", "ctr", "--mix", "country", *TIME).stdout
    )


JOINED = """
metrics = ["ctr"]
intervals = {{}}
event = {{ time = "ts", time_unit = "s" }}
source = {{ type = "files", paths = ["{folder}/lists.ndjson", "{folder}/clicks.ndjson"] }}

[attribution]
impressions = "{folder}/lists.ndjson"
window = "2h"

[[attribution.interactions]]
source = "{folder}/clicks.ndjson"
"""


def test_a_join_at_noon_says_what_the_joined_days_say(tmp_path: Path) -> None:
    noon = FIRST + 35 * DAY + DAY // 2
    rows = sorted((row for row in events() if row["ts"] < noon), key=lambda row: row["ts"])
    lists, clicks = [], []
    for number, row in enumerate(rows):
        shown = {name: row[name] for name in ("ts", "user", "recommendations")}
        lists.append(shown | {"request_id": f"r{number}"})
        # Clicks of the last hour have not come yet.
        if row["interactions"] and row["ts"] < noon - 3_600:
            click = {"request_id": f"r{number}", "item": "x", "ts": row["ts"] + 1_800}
            clicks.append(click | {"type": "click"})
    json_lines(tmp_path / "lists.ndjson", lists)
    json_lines(tmp_path / "clicks.ndjson", clicks)
    config = tmp_path / "streameval.toml"
    config.write_text(JOINED.format(folder=tmp_path))
    full_log = json_lines(tmp_path / "joined.ndjson", rows)
    (joined,) = report_rows("--config", config)
    (alone,) = report_rows(full_log, "-m", "ctr", *TIME)
    assert joined == alone
    assert joined["until"] == "2026-02-04"
    assert json.dumps(joined).count("NaN") == 0
