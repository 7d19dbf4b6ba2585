from __future__ import annotations

import logging
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from streameval.dead_letters.file import DeadLetterFile, line_of, read_letters
from streameval.errors import DeadLetterError
from tests.dead_letters.places import letter


def _write(path: Path, *offsets: int) -> None:
    with closing(DeadLetterFile(str(path))) as file:
        file.write([letter(offset) for offset in offsets])


def _offsets(path: Path) -> list[int]:
    return [found.offset for found in read_letters(str(path))]


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
    modes = [each.stat().st_mode & 0o777 for each in sorted(tmp_path.iterdir())]
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


def test_a_missing_folder_is_an_error_at_once(tmp_path: Path) -> None:
    with pytest.raises(DeadLetterError, match="no such file or directory"):
        DeadLetterFile(str(tmp_path / "nowhere" / "dead.ndjson"))


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
        found = []
        for read in read_letters(str(path)):
            found.append(read.offset)
            file.write([letter(read.offset + 10)])
    assert found == [1, 2]
    assert _offsets(path) == [1, 2, 11, 12]


def test_a_line_that_is_not_a_letter_is_an_error_with_its_number(tmp_path: Path) -> None:
    path = tmp_path / "dead.ndjson"
    path.write_bytes(line_of(letter(1)) + b"{}\n")
    with pytest.raises(
        DeadLetterError, match=r"line 2 is not a dead letter .*topic.*; remove the line"
    ):
        _offsets(path)


def test_flushed_letters_survive_a_kill(tmp_path: Path) -> None:
    path = tmp_path / "dead.ndjson"
    code = (
        "import sys; from streameval.dead_letters.file import DeadLetterFile\n"
        "from tests.dead_letters.places import letter\n"
        "file = DeadLetterFile(sys.argv[1])\n"
        "for offset in range(10**6):\n"
        "    file.write([letter(offset)]); print(offset, flush=True)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        safe = [int(process.stdout.readline()) for _ in range(20)][-1]
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    _write(path, 10**7)
    found = _offsets(path)
    assert found == [*range(len(found) - 1), 10**7]
    assert len(found) > safe
