"""Without pyarrow or confluent-kafka, errors say why the import failed and what to install."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import numpy as np
import pytest

import streameval
from streameval import Accumulator, Columns
from streameval.events.errors import MissingExtraError
from streameval.sources import schemas
from tests.cli.program import run, usage_error


@pytest.fixture(autouse=True)
def _without_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "pyarrow"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyarrow", None)


class FromElsewhere:
    """A table of another library, such as Polars."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        raise AssertionError


@pytest.mark.parametrize("name", ["events.parquet", "events.csv"])
def test_a_table_names_the_extra(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("recommendations,interactions\na,a\n")
    message = usage_error("evaluate", tmp_path / name, "-m", "mrr")
    assert "(import of pyarrow halted; None in sys.modules)" in message
    # What the package asks for can be had wherever the package itself is from.
    assert "pip install 'pyarrow" in message


_START: Final = Path(streameval.__file__).parent / "cli" / "start.py"
_LIMITED: Final = """
import resource, runpy, sys
limit = int(sys.argv.pop(1)) * 1_000_000
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
runpy.run_path(sys.argv.pop(1))["main"]()
"""


def test_an_import_that_fails_for_want_of_memory_says_so(tmp_path: Path) -> None:
    """Neither a traceback nor an extra to install, wherever memory ends."""
    (tmp_path / "events.csv").write_text("recommendations,interactions\na,a\n")
    command = ["evaluate", str(tmp_path / "events.csv"), "-m", "mrr"]
    one_thread = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    said = []
    for limit in (60, 105, 200, 240):
        arguments = [sys.executable, "-c", _LIMITED, str(limit), str(_START), *command]
        done = subprocess.run(
            arguments, env=one_thread, capture_output=True, text=True, check=False
        )
        said.append(done.stderr.splitlines()[-1:] if done.returncode else [])
        assert "Traceback" not in done.stderr, (limit, done.stderr)
        assert "pip install" not in done.stderr, (limit, done.stderr)
    assert any("no memory is left" in line for lines in said for line in lines), said


def test_json_lines_need_no_extra(tmp_path: Path) -> None:
    file = tmp_path / "events.ndjson"
    file.write_text('{"recommendations": ["a"], "interactions": ["a"]}\n')
    for path in (file, tmp_path):
        done = run("evaluate", path, "-m", "mrr", "--format", "csv")
        assert (done.returncode, done.stdout.splitlines()[1:]) == (0, ["mrr,1.0,1"]), done


def test_an_arrow_table_names_the_extra() -> None:
    with pytest.raises(MissingExtraError, match=r"extra 'tables'.*pip install 'pyarrow"):
        Accumulator("mrr").update_many(FromElsewhere())


def test_numpy_needs_no_extra() -> None:
    accumulator = Accumulator("mrr")
    accumulator.update_many(Columns(recommendations=np.array([[1, 2]]), interactions=[[2]]))
    assert accumulator.read("mrr").value == 0.5


def test_avro_names_the_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delitem(sys.modules, "streameval.sources.schemas.avro", raising=False)
    monkeypatch.delattr(schemas, "avro", raising=False)
    monkeypatch.setitem(sys.modules, "confluent_kafka.schema_registry.avro", None)
    config = tmp_path / "streameval.toml"
    config.write_text(
        'metrics = ["ctr"]\nsource = { type = "kafka", topics = ["t"] }\n'
        'event = { format = "avro" }\nregistry = { url = "http://127.0.0.1:1" }\n'
    )
    message = usage_error("check", config)
    assert "format = 'avro' needs the extra 'schemas'" in message
    assert "'confluent-kafka[avro,schemaregistry]" in message


@pytest.mark.parametrize("command", [("state", "show", "s3://bucket/state"), ("check",)])
def test_a_state_in_a_bucket_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: tuple[str, ...]
) -> None:
    monkeypatch.delitem(sys.modules, "streameval.checkpoints.bucket", raising=False)
    monkeypatch.setitem(sys.modules, "obstore", None)
    config = tmp_path / "streameval.toml"
    config.write_text(
        'metrics = ["ctr"]\nsource = { type = "simulator" }\nstate.path = "s3://bucket/state"\n'
    )
    message = usage_error(*command, *([config] if command == ("check",) else []))
    assert "a state at s3://bucket/state needs the extra 'objectstore'" in message
    assert "pip install 'obstore" in message
