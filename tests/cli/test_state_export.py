"""`streameval state export` and `merge`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.cli.program import ran, refused
from tests.daemon.running import running

CONFIG = """
metrics = ["ctr", "hit_rate@10", "ndcg@10", "item_coverage@10", "ndcg(statistic=median)@10"]
labels = ["variant"]
segments = ["country"]
catalog = 1200
dedup = "10m"
event = {{ time = "ts", time_unit = "iso8601", event_id = "event_id" }}
windows = {{ spans = ["1m", "1h"] }}
source = {{ type = "files", paths = [{paths}] }}
state = {{ path = "{state}" }}
web = {{ listen = "127.0.0.1:0" }}
"""


def counted(folder: Path, name: str, seed: int) -> Path:
    """A store of a daemon that has read a file of 1,000 simulated events to its end."""
    made = ran("simulate", "--seed", str(seed))
    (folder / f"{name}.ndjson").write_text(made.stdout)
    store = folder / f"{name}-state"
    with running(CONFIG.format(paths=f'"{name}.ndjson"', state=store), folder) as daemon:
        daemon.consumed(1_000)
        assert daemon.stop() == 0
    return store


@pytest.fixture(scope="module")
def monday(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store of monday.ndjson, which is read only."""
    return counted(tmp_path_factory.mktemp("monday"), "monday", 1)


def test_export_equals_evaluate_of_the_same_records_bit_for_bit(monday: Path) -> None:
    exported = ran("state", "export", monday)
    config, file = monday.parent / "streameval.toml", monday.parent / "monday.ndjson"
    evaluated = ran("evaluate", file, "--config", config, "--format", "json")
    assert exported.stdout == evaluated.stdout
    entries = json.loads(exported.stdout)
    assert {each["window"] for each in entries} == {"1m", "1h", "lifetime"}
    assert {tuple(each["labels"]) for each in entries} == {("variant",), ("variant", "country")}


def test_a_state_without_intervals_is_not_compared(monday: Path) -> None:
    assert "the state was made without intervals" in refused("compare", monday)


def test_several_stores_are_read_as_one_and_partitions_alone(monday: Path, tmp_path: Path) -> None:
    stores = [monday, counted(tmp_path, "tuesday", 2)]
    files = [monday.parent / "monday.ndjson", tmp_path / "tuesday.ndjson"]
    config = tmp_path / "streameval.toml"
    together = ran("evaluate", *files, "--config", config, "--format", "csv")
    assert ran("state", "export", *stores, "--format", "csv").stdout == together.stdout
    name = f"{files[0]}/0"
    alone = ran("state", "export", *stores, "--partition", name, "--format", "csv")
    first = ran("evaluate", files[0], "--config", config, "--format", "csv")
    assert alone.stdout == first.stdout
    unknown = ran("state", "export", *stores, "--partition", "nowhere/7")
    assert unknown.returncode == 2
    assert f"not in the stores, which have {name}" in unknown.stderr


def test_a_partition_in_several_stores_counts_once(monday: Path, tmp_path: Path) -> None:
    """Twice the lists would also halve the intervals of `compare`."""
    backup = shutil.copytree(monday, tmp_path / "backup")
    done = ran("state", "export", monday, backup)
    assert done.stdout == ran("state", "export", monday).stdout
    assert f"{backup}: 1 partition left out" in done.stderr


def test_export_reads_other_metrics_that_the_state_supports(monday: Path, tmp_path: Path) -> None:
    config = tmp_path / "other.toml"
    text = (monday.parent / "streameval.toml").read_text().replace('"ctr",', '"map@5",')
    config.write_text(text)
    exported = ran("state", "export", monday, "--config", config)
    file = monday.parent / "monday.ndjson"
    evaluated = ran("evaluate", file, "--config", config, "--format", "json")
    assert "map@5" in exported.stdout
    assert exported.stdout == evaluated.stdout


def test_stores_of_one_group_become_one(monday: Path, tmp_path: Path) -> None:
    merged = tmp_path / "merged"
    done = ran("state", "merge", monday, monday, "--into", merged)
    assert done.returncode == 0
    assert "offset 1,000" in done.stdout
    assert ran("state", "export", merged).stdout == ran("state", "export", monday).stdout
    assert ran("state", "verify", merged).returncode == 0
    again = ran("state", "merge", monday, "--into", merged)
    assert (again.returncode, "exists already" in again.stderr) == (2, True)
