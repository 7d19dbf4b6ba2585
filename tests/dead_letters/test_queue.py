from __future__ import annotations

from collections.abc import Sequence

import pytest

from streameval.dead_letters.queue import CHUNK, Queue
from streameval.engine.dead_letters import DeadLetter
from streameval.errors import DeadLetterError
from tests.dead_letters.places import Paper, letter


def test_the_next_flush_retries_letters_that_failed() -> None:
    paper = Paper()
    queue = Queue(paper)
    queue.send([letter(1), letter(2)])
    paper.fails = True
    with pytest.raises(DeadLetterError, match="dead letters to paper: it is wet; dry it"):
        queue.flush()
    queue.send([letter(3)])
    paper.fails = False
    queue.flush()
    queue.flush()
    assert paper.written == [1, 2, 1, 2, 3]


def test_sending_writes_nothing_until_the_queue_is_full() -> None:
    paper = Paper()
    queue = Queue(paper, max_bytes=5_000)
    for offset in range(4):
        queue.send([letter(offset)])
    assert paper.written == []
    queue.send([letter(4, value=b"x" * 3_000)])
    assert paper.written == [0, 1, 2, 3]
    queue.flush()
    assert paper.written == [0, 1, 2, 3, 4]


def test_letters_that_cannot_be_written_stay_in_the_queue() -> None:
    paper = Paper()
    queue = Queue(paper, max_bytes=1_500)
    paper.fails = True
    for offset in range(4):
        queue.send([letter(offset)])
    with pytest.raises(DeadLetterError):
        queue.flush()
    paper.fails = False
    paper.written.clear()
    queue.flush()
    assert paper.written == [0, 1, 2, 3]


def test_a_full_queue_is_not_flushed_by_sending() -> None:
    paper = Paper()
    queue = Queue(paper, max_bytes=1_500)
    paper.fails = True
    for offset in range(5):
        queue.send([letter(offset)])
    assert queue.full
    assert paper.written == [0]
    paper.fails = False
    queue.flush()
    assert paper.written == [0, *range(5)]


def test_one_send_larger_than_the_queue_is_accepted() -> None:
    paper = Paper()
    queue = Queue(paper, max_bytes=10)
    queue.send([letter(1), letter(2)])
    queue.flush()
    assert paper.written == [1, 2]


def test_many_letters_are_written_in_chunks() -> None:
    paper = Paper()
    queue = Queue(paper)
    queue.send([letter(offset) for offset in range(2 * CHUNK + 1)])
    paper.fails_after = 2
    with pytest.raises(DeadLetterError):
        queue.flush()
    paper.fails_after = None
    queue.flush()
    assert paper.written == [*range(2 * CHUNK + 1), 2 * CHUNK]


def test_only_letters_that_are_not_durable_are_retried() -> None:
    class Choosy(Paper):
        def write(self, letters: Sequence[DeadLetter]) -> None:
            try:
                super().write(letters)
            except DeadLetterError as error:
                error.durable = frozenset({0, 2})
                raise

    paper = Choosy()
    queue = Queue(paper)
    queue.send([letter(1), letter(2), letter(3)])
    paper.fails = True
    with pytest.raises(DeadLetterError):
        queue.flush()
    paper.fails = False
    queue.flush()
    assert paper.written == [1, 2, 3, 2]
