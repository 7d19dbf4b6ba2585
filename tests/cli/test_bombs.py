"""A few bytes that hold gigabytes are refused in a line and in little memory, at every door."""

from __future__ import annotations

import gzip
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import zstandard
from pyarrow import parquet

from streameval import Accumulator, Columns
from streameval.evaluation.partials import stored
from streameval.events.errors import InvalidEventError, SourceError
from streameval.events.rules import LONGEST_LIST
from streameval.sources.files import LONGEST_LINE, lines
from streameval.sources.opening import content, read_all
from tests.cli.program import json_lines, usage_error, write_file
from tests.effort import PATIENCE, sampled
from tests.processes import finished

_FRAME = b" " * (64 << 20)

# A process of this program takes 200 MB before it reads anything.
_WITHIN = f"""
import resource, sys
resource.setrlimit(resource.RLIMIT_DATA, ({900 << 20},) * 2)
from streameval.cli import run_command
run_command()
"""


def refused(*arguments: str | Path) -> str:
    """The one line of a command that ends within 900 MB of memory."""
    done = finished([sys.executable, "-c", _WITHIN, *map(str, arguments)], timeout=PATIENCE)
    assert (done.returncode in (1, 2), done.stdout, done.stderr.count("\n")) == (True, "", 1), done
    return done.stderr


def compressed(path: Path, compress: Callable[[bytes], bytes], head: bytes) -> Path:
    """A file of a gigabyte of spaces after a head, which takes some kilobytes."""
    path.write_bytes(compress(head) + 16 * compress(_FRAME))
    assert path.stat().st_size < 3_000_000
    return path


@pytest.mark.parametrize(
    "form", sampled([("x.zst", zstandard.compress), ("x.gz", gzip.compress)], 2)
)
def test_an_endless_line_is_refused_with_its_number(
    tmp_path: Path, form: tuple[str, Callable[[bytes], bytes]]
) -> None:
    name, compress = form
    record = b'{"recommendations": ["a"], "interactions": ["a"]}\n'
    path = compressed(tmp_path / f"events.ndjson.{name}", compress, record)
    message = refused("evaluate", path, "-m", "ctr")
    assert message == (
        f"streameval: {path}: line 2 is longer than 67,108,864 bytes; write one record per line.\n"
    )


def test_lines_before_an_endless_one_are_delivered(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"a\nb\n" + b" " * (LONGEST_LINE + (1 << 20)))
    read = lines(str(path))
    assert [next(read), next(read)] == [b"a", b"b"]
    with pytest.raises(SourceError, match="line 3 is longer than"):
        next(read)


@pytest.mark.parametrize("compress", sampled([zstandard.compress, gzip.compress], 2))
def test_content_comes_in_steps(tmp_path: Path, compress: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "bomb"
    path.write_bytes(4 * compress(_FRAME))
    sizes = [len(block) for block in content(str(path))]
    assert (sum(sizes), max(sizes) <= 1 << 25) == (4 * len(_FRAME), True)
    with pytest.raises(SourceError, match="it holds more than 1,000,000 bytes"):
        read_all(str(path), 1_000_000)


def test_an_endless_cell_of_csv_is_refused(tmp_path: Path) -> None:
    head = b"recommendations,interactions\na,"
    path = compressed(tmp_path / "events.csv.zst", zstandard.compress, head)
    assert refused("evaluate", path, "-m", "ctr").startswith(f"streameval: {path}: ")


def test_a_list_of_millions_in_a_kilobyte_is_refused_before_it_is_built(tmp_path: Path) -> None:
    count = 20_000_000
    shown = pa.ListArray.from_arrays(
        pa.array([0, count], pa.int32()), pa.array(np.zeros(count, np.int64))
    )
    path = tmp_path / "events.parquet"
    table = pa.table({"recommendations": shown, "interactions": pa.array([[1]])})
    parquet.write_table(table, path, compression="zstd")
    assert path.stat().st_size < 2_000
    assert usage_error("evaluate", path, "-m", "ctr") == (
        f"streameval: {path}: column 'recommendations' has lists of 20,000,000 items, more than "
        "1,000,000; cut them before they are written.\n"
    )


def test_long_lists_of_parquet_are_read_some_at_a_time(tmp_path: Path) -> None:
    """60 million ids in one row group, which take 200 KB."""
    codes = pa.array(np.tile(np.arange(1_000, dtype=np.int32), 60_000))
    ids = pa.DictionaryArray.from_arrays(codes, pa.array([f"item{code}" for code in range(1_000)]))
    lists = pa.ListArray.from_arrays(pa.array(np.arange(0, 60_000_001, 1_000, dtype=np.int32)), ids)
    table = pa.table({"recommendations": lists, "interactions": [["item1"]] * 60_000})
    parquet.write_table(table, tmp_path / "events.parquet", compression="zstd")
    arguments = ("evaluate", str(tmp_path / "events.parquet"), "-m", "mrr", "--format", "csv")
    done = finished([sys.executable, "-c", _WITHIN, *arguments], timeout=PATIENCE)
    assert done.stdout.splitlines()[1] == "mrr,0.5,60000", done.stderr


def test_a_huge_cell_of_parquet_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "events.parquet"
    table = pa.table({"recommendations": [" " * (65 << 20)], "interactions": ["a"]})
    parquet.write_table(table, path, compression="zstd")
    assert path.stat().st_size < 20_000
    assert "has cells of more than 67,108,864 bytes" in usage_error("evaluate", path, "-m", "ctr")


def test_a_list_of_a_frame_has_the_same_limit() -> None:
    """Of one row in many, so that the mean length tells nothing."""
    offsets = np.array([0, 1, LONGEST_LIST + 2])
    shown = pa.ListArray.from_arrays(
        pa.array(offsets, pa.int32()), pa.array(np.zeros(offsets[-1], np.int64))
    )
    clicked = pa.array([[1], [1]])
    accumulator = Accumulator("ctr", ids="integer")
    for columns, name in (
        (Columns(recommendations=shown, interactions=clicked), "recommendations"),
        (Columns(recommendations=clicked, interactions=shown), "interactions"),
    ):
        with pytest.raises(InvalidEventError, match=rf"{name}\[1\] has 1,000,001 items") as raised:
            accumulator.update_many(columns)
        assert raised.value.reason == f"too_many_{name}"
    assert accumulator.lists == 0


def test_rows_of_one_user_are_a_list_of_the_same_limit(tmp_path: Path) -> None:
    user = pa.array(np.zeros(LONGEST_LIST + 1, np.int64))
    parquet.write_table(pa.table({"user": user, "item": user}), tmp_path / "shown.parquet")
    parquet.write_table(pa.table({"user": [0], "item": [0]}), tmp_path / "truth.parquet")
    message = usage_error(
        "evaluate",
        *("--recommendations", tmp_path / "shown.parquet"),
        *("--truth", tmp_path / "truth.parquet", "-m", "ctr"),
    )
    assert "recommendations[0] has 1,000,001 items, more than 1,000,000" in message


def test_a_row_of_partials_is_no_bomb(tmp_path: Path) -> None:
    count = 20_000_000
    labels = pa.ListArray.from_arrays(
        pa.array([0, count], pa.int32()),
        pa.DictionaryArray.from_arrays(np.zeros(count, np.int32), ["a"]).cast(pa.string()),
    )
    path = tmp_path / "rows.parquet"
    table = pa.table({"labels": labels, "start": [0], "lists": [1], "state": [b""]})
    parquet.write_table(table, path)
    with pytest.raises(SourceError, match="column 'labels' has lists of 20,000,000 items"):
        list(stored(path))


def test_a_huge_field_of_popularity_is_refused_with_its_line(tmp_path: Path) -> None:
    log = json_lines(tmp_path / "log.ndjson", [{"recommendations": ["a"], "interactions": []}])
    counts = write_file(tmp_path / "popularity.csv", "a,1\n" + '"' + "b" * 200_000 + '",2\n')
    config = write_file(
        tmp_path / "streameval.toml",
        f'metrics = ["novelty"]\npopularity = {{ path = "{counts}" }}\n',
    )
    message = usage_error("evaluate", log, "--config", config)
    assert f"{counts}:2: field larger than field limit (131072); correct the line." in message
