"""Dead letters in the queue, and as records."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given

from streameval.checkpoints.dead_letters.queue import CHUNK, Queue
from streameval.checkpoints.dead_letters.topic import HEADERS, dead_letter_of, headers_of
from streameval.cli import dlq
from streameval.config.tables import DeadLetterOptions
from streameval.engine.dead_letters import FEWEST_IN_WINDOW, ORIGINAL, WINDOW, DeadLetter
from streameval.events.errors import DeadLetterError
from tests.dead_letters.samples import FailingWriter, dead_letter_strategy, make_dead_letter
from tests.house.checkout import ROOT


def test_the_next_flush_retries_letters_that_failed() -> None:
    paper = FailingWriter()
    queue = Queue(paper)
    queue.send([make_dead_letter(1), make_dead_letter(2)])
    paper.fails = True
    with pytest.raises(DeadLetterError, match="paper: it is wet; dry it"):
        queue.flush()
    queue.send([make_dead_letter(3)])
    paper.fails = False
    queue.flush()
    queue.flush()
    assert paper.written == [1, 2, 1, 2, 3]


def test_sending_writes_nothing_until_the_queue_is_full() -> None:
    paper = FailingWriter()
    queue = Queue(paper, max_bytes=5_000)
    for offset in range(4):
        queue.send([make_dead_letter(offset)])
    assert paper.written == []
    queue.send([make_dead_letter(4, value=b"x" * 3_000)])
    assert paper.written == [0, 1, 2, 3]
    queue.flush()
    assert paper.written == [0, 1, 2, 3, 4]


def test_a_full_queue_is_not_flushed_by_sending() -> None:
    paper = FailingWriter()
    queue = Queue(paper, max_bytes=1_500)
    paper.fails = True
    for offset in range(5):
        queue.send([make_dead_letter(offset)])
    assert queue.full
    assert paper.written == [0]
    paper.fails = False
    queue.flush()
    assert paper.written == [0, *range(5)]


def test_one_send_larger_than_the_queue_is_accepted() -> None:
    paper = FailingWriter()
    queue = Queue(paper, max_bytes=10)
    queue.send([make_dead_letter(1), make_dead_letter(2)])
    queue.flush()
    assert paper.written == [1, 2]


def test_many_letters_are_written_in_chunks() -> None:
    paper = FailingWriter()
    queue = Queue(paper)
    queue.send([make_dead_letter(offset) for offset in range(2 * CHUNK + 1)])
    paper.fails_after = 2
    with pytest.raises(DeadLetterError):
        queue.flush()
    paper.fails_after = None
    queue.flush()
    assert paper.written == [*range(2 * CHUNK + 1), 2 * CHUNK]


def test_only_letters_that_are_not_durable_are_retried() -> None:
    class Choosy(FailingWriter):
        def write(self, dead_letters: Sequence[DeadLetter]) -> None:
            try:
                super().write(dead_letters)
            except DeadLetterError as error:
                error.durable = frozenset({0, 2})
                raise

    paper = Choosy()
    queue = Queue(paper)
    queue.send([make_dead_letter(1), make_dead_letter(2), make_dead_letter(3)])
    paper.fails = True
    with pytest.raises(DeadLetterError):
        queue.flush()
    assert queue.durable_count == 2
    paper.fails = False
    queue.flush()
    assert paper.written == [1, 2, 3, 2]
    assert queue.durable_count == 3


PAGE = (ROOT / "docs" / "how-to" / "dead-letters.md").read_text(encoding="utf-8")


@given(dead_letter_strategy)
def test_a_letter_is_read_back_from_its_record_whatever_headers_it_had(
    dead_letter: DeadLetter,
) -> None:
    assert (
        dead_letter_of(dead_letter.key, dead_letter.value, headers_of(dead_letter)) == dead_letter
    )


def test_the_added_headers_are_those_that_are_documented_in_their_order() -> None:
    added = headers_of(make_dead_letter(headers=(), size=9))
    rows = [line for line in PAGE.splitlines() if line.startswith("| `streameval.dlq.")]
    assert rows == [f"| `{name}` | {text} |" for name, text in HEADERS.items()]
    assert f"`{ORIGINAL}`" in PAGE
    assert [name for name, _ in added] == list(HEADERS)
    assert dict(added) == {
        "streameval.dlq.topic": b"events",
        "streameval.dlq.partition": b"0",
        "streameval.dlq.offset": b"14",
        "streameval.dlq.timestamp": b"1700000000014",
        "streameval.dlq.size": b"9",
        "streameval.dlq.stage": b"decode",
        "streameval.dlq.reason": b"not_json",
        "streameval.dlq.message": b"found 14 at the beginning",
    }


@pytest.mark.parametrize(
    "missing", [name for name in HEADERS if not name.endswith(("timestamp", "size"))]
)
def test_a_record_without_the_headers_is_not_a_letter(missing: str) -> None:
    headers = [pair for pair in headers_of(make_dead_letter()) if pair[0] != missing]
    assert dead_letter_of(b"key", b"value", headers) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [("partition", b"one"), ("offset", b""), ("timestamp", b"\xff"), ("stage", b"elsewhere")],
)
def test_a_record_with_invalid_headers_is_not_a_letter(name: str, value: bytes) -> None:
    headers = dict(headers_of(make_dead_letter())) | {f"streameval.dlq.{name}": value}
    assert dead_letter_of(b"key", b"value", list(headers.items())) is None


def test_the_documented_numbers_are_those_of_the_program() -> None:
    options = DeadLetterOptions()
    assert f"more than {options.max_run:,} invalid records in a row" in PAGE
    share = f"{100 * options.max_ratio:g} %"
    among = f"of the last {WINDOW:,} records (at least {FEWEST_IN_WINDOW:,})"
    assert f"more than {share} invalid {among}" in PAGE
    assert dlq.SAMPLES == 3
    assert "the last three records" in " ".join(PAGE.split())
