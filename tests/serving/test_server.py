"""What a reader's server logs and warns of, look by look."""

from __future__ import annotations

import logging
from collections.abc import Iterator, KeysView
from typing import Any

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
    messages = [record.fields["advice"] for record in caplog.records]  # type: ignore[attr-defined]  # given by `extra`
    assert messages == ["0.round is not known", "events[1]", "ever", "events[0]"]


def test_what_another_thread_observes_meanwhile_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Advice about the source comes from the loop, that about values from the reading thread."""
    ever, others = Onsets("advice", once=True), list[int]()

    class Meanwhile(dict[str, Any]):
        """Whenever they are looked at, another thread observes something new."""

        def __iter__(self) -> Iterator[str]:
            self._other()
            return super().__iter__()

        def keys(self) -> KeysView[str]:  # type: ignore[override]  # a view of them
            self._other()
            return super().keys()

        def _other(self) -> None:
            others.append(len(others))
            ever.observe({others[-1]: {"advice": others[-1]}})

    with caplog.at_level(logging.WARNING):
        ever.observe(Meanwhile(source={"advice": "source"}))
        ever.observe({other: {"advice": other} for other in others})
        ever.observe({"source": {"advice": "source"}})
    told = [record.fields["advice"] for record in caplog.records]  # type: ignore[attr-defined]  # given by `extra`
    assert told == [0, "source", *others[1:]]


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
