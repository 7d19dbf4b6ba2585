"""Dead letters in the queue, in a file, and as records and lines."""

from __future__ import annotations

import json
import logging
import os
import resource
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from hypothesis import given

from streameval.checkpoints.letters.file import DeadLetterFile, letter_in, line_of, read_letters
from streameval.checkpoints.letters.queue import CHUNK, Queue
from streameval.checkpoints.letters.topic import HEADERS, headers_of, letter_of
from streameval.cli import dlq
from streameval.config.options import DeadLetterOptions
from streameval.engine.dead_letters import FEWEST, ORIGINAL, WINDOW, DeadLetter
from streameval.events.errors import DeadLetterError
from tests.dead_letters.places import FailingWriter, letter, letters
from tests.house.checkout import ROOT


def _write(path: Path, *offsets: int) -> None:
    with closing(DeadLetterFile(str(path))) as file:
        file.write([letter(offset) for offset in offsets])


def _offsets(path: Path) -> list[int]:
    return [stored.offset for stored in read_letters(str(path))]


@contextmanager
def _no_larger_than(size: int) -> Iterator[None]:
    """Limit the size of this process's files within the block."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("kept", [0, 1, 50])
def test_a_torn_last_line_is_moved_away_and_logged(
    kept: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "dead.ndjson"
    _write(path, 1, 2)
    with path.open("ab") as file:
        file.write(line_of(letter(3))[:kept])
    with caplog.at_level(logging.WARNING):
        _write(path, 4)
    assert _offsets(path) == [1, 2, 4]
    torn = tmp_path / "dead.ndjson.torn"
    assert torn.exists() == (kept > 0)
    if kept:
        assert torn.read_bytes() == line_of(letter(3))[:kept] + b"\n"
        assert "dead.ndjson was incomplete; it is in" in caplog.text


def test_a_new_file_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "dead.ndjson"
    before = os.umask(0)
    try:
        _write(path, 1)
        with path.open("ab") as file:
            file.write(b"{")
        _write(path, 2)
    finally:
        os.umask(before)
    modes = [path_.stat().st_mode & 0o777 for path_ in sorted(tmp_path.iterdir())]
    assert modes == [0o600, 0o600]


def test_the_end_of_a_long_file_is_found(tmp_path: Path) -> None:
    path = tmp_path / "dead.ndjson"
    with closing(DeadLetterFile(str(path))) as file:
        file.write([letter(1), letter(2, value=b"x" * 300_000)])
    with path.open("rb+") as torn:
        torn.truncate(path.stat().st_size - 1)
    _write(path, 3)
    assert _offsets(path) == [1, 3]


def test_a_disk_that_fills_up_within_a_line_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "dead.ndjson"
    with closing(DeadLetterFile(str(path))) as file:
        file.write([letter(1)])
        with (
            _no_larger_than(path.stat().st_size + 300),
            pytest.raises(DeadLetterError, match="file too large; free space or correct"),
        ):
            file.write([letter(2), letter(3)])
        file.write([letter(2), letter(3)])
    assert list(dict.fromkeys(_offsets(path))) == [1, 2, 3]


def test_a_folder_that_is_missing_at_the_start_is_named_without_a_promise(tmp_path: Path) -> None:
    with pytest.raises(DeadLetterError) as refused:
        DeadLetterFile(str(tmp_path / "none" / "dead.ndjson"))
    assert str(refused.value).endswith(
        "no such file or directory; let this user write there, or correct [dead_letters] path."
    )


def test_a_full_disk_is_a_clear_error() -> None:
    with (
        closing(DeadLetterFile("/dev/full")) as file,
        pytest.raises(DeadLetterError, match="dead letters to /dev/full: no space left on device"),
    ):
        file.write([letter(1)])


def test_a_second_writer_of_a_file_is_rejected(tmp_path: Path) -> None:
    path = str(tmp_path / "dead.ndjson")
    with (
        closing(DeadLetterFile(path)),
        pytest.raises(
            DeadLetterError, match="another process writes it; give each process its own"
        ),
    ):
        DeadLetterFile(path)
    DeadLetterFile(path).close()


def test_letters_added_while_a_file_is_read_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "dead.ndjson"
    _write(path, 1, 2)
    with closing(DeadLetterFile(str(path))) as file:
        offsets = []
        for read in read_letters(str(path)):
            offsets.append(read.offset)
            file.write([letter(read.offset + 10)])
    assert offsets == [1, 2]
    assert _offsets(path) == [1, 2, 11, 12]


def test_a_line_that_is_not_a_letter_is_an_error_with_its_number(tmp_path: Path) -> None:
    path = tmp_path / "dead.ndjson"
    path.write_bytes(line_of(letter(1)) + b"{}\n")
    with pytest.raises(
        DeadLetterError, match=r"line 2 is not a dead letter .*topic.*; remove the line"
    ):
        _offsets(path)


def test_the_next_flush_retries_letters_that_failed() -> None:
    paper = FailingWriter()
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
    paper = FailingWriter()
    queue = Queue(paper, max_bytes=5_000)
    for offset in range(4):
        queue.send([letter(offset)])
    assert paper.written == []
    queue.send([letter(4, value=b"x" * 3_000)])
    assert paper.written == [0, 1, 2, 3]
    queue.flush()
    assert paper.written == [0, 1, 2, 3, 4]


def test_a_full_queue_is_not_flushed_by_sending() -> None:
    paper = FailingWriter()
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
    paper = FailingWriter()
    queue = Queue(paper, max_bytes=10)
    queue.send([letter(1), letter(2)])
    queue.flush()
    assert paper.written == [1, 2]


def test_many_letters_are_written_in_chunks() -> None:
    paper = FailingWriter()
    queue = Queue(paper)
    queue.send([letter(offset) for offset in range(2 * CHUNK + 1)])
    paper.fails_after = 2
    with pytest.raises(DeadLetterError):
        queue.flush()
    paper.fails_after = None
    queue.flush()
    assert paper.written == [*range(2 * CHUNK + 1), 2 * CHUNK]


def test_only_letters_that_are_not_durable_are_retried() -> None:
    class Choosy(FailingWriter):
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
    assert queue.written == 2
    paper.fails = False
    queue.flush()
    assert paper.written == [1, 2, 3, 2]
    assert queue.written == 3


PAGE = (ROOT / "docs" / "how-to" / "dead-letters.md").read_text(encoding="utf-8")


@given(letters)
def test_a_letter_is_read_back_from_its_record_whatever_headers_it_had(letter: DeadLetter) -> None:
    assert letter_of(letter.key, letter.value, headers_of(letter)) == letter


@given(letters)
def test_a_letter_is_read_back_from_its_line(letter: DeadLetter) -> None:
    line = line_of(letter)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert letter_in(line) == letter


def test_the_added_headers_are_those_that_are_documented_in_their_order() -> None:
    added = headers_of(letter(headers=(), size=9))
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
    headers = [pair for pair in headers_of(letter()) if pair[0] != missing]
    assert letter_of(b"key", b"value", headers) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [("partition", b"one"), ("offset", b""), ("timestamp", b"\xff"), ("stage", b"elsewhere")],
)
def test_a_record_with_invalid_headers_is_not_a_letter(name: str, value: bytes) -> None:
    headers = dict(headers_of(letter())) | {f"streameval.dlq.{name}": value}
    assert letter_of(b"key", b"value", list(headers.items())) is None


def test_a_line_shows_text_as_text_and_bytes_as_base64() -> None:
    shown = json.loads(line_of(letter(key=None, value=b"\xff{", headers=(("h", "é".encode()),))))
    assert shown["value"] == {"base64": "/3s="}
    assert shown["key"] is None
    assert shown["headers"] == [["h", "é"]]


_BASE64 = line_of(letter(value=b"\xff{"))


@pytest.mark.parametrize(
    "line", [b"", b"{", b"{}", b'{"topic": 1}', b"\xff", _BASE64.replace(b"/3s=", b"/3s!")]
)
def test_a_line_without_a_letter_is_rejected(line: bytes) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        letter_in(line)


def test_the_documented_numbers_are_those_of_the_program() -> None:
    options = DeadLetterOptions()
    assert f"more than {options.max_run:,} invalid records in a row" in PAGE
    share = f"{100 * options.max_ratio:g} %"
    assert f"more than {share} invalid of the last {WINDOW:,} records (at least {FEWEST:,})" in PAGE
    assert dlq.SAMPLES == 3
    assert "the last three records" in " ".join(PAGE.split())
