"""The contract of all destinations of dead letters."""

from __future__ import annotations

from contextlib import closing
from threading import Thread

import pytest

from streameval.checkpoints.letters.queue import dead_letters_of
from streameval.engine.dead_letters import DeadLetter
from streameval.sources.options import FilesOptions
from streameval.testing.broker import Broker
from tests.dead_letters.places import Place, letter, topic_place


@pytest.fixture
def place(broker: Broker) -> Place:
    return topic_place(broker)


def _letters(place: Place, count: int, begin: int = 0) -> list[DeadLetter]:
    return [letter(begin + n, topic=place.topic) for n in range(count)]


def _assert_kept(place: Place, expected: list[DeadLetter]) -> None:
    """Check that each letter was written at least once, in order, and nothing else."""
    assert list(dict.fromkeys(place.kept())) == expected


def test_a_flush_writes_every_letter_unchanged(place: Place) -> None:
    odd = letter(3, topic=place.topic, key=None, value=b"\xff\x00\n", headers=(("h", b"\xff"),) * 2)
    empty = letter(4, topic=place.topic, key=b"", value=b"", headers=())
    with closing(place.new()) as letters:
        letters.send([odd])
        letters.send([empty])
        letters.flush()
        _assert_kept(place, [odd, empty])


def test_letters_of_several_flushes_and_restarts_are_in_order(place: Place) -> None:
    for begin in (0, 4):
        with closing(place.new()) as letters:
            letters.send(_letters(place, 2, begin))
            letters.flush()
            letters.send(_letters(place, 2, begin + 2))
            letters.flush()
    _assert_kept(place, _letters(place, 8))


def test_an_empty_flush_and_a_second_close_do_nothing(place: Place) -> None:
    letters = place.new()
    letters.send([])
    letters.flush()
    letters.close()
    letters.close()


def test_several_threads_may_send_while_others_flush(place: Place) -> None:
    with closing(place.new()) as letters:

        def work(begin: int) -> None:
            for offset in range(begin, begin + 20):
                letters.send([letter(offset, topic=place.topic)])
                if offset % 5 == 0:
                    letters.flush()

        threads = [Thread(target=work, args=(begin,)) for begin in (0, 100, 200)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        letters.flush()
    expected = {*range(20), *range(100, 120), *range(200, 220)}
    assert {letter.offset for letter in place.kept()} == expected


def test_files_without_a_destination_have_no_dead_letters() -> None:
    assert dead_letters_of(FilesOptions(paths=["x"]), {}) is None
