"""Simulated events on standard output."""

from __future__ import annotations

import json

from tests.cli.program import ran


def test_equal_seeds_give_equal_bytes() -> None:
    first = ran("simulate", "--events", "1500", "--seed", "3")
    assert ran("simulate", "--events", "1500", "--seed", "3").stdout == first.stdout
    assert ran("simulate", "--events", "1500", "--seed", "4").stdout != first.stdout
    assert first.stderr == ""


def test_every_line_is_an_event() -> None:
    records = [json.loads(line) for line in ran("simulate", "--events", "50").stdout.splitlines()]
    assert len(records) == 50
    assert {record["variant"] for record in records} == {"control", "treatment"}
    assert all(len(record["recommendations"]) == 20 for record in records)
