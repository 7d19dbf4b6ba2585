"""What a reader's server logs and warns of, look by look."""

from __future__ import annotations

import logging

import pytest

from streameval.daemon.log import Onsets
from streameval.daemon.serving import LongWaits
from streameval.engine.snapshot import StoredPartition


def _stored(number: int = 0, **changed: float | str | None) -> StoredPartition:
    return StoredPartition(topic="events", partition=number, **changed)  # type: ignore[arg-type]  # fields


def test_a_problem_is_logged_when_it_begins_whatever_its_sentence_names_later(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The file of a checkpoint that a newer release writes has another name in each round."""
    problems, ever = Onsets("advice"), Onsets("advice", once=True)
    with caplog.at_level(logging.WARNING):
        for number in range(20):
            problems.observe({"events[0]": {"advice": f"{number}.round is not known"}})
        problems.observe({})
        for log in ("events[1]", "events[0]"):
            problems.observe({log: {"advice": log}})
            ever.observe({"log": {"advice": "ever"}})
    told = [record.fields["advice"] for record in caplog.records]  # type: ignore[attr-defined]  # given by `extra`
    assert told == ["0.round is not known", "events[1]", "ever", "events[0]"]


def test_the_first_record_after_a_quiet_hour_has_not_waited_for_long() -> None:
    now = 0.0
    waits = LongWaits(100.0, lambda: now)
    quiet = _stored(offset=5, written_at=-3_600.0, lag=0)
    assert not waits.any_in([quiet])
    behind = _stored(offset=5, written_at=-3_600.0, lag=1)
    assert not waits.any_in([behind])
    now = 99.0
    assert not waits.any_in([behind])
    now = 100.0
    assert waits.any_in([behind])
    assert not waits.any_in([_stored(offset=6, written_at=99.0, lag=1)])
