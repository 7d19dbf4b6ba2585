"""Standard input as a live stream, through a real pipe into a real process."""

from __future__ import annotations

import gzip
import subprocess
import sys

import pytest

_READER = """
import sys
from streameval.sources.files import FilesSource
from streameval.sources.options import FilesOptions
from streameval.sources.source import Positions

source = FilesSource(FilesOptions(paths=["-"]))
source.open(Positions())
while not source.finished:
    batches = source.poll(0.05)
    if not batches:
        print("nothing", flush=True)
    for batch in batches:
        print(batch.partition, list(batch.offsets), list(batch.values), flush=True)
print("ends", dict(source.end_offsets()), source.bytes_read, source.bytes_total, flush=True)
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
        assert _answer(reader) == "ends {Partition(topic='-', number=0): 4} 19 None"
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
