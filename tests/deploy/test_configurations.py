"""The configurations that people copy are right, and the index of all that is there is whole."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from streameval.cli.check import check
from streameval.config import load
from streameval.decoding.decode import Decoder
from streameval.events import Event
from streameval.events.errors import ConfigError
from tests.certificates import Authority
from tests.cli.program import run
from tests.daemon.running import running
from tests.decoding.records import read
from tests.deploy.examples import BASE, DEPLOY
from tests.house.checkout import files as tracked

CONFIGS = sorted((DEPLOY / "config").glob("*.toml"))
OTHERS = [DEPLOY / "compose" / "streameval.toml", BASE / "streameval.toml"]
AUTHORITY = "/etc/streameval-kafka/ca.crt"
SURROUNDINGS = {
    "KAFKA_USERNAME": "streameval",
    "KAFKA_PASSWORD": "correct-horse",
    "HOSTNAME": "replica-0",
    "POD_NAME": "streameval-0",
    "BROKERS": "kafka:9092",
}


def _copied(path: Path, folder: Path) -> Path:
    """An example with the one file that it names made for it."""
    text = path.read_text(encoding="utf-8")
    if AUTHORITY in text:
        text = text.replace(AUTHORITY, str(Authority(folder).file))
    copy = folder / path.name
    copy.write_text(text, encoding="utf-8")
    return copy


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """All that examples take from the environment."""
    for name, value in SURROUNDINGS.items():
        monkeypatch.setenv(name, value)
    return monkeypatch


@pytest.mark.parametrize(
    "path", CONFIGS + OTHERS, ids=lambda path: f"{path.parent.name}-{path.stem}"
)
@pytest.mark.usefixtures("environment")
def test_every_example_passes_the_check(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = _copied(path, tmp_path)
    check(copy, connect=False)
    output = capsys.readouterr().out
    assert output.startswith(f"valid      {copy}\n")
    assert SURROUNDINGS["KAFKA_PASSWORD"] not in output


@pytest.mark.parametrize(
    ("example", "variable"),
    [
        ("config/nested-fields.toml", "KAFKA_PASSWORD"),
        ("config/production.toml", "HOSTNAME"),
        ("compose/streameval.toml", "BROKERS"),
        ("kubernetes/base/streameval.toml", "POD_NAME"),
    ],
)
def test_what_is_missing_in_the_environment_is_told(
    example: str, variable: str, tmp_path: Path, environment: pytest.MonkeyPatch
) -> None:
    environment.delenv(variable)
    with pytest.raises(ConfigError, match=f"the environment variable {variable} is not set"):
        check(_copied(DEPLOY / example, tmp_path), connect=False)


def test_every_example_says_first_what_it_is_for() -> None:
    firsts = [path.read_text(encoding="utf-8").splitlines()[0] for path in CONFIGS]
    assert [line for line in firsts if not line.startswith("# ")] == []


def test_there_is_an_example_for_every_source() -> None:
    kinds = {msgspec.to_builtins(load(path).source)["type"] for path in CONFIGS}
    assert kinds == {"kafka", "files", "simulator"}


def test_the_simulated_example_runs(tmp_path: Path) -> None:
    with running(
        DEPLOY / "config" / "simulator.toml", tmp_path, "--listen", "127.0.0.1:0"
    ) as daemon:
        document = daemon.consumed(1)
        assert daemon.stop() == 0
    assert {reading["labels"]["variant"] for reading in document["metrics"]} <= {
        "control",
        "placebo",
        "treatment",
    }


def test_the_example_of_files_evaluates_what_is_piped_into_it() -> None:
    events = run("simulate", "--events", "100").stdout.encode()
    path = DEPLOY / "config" / "files.toml"
    done = run("evaluate", "-", "--config", path, "--format", "json", stdin=events)
    assert done.returncode == 0, done.stderr
    assert '"hit_rate@10"' in done.stdout


def test_the_record_beside_the_nested_paths_is_read_by_them() -> None:
    path = DEPLOY / "config" / "nested-fields.toml"
    config = load(path)
    comment = [
        line[2:] for line in path.read_text(encoding="utf-8").splitlines() if line[:1] == "#"
    ]
    record = "".join(comment[1:3]).encode()
    event = read(Decoder(config.event, config.labels), record)
    assert isinstance(event, Event)
    assert (event.recommendations, event.interactions) == (["1", "2"], {"2": 19.5})
    assert (event.user, event.labels, event.ts) == ("7", ("b",), 1767225600000000)


def test_the_index_names_every_file() -> None:
    index = (DEPLOY / "README.md").read_text(encoding="utf-8")
    files = [path for path in tracked() if path.is_relative_to(DEPLOY)]
    files = [path for path in files if path.name != "README.md"]
    assert [path.name for path in files if path.name not in index] == []
