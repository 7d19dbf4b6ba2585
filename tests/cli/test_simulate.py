"""Simulated events on standard output."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from tests.cli.program import ran


def test_equal_seeds_give_equal_bytes() -> None:
    first = ran("simulate", "--events", "1500", "--seed", "3")
    assert ran("simulate", "--events", "1500", "--seed", "3").stdout == first.stdout
    assert ran("simulate", "--events", "1500", "--seed", "4").stdout != first.stdout
    assert first.stderr == ""


def test_every_line_is_an_event() -> None:
    records = [json.loads(line) for line in ran("simulate", "--events", "50").stdout.splitlines()]
    assert len(records) == 50
    assert {record["variant"] for record in records} == {"control", "placebo", "treatment"}
    assert all(len(record["recommendations"]) == 20 for record in records)


def test_live_events_are_those_of_the_same_seed_and_happen_now() -> None:
    before = datetime.now(UTC)
    options = ("--events", "50", "--seed", "3")
    live = ran("simulate", *options, "--events-per-second", "1000000").stdout.splitlines()
    known = ran("simulate", *options).stdout.splitlines()
    times = [datetime.fromisoformat(json.loads(line)["ts"]) for line in live]
    assert times == sorted(times)
    assert before <= times[0] <= times[-1] <= datetime.now(UTC)
    assert [{**json.loads(line), "ts": ""} for line in live] == [
        {**json.loads(line), "ts": ""} for line in known
    ]


def test_without_a_number_there_are_a_thousand() -> None:
    assert ran("simulate").stdout.count("\n") == 1000
