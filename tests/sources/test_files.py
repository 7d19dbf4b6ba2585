"""Files: compression, damage, blank lines, many files."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple, TypeAlias

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from streameval.events.errors import SourceError
from streameval.events.records import Partition, RecordBatch
from streameval.sources import files
from streameval.sources.files import FilesSource, NdjsonFile, lines
from streameval.sources.settings import FilesOptions
from streameval.sources.source import Positions
from tests.effort import many_examples

Compress: TypeAlias = Callable[[bytes], bytes]

_LINES = [b'{"user":"u%d"}' % number for number in range(30_000)]
_TEXT = b"\n".join(_LINES) + b"\n"


def _written(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    return str(path)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (_TEXT, _LINES),
        (gzip.compress(_TEXT), _LINES),
        (zstandard.compress(_TEXT), _LINES),
        # Zeros after a member are padding.
        (gzip.compress(b"a\n") + bytes(600_000) + gzip.compress(b"b\n") + bytes(3), [b"a", b"b"]),
        (b'{"a":1}\n{"b":', [b'{"a":1}', b'{"b":']),
        (b"\n a\r\n \t\n\nb\n\n", [b" a\r", b"b"]),
        (b"", []),
        (b"\n", []),
        (b"a", [b"a"]),
        (b"\x1f\n", [b"\x1f"]),
        (b"a\n" + b"x" * 3_000_000 + b"\nb", [b"a", b"x" * 3_000_000, b"b"]),
    ],
    ids=[
        *("plain", "gzip", "zstd", "padded", "unterminated", "blank lines", "empty", "newline"),
        *("a byte", "half a magic number", "long line"),
    ],
)
def test_a_file_has_these_lines(tmp_path: Path, content: bytes, expected: list[bytes]) -> None:
    assert list(lines(_written(tmp_path / "events", content))) == expected


_PIECES = ["a", '{"b": 1}', "\r", " ", "\t\v\f", "\0", "\x1c", "é", "\ufeff", *["\n"] * 4]
_FORMS: st.SearchStrategy[Compress] = st.sampled_from([bytes, gzip.compress])


@many_examples()
@given(st.lists(st.sampled_from(_PIECES)), st.integers(1, 9), _FORMS, st.integers(0, 1))
def test_cut_anywhere_a_file_has_the_lines_of_its_text(
    pieces: list[str], block: int, compress: Compress, start: int
) -> None:
    content = "".join(pieces).encode()
    expected = content.removesuffix(b"\n").split(b"\n") if content else []
    expected[:1] = [line.removeprefix(b"\xef\xbb\xbf") for line in expected[:1]]
    start = min(start, len(expected))
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "_BLOCK", block)
        path = _written(Path(folder) / "events", compress(content))
        log = Partition(path, 0)
        with _opened(path, start={log: start}) as source:
            batches = list[RecordBatch]()
            while not source.status.finished:
                batches += source.poll(0.1)
            assert source.status.ends == {log: len(expected)}
    read = [pair for batch in batches for pair in zip(batch.offsets, batch.values, strict=True)]
    assert read == [pair for pair in enumerate(expected) if pair[0] >= start and pair[1].strip()]
    assert not batches or batches[-1].next_offset == len(expected)


@pytest.mark.parametrize(("before", "unfinished"), [(b"", 0), (b"\n", 10), (b'{"a":1}\n', 10)])
def test_only_the_first_bytes_of_a_growing_file_are_a_byte_order_mark(
    tmp_path: Path, before: bytes, unfinished: int
) -> None:
    path = _written(tmp_path / "events", before + b'\xef\xbb\xbf{"b":2}')
    with closing(NdjsonFile(path, grows=True)) as file:
        while not file.finished:
            file.read()
    assert file.unfinished == unfinished


class Form(NamedTuple):
    """A compression: the name of its files, and the name in errors."""

    name: str
    compress: Compress
    kind: str


every_form = pytest.mark.parametrize(
    "form",
    [Form("events.gz", gzip.compress, "gzip"), Form("events.zst", zstandard.compress, "zstd")],
    ids=lambda form: form.kind,
)


@every_form
def test_members_are_joined_at_any_block_boundary(tmp_path: Path, form: Form) -> None:
    members = b"".join(form.compress(_TEXT[at : at + 9_999]) for at in range(0, len(_TEXT), 9_999))
    assert list(lines(_written(tmp_path / form.name, members))) == _LINES


@every_form
@pytest.mark.parametrize("missing", [1, 4, 1000])
def test_a_truncated_file_is_an_error_after_its_whole_lines(
    tmp_path: Path, form: Form, missing: int
) -> None:
    path = _written(tmp_path / form.name, form.compress(_TEXT)[:-missing])
    records: list[bytes] = []
    with pytest.raises(SourceError) as caught:
        records.extend(lines(path))
    assert records == _LINES[: len(records)]
    assert caught.value.where == path
    assert caught.value.problem == f"its {form.kind} data is truncated"
    assert caught.value.remedy == "wait until it is fully written"


@every_form
def test_damage_inside_a_file_is_an_error(tmp_path: Path, form: Form) -> None:
    content = bytearray(form.compress(os.urandom(200_000)))
    content[100_000:100_050] = bytes(50)
    content[8:20] = b"\xff" * 12
    with pytest.raises(SourceError, match=r"data is damaged \(.*\); copy or write"):
        list(lines(_written(tmp_path / form.name, bytes(content))))


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("events.ndjson", bz2.compress(_TEXT), "it is bzip2 data"),
        ("events.ndjson", lzma.compress(_TEXT), "it is xz data"),
        ("events.gz", b"", "it is not gzip data"),
        ("events.gz", b'{"user":"u"}\n', "it is not gzip data"),
        ("events.zst", b"", "it is not zstd data"),
        ("events.zst", b'{"user":"u"}\n', "it is not zstd data"),
    ],
)
def test_what_a_file_holds_instead_is_named(
    tmp_path: Path, name: str, content: bytes, problem: str
) -> None:
    with pytest.raises(SourceError) as caught:
        list(lines(_written(tmp_path / name, content)))
    assert caught.value.problem == problem


def test_what_follows_a_member_must_be_a_member(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="its gzip data is damaged"):
        list(lines(_written(tmp_path / "events.gz", gzip.compress(b"a\n") + b"b\n")))


@contextmanager
def _opened(*paths: str, start: Mapping[Partition, int] | None = None) -> Iterator[FilesSource]:
    with closing(FilesSource(FilesOptions(paths=list(paths)))) as source:
        source.open(Positions(start))
        yield source


def _values(source: FilesSource) -> list[bytes | None]:
    values: list[bytes | None] = []
    while not source.status.finished:
        values += [value for batch in source.poll(0.1) for value in batch.values]
    return values


def test_a_missing_file_is_found_before_anything_is_read(tmp_path: Path) -> None:
    present, absent = _written(tmp_path / "present", b"a\n"), str(tmp_path / "absent")
    with pytest.raises(SourceError) as caught, _opened(present, absent):
        pass
    sentence = "no such file or directory; check the path and its permissions."
    assert str(caught.value) == f"{absent}: {sentence}"


def test_a_folder_is_rejected_with_a_remedy(tmp_path: Path) -> None:
    message = rf"is a directory; name the files in it, for example {tmp_path}/\*.ndjson\.$"
    with pytest.raises(SourceError, match=message), _opened(f"{tmp_path}/"):
        pass


def test_a_file_given_twice_is_rejected(tmp_path: Path) -> None:
    path = _written(tmp_path / "events", b"a\n")
    with pytest.raises(SourceError, match="given twice"), _opened(path, path):
        pass


def test_a_file_shorter_than_its_position_is_rejected(tmp_path: Path) -> None:
    path = _written(tmp_path / "events", b"a\nb\n")
    with (
        _opened(path, start={Partition(path, 0): 3}) as source,
        pytest.raises(SourceError, match="has only 2 lines, but 3 were read before"),
    ):
        _values(source)


def test_damage_is_an_error_at_every_read(tmp_path: Path) -> None:
    path = _written(tmp_path / "events.gz", gzip.compress(_TEXT)[:-1])
    with _opened(path) as source:
        for _ in range(2):
            with pytest.raises(SourceError, match="is truncated"):
                _values(source)
        assert not source.status.finished


def test_progress_counts_stored_bytes(tmp_path: Path) -> None:
    compressed = gzip.compress(_TEXT)
    paths = [_written(tmp_path / "a.gz", compressed), _written(tmp_path / "b", b"a\n")]
    with _opened(*paths) as source:
        assert source.bytes_read == 0
        _values(source)
        assert source.bytes_read == len(compressed) + 2


def test_a_silent_pipe_does_not_block_other_files(tmp_path: Path) -> None:
    pipe, path = tmp_path / "pipe", _written(tmp_path / "events", b"a\n")
    os.mkfifo(pipe)
    silent = os.open(pipe, os.O_RDWR)
    with _opened(str(pipe), path) as source:
        batches = list(source.poll(5)) + list(source.poll(0))
        assert [[*batch.values] for batch in batches] == [[b"a"]]
        assert not source.status.finished
    os.close(silent)


def test_a_big_file_comes_in_many_batches(tmp_path: Path) -> None:
    path = _written(tmp_path / "events", _TEXT)
    with _opened(path) as source:
        batch = source.poll(0.1)[0]
    assert 1000 < len(batch.values) < 50_000
    assert source.name == path


def test_a_named_pipe_is_read_as_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(gzip.compress(b"a\nb\n"),))
    writer.start()
    with _opened(str(path)) as source:
        records = _values(source)
    writer.join()
    assert records == [b"a", b"b"]


_READER = """
import sys
from streameval.sources.files import FilesSource
from streameval.sources.settings import FilesOptions
from streameval.sources.source import Positions

source = FilesSource(FilesOptions(paths=["-"]))
source.open(Positions())
while not source.status.finished:
    batches = source.poll(0.05)
    if not batches:
        print("nothing", flush=True)
    for batch in batches:
        print(batch.partition, list(batch.offsets), list(batch.values), flush=True)
print("ends", dict(source.status.ends), source.bytes_read, flush=True)
source.close()
source.close()
"""


@pytest.fixture
def reader() -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", _READER], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )


def _answer(reader: subprocess.Popen[bytes]) -> str:
    """The next line of the reader about a batch."""
    assert reader.stdout is not None
    return next(line for line in reader.stdout if line != b"nothing\n").decode().strip()


def test_lines_are_delivered_while_the_pipe_is_open(reader: subprocess.Popen[bytes]) -> None:
    with reader:
        assert reader.stdin is not None
        assert reader.stdout is not None
        assert reader.stdout.readline() == b"nothing\n"
        reader.stdin.write(b"first\nsec")
        reader.stdin.flush()
        assert _answer(reader) == "-[0] [0] [b'first']"
        assert reader.stdout.readline() == b"nothing\n"
        reader.stdin.write(b"ond\n\nthird")
        reader.stdin.flush()
        assert _answer(reader) == "-[0] [1] [b'second']"
        reader.stdin.close()
        assert _answer(reader) == "-[0] [3] [b'third']"
        assert _answer(reader) == "ends {Partition(topic='-', number=0): 4} 19"
    assert reader.returncode == 0


def test_a_compressed_stream_may_arrive_byte_by_byte(reader: subprocess.Popen[bytes]) -> None:
    with reader:
        assert reader.stdin is not None
        for byte in gzip.compress(b"first\n"):
            reader.stdin.write(bytes([byte]))
            reader.stdin.flush()
        reader.stdin.close()
        assert _answer(reader) == "-[0] [0] [b'first']"
        assert _answer(reader).startswith("ends")
    assert reader.returncode == 0
