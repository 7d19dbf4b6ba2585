"""Evaluating objects of a real S3 server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import BytesIO

import obstore
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streameval import evaluate
from streameval.events.errors import SourceError
from streameval.sources import remote
from streameval.sources.opening import content, expand
from tests.cli.program import printed, run
from tests.stores import s3

EVENTS = [{"recommendations": [1, 2, 3], "interactions": [2]}] * 40
KEYS = ("day=1/a b#1.parquet", "day=2/b.parquet", "lines/c.ndjson", "lines/_SUCCESS")


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A folder with parquet and JSON lines in a bucket; the environment says where that is."""
    endpoint, folder = f"http://127.0.0.1:{s3.server()}", s3.new_path()
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    remote.store.cache_clear()
    lines = "".join(f"{json.dumps(event)}\n" for event in EVENTS).encode()
    table = BytesIO()
    pq.write_table(pa.Table.from_pylist(EVENTS), table, row_group_size=15)
    bucket = f"s3://{s3.BUCKET}"
    for key in KEYS:
        content = table.getvalue() if key.endswith("parquet") else lines
        obstore.put(remote.store(bucket), f"{folder.removeprefix(bucket + '/')}/{key}", content)
    yield folder
    remote.store.cache_clear()


def test_folders_and_patterns_of_objects_are_expanded(bucket: str) -> None:
    assert expand(f"{bucket}/lines/", lambda _: True) == [f"{bucket}/lines/c.ndjson"]
    wanted = [f"{bucket}/{key}" for key in KEYS[:2]]
    assert expand(f"{bucket}/day=*/*.parquet", lambda _: True) == wanted
    assert expand(f"{bucket}/**/?.parquet", lambda _: True) == wanted[1:]
    assert expand(f"{bucket}/**/*.parquet", lambda _: True) == wanted
    with pytest.raises(SourceError, match="no file of events in this folder"):
        expand(f"{bucket}/none/", lambda _: True)


@pytest.mark.parametrize(
    ("path", "lists", "processes"), [("day=?/*.parquet", 80, "2"), ("lines/", 40, "1")]
)
def test_objects_are_evaluated_as_files_are(
    bucket: str, path: str, lists: int, processes: str
) -> None:
    arguments = ["-m", "mrr", "--format", "json", "--processes", processes]
    (reading,) = json.loads(printed("evaluate", f"{bucket}/{path}", *arguments))
    assert (reading["value"], reading["count"]) == (0.5, lists)


def test_one_call_in_python_reads_objects_as_files(bucket: str) -> None:
    for path, lists in (("day=?/*.parquet", 80), ("lines/", 40)):
        reading = evaluate(f"{bucket}/{path}", "mrr")["mrr"]
        assert (reading.value, reading.lists) == (0.5, lists)
    with pytest.raises(SourceError, match="no such object; check the path"):
        evaluate(f"{bucket}/none.parquet", "mrr")


def test_a_missing_object_is_reported(bucket: str) -> None:
    for path in ("none.parquet", "none.ndjson"):
        done = run("evaluate", f"{bucket}/{path}", "-m", "mrr")
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert f"{bucket}/{path}: no such object; check the path; a folder ends with /." in (
            done.stderr
        )


def test_a_missing_account_is_an_error_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    with pytest.raises(SourceError, match="credentials and endpoint in the environment"):
        next(content("az://logs/a.csv"))
