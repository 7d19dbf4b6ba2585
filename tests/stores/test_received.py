"""A state from somebody else is read as data: it runs no code, and opens no file of its choice."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from streameval import Intervals
from streameval.config import Config, load
from streameval.config.config import schema
from streameval.evaluation.partials import arrow_table, partials
from tests.cli.program import run
from tests.stores.received import events, write_state

CONFIG = """
metrics = ["ctr", "received_payload:clicks"]
labels = ["variant"]
segments = ["country"]
intervals = { groups = 64 }
windows = { spans = ["24h"] }
source = { type = "files", paths = ["events.ndjson"] }
event = { time = "ts", time_unit = "s" }
"""

METRIC = '''
from streameval import metric
{statement}

@metric(bounds=(0, 1), source="a test")
def clicks(hits, k):
    """Share of lists with a click."""
    first = hits.first(k)
    return first.total(first.hits > 0)
'''

COMMANDS = (
    ("state", "show", "{state}"),
    ("state", "verify", "{state}"),
    ("state", "export", "{state}"),
    ("state", "merge", "{state}", "--into", "{folder}/merged"),
    ("compare", "{state}"),
    ("plan", "{state}", "--lift", "2%"),
    ("changes", "{state}"),
    ("gaps", "{state}", "--by", "country"),
)


@pytest.fixture
def _modules() -> Iterator[None]:
    """The modules of the test are forgotten before and after it."""
    before = sys.path[:]
    sys.modules.pop("received_payload", None)
    yield
    sys.modules.pop("received_payload", None)
    sys.path[:] = before


def module_in(folder: Path, statement: str = "") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "received_payload.py").write_text(METRIC.format(statement=statement))
    return folder


def config_in(folder: Path) -> Path:
    path = folder / "streameval.toml"
    path.write_text(CONFIG)
    return path


@pytest.fixture
def received(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, _modules: None) -> Path:
    """A store whose metric is a module of the folder where it was written, and not of this one.

    In this folder the module does something else.
    """
    writer = module_in(tmp_path / "writer")
    monkeypatch.syspath_prepend(writer)
    write_state(tmp_path / "state", load(config_in(writer)), events())
    sys.path.remove(str(writer))
    sys.modules.pop("received_payload")
    reader = module_in(tmp_path / "reader", "from pathlib import Path\nPath('ran').touch()")
    monkeypatch.chdir(reader)
    return tmp_path / "state"


@pytest.mark.parametrize("arguments", COMMANDS, ids=lambda arguments: "-".join(arguments[:2]))
def test_no_command_imports_a_module_because_a_state_names_it(
    received: Path, arguments: tuple[str, ...]
) -> None:
    folder = Path.cwd()
    done = run(*(part.format(state=received, folder=folder) for part in arguments))
    assert not (folder / "ran").exists()
    assert "received_payload" not in sys.modules
    assert done.returncode == 0, done.stderr
    left_out = (
        f"streameval: {received}: received_payload:clicks: left out; kept by 'received_payload', "
        "which this command does not load; give --config."
    )
    lines = [line for line in done.stderr.splitlines() if "received_payload" in line]
    reads_counts = arguments[:1] != ("state",) or arguments[1] == "export"
    assert lines == [left_out] * reads_counts


def test_a_metric_that_the_caller_names_is_read_of_the_state(received: Path) -> None:
    module_in(Path.cwd())
    done = run("compare", received, "-m", "received_payload:clicks", "--format", "csv")
    assert (done.returncode, done.stderr) == (0, "")
    assert {line.split(",")[0] for line in done.stdout.splitlines()[1:]} == {
        "received_payload:clicks"
    }


def test_a_metric_of_the_callers_configuration_is_read_of_the_state(received: Path) -> None:
    config_in(module_in(Path.cwd()))
    done = run("state", "export", received, "--config", "streameval.toml", "--format", "csv")
    assert (done.returncode, done.stderr) == (0, "")
    assert "received_payload:clicks" in {line.split(",")[0] for line in done.stdout.splitlines()}


@pytest.mark.usefixtures("received")
def test_metrics_left_out_decide_and_watch_nothing(tmp_path: Path) -> None:
    name = "received_payload:clicks"
    config = load_builtin(tmp_path)
    saved = schema(config) | {
        "metric": [{"name": name, "labels": ["variant"]}],
        "experiment": {"primary": [name], "guardrails": {name: -0.1, "ctr": -0.5}},
        "gap": [{"by": "country", "metrics": [name, "ctr"]}],
        "changes": {"metrics": [name]},
    }
    state = write_state(tmp_path / "other", config, events(), schema=saved)
    done = run("compare", state, "--format", "csv")
    assert done.returncode == 0, done.stderr
    assert [line.count(name) for line in done.stderr.splitlines()] == [1]
    assert not Path("ran").exists()


def load_builtin(folder: Path) -> Config:
    path = folder / "builtin.toml"
    path.write_text(CONFIG.replace(', "received_payload:clicks"', ""))
    return load(path)


@pytest.mark.usefixtures("received")
def test_a_state_with_none_but_such_metrics_is_refused(tmp_path: Path) -> None:
    config = load_builtin(tmp_path)
    state = write_state(
        tmp_path / "only", config, events(), schema={"metrics": ["received_payload:clicks"]}
    )
    done = run("state", "export", state)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "kept by 'received_payload'" in done.stderr


@pytest.mark.parametrize(
    "event",
    [
        {"decoder": "received_payload:clicks"},
        {"format": "protobuf", "message": "received_payload:clicks"},
    ],
)
@pytest.mark.usefixtures("received")
def test_no_decoder_is_loaded_because_a_state_names_it(
    tmp_path: Path, event: dict[str, str]
) -> None:
    config = load_builtin(tmp_path)
    decoding = {"time": "ts", "time_unit": "s", **event}
    saved = schema(config) | {"event": decoding}
    state = write_state(tmp_path / "decoded", config, events(), schema=saved)
    for config_given in ((), ("--config", tmp_path / "builtin.toml")):
        done = run("state", "export", state, *config_given)
        assert (done.returncode, done.stderr) == (0, "")
    assert not Path("ran").exists()
    assert "received_payload" not in sys.modules


def test_no_device_or_pipe_is_read_because_a_state_names_it(tmp_path: Path) -> None:
    config = load_builtin(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    for number, path in enumerate(("/dev/zero", str(tmp_path / "pipe"), "-")):
        state = write_state(
            tmp_path / f"state{number}",
            config,
            events(40),
            schema={"metrics": ["item_coverage"], "catalog": path},
        )
        done = run("state", "export", state)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == (
            f"streameval: {state}: its state names {path}, not a file; give --config.\n"
        )


def test_a_backfill_is_not_merged_into_a_state_without_its_metrics(
    received: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They would be missing from the merged state; with the configuration they are there."""
    module_in(Path.cwd(), "raise SystemError('it ran')")
    told = run("state", "merge", received, "--into", "no", "--backfill", "earlier.parquet")
    assert (told.returncode, told.stdout, Path("no").exists()) == (2, "", False)
    assert "received_payload:clicks: left out; kept by 'received_payload'" in told.stderr
    monkeypatch.syspath_prepend(module_in(Path.cwd()))
    config = config_in(Path.cwd())
    earlier = pa.Table.from_pylist(
        [
            event | {"users": event["user"], "times": (event["ts"] - 864_000) * 1_000_000}
            for event in events(40, days=1)
        ]
    )
    names = ["recommendations", "interactions", "users", "times", "variant", "country"]
    rows = partials(
        [earlier.select(names)],
        *load(config).metrics,
        by=["variant", "country"],
        every="24h",
        intervals=Intervals(groups=64),
        depth=load(config).counted_depth(),
        ids="text",
    )
    parquet.write_table(arrow_table(rows), "earlier.parquet")
    arguments = ("--into", "merged", "--backfill", "earlier.parquet", "--config", config)
    done = run("state", "merge", received, *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    exported = run("state", "export", "merged", "--config", config, "--format", "csv")
    counts = [
        int(line.split(",")[5])
        for line in exported.stdout.splitlines()
        if line.startswith("received_payload:clicks,") and ",lifetime," in line
    ]
    assert sum(counts) == 2 * (400 + 40)
