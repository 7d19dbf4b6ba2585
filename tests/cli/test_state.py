"""`streameval state show`, `verify`, `export` and `merge`."""

from __future__ import annotations

import json
import os
import shutil
import time
from copy import copy
from pathlib import Path

import pytest
from msgspec.structs import replace

from streameval.checkpoints.format import Shard
from streameval.checkpoints.store import folder_store
from streameval.config.states import newest_checkpoints, restore, without_copies
from streameval.events.errors import UsageError
from tests.cli.program import from_json, printed, run, usage_error
from tests.daemon.running import running
from tests.stores.drafts import NOON, SHARD, draft, later_round, part

OTHER = Shard("data/day 1.ndjson", "2049:77", 0)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Three checkpoints of one place and one of another, in a golden store."""
    path = tmp_path / "state"
    store = folder_store(path)
    store.claim("c1", "g1")
    store.save([draft(7, OTHER)])
    for offset in (110, 220, 4230):
        rebuilt = {str(SHARD): offset - 1}
        store.save([draft(offset, written_at=NOON + offset * 3600, counted=rebuilt)])
    aged(path)
    return path


def newest_round(path: Path) -> Path:
    return max(path.rglob("*.round"), key=lambda file: file.name)


def aged(path: Path) -> None:
    then = time.time() - 3600
    for file in path.rglob("*.round"):
        os.utime(file, (then, then))


def test_show_is_a_table_for_people(state: Path) -> None:
    output = printed("state", "show", state)
    texts = (
        "cluster c1, group g1",
        "shop.events[3]",
        "4,230",
        "shop.events[3] 4,229",
        "data/day 1.ndjson[0]",
    )
    also = ("1970-01-01T00:07:00Z", 'pane = "1m"')
    assert [text for text in (*texts, *also) if text not in output] == []


def test_show_is_json_for_programs(state: Path) -> None:
    (store,) = from_json("state", "show", state)
    assert (store["cluster"], store["group"]) == ("c1", "g1")
    other, shard = store["places"]
    assert (other["topic"], other["identity"], other["partition"]) == OTHER
    assert (shard["topic"], shard["identity"], shard["partition"]) == SHARD
    assert shard["kept"][-2:] == [220, 4230]
    checkpoint = shard["checkpoint"]
    assert (checkpoint["offset"], checkpoint["counted"], checkpoint["clock"]) == (
        4230,
        {str(SHARD): 4229},
        4230 * 60_000_000,
    )
    assert checkpoint["written_at"] == NOON + 4230 * 3600
    assert {part["file"] for part in checkpoint["parts"]} <= set(
        folder_store(state).listing().files
    )
    assert checkpoint["bytes"] == sum(part["bytes"] for part in checkpoint["parts"])
    assert checkpoint["settings"] == {"pane": "1m", "labels": ["variant"]}


def test_show_skips_and_reports_damaged_checkpoints(state: Path) -> None:
    newest_round(state).write_bytes(b"rubbish")
    done = run("state", "show", state)
    assert done.returncode == 1
    problem = f"{newest_round(state)}: the position of its directory is missing"
    assert done.stderr == f"streameval: {problem}\n"
    assert " 220 " in done.stdout
    notes: list[str] = []
    newest_checkpoints([str(state)], notes.append)
    assert notes == [problem]


def test_show_reports_a_later_version(state: Path) -> None:
    key, content = later_round(5000)
    (state / key).parent.mkdir()
    (state / key).write_bytes(content)
    done = run("state", "show", state)
    assert done.returncode == 1
    assert "state version 6 is not known" in done.stderr
    assert "none valid" in done.stdout


def test_verify_reports_that_all_checkpoints_are_valid(state: Path) -> None:
    text = printed("state", "verify", state, state)
    assert "3 checkpoints of 2 partitions, all valid" in text
    assert len(text.splitlines()) == 2


def test_verify_reports_each_fault_and_fails(state: Path) -> None:
    (other,) = folder_store(state).listing().shards[OTHER]
    content = (state / other.key).read_bytes()
    (state / other.key).write_bytes(content.replace(b"one data", b"two data"))
    newest_round(state).write_bytes(b"rubbish")
    done = run("state", "verify", state)
    assert done.returncode == 1
    damaged, directory = done.stderr.splitlines()
    assert f"{state / other.key}: the saved state is damaged (part 'labels/1'" in damaged
    assert str(newest_round(state)) in directory
    assert done.stdout == (
        f"{state}: 2 checkpoints of 2 partitions, 1 not valid; 1 round with a damaged directory\n"
    )


def test_merging_a_folder_without_state_is_rejected_in_one_line(
    state: Path, tmp_path: Path
) -> None:
    made = draft(9000)
    parts = [part("meta", [b"no state"]) if kept.name == "meta" else kept for kept in made.parts]
    folder_store(state).save([replace(made, parts=parts)])
    done = run("state", "merge", state, "--into", tmp_path / "merged")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("streameval: meta: the saved state is damaged (")
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "merged").exists()


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
    made = run("simulate", "--seed", str(seed))
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
    exported = run("state", "export", monday)
    config, file = monday.parent / "streameval.toml", monday.parent / "monday.ndjson"
    evaluated = run("evaluate", file, "--config", config, "--format", "json")
    assert exported.stdout == evaluated.stdout
    entries = json.loads(exported.stdout)
    assert {entry["window"] for entry in entries} == {"1m", "1h", "lifetime"}
    assert {tuple(entry["labels"]) for entry in entries} == {("variant",), ("variant", "country")}


def test_a_state_without_intervals_is_not_compared(monday: Path) -> None:
    assert "the state was made without intervals" in usage_error("compare", monday)


def test_several_stores_are_read_as_one_and_partitions_alone(monday: Path, tmp_path: Path) -> None:
    stores = [monday, counted(tmp_path, "tuesday", 2)]
    files = [monday.parent / "monday.ndjson", tmp_path / "tuesday.ndjson"]
    config = tmp_path / "streameval.toml"
    together = run("evaluate", *files, "--config", config, "--format", "csv")
    assert run("state", "export", *stores, "--format", "csv").stdout == together.stdout
    name = f"{files[0]}/0"
    alone = run("state", "export", *stores, "--partition", name, "--format", "csv")
    first = run("evaluate", files[0], "--config", config, "--format", "csv")
    assert alone.stdout == first.stdout
    unknown = run("state", "export", *stores, "--partition", "nowhere/7")
    assert unknown.returncode == 2
    assert f"not in the stores, which have {name}" in unknown.stderr


def test_a_partition_in_several_stores_counts_once(monday: Path, tmp_path: Path) -> None:
    """Twice the lists would also halve the intervals of `compare`."""
    backup = shutil.copytree(monday, tmp_path / "backup")
    done = run("state", "export", monday, backup)
    assert done.stdout == run("state", "export", monday).stdout
    assert f"{backup}: 1 partition left out" in done.stderr
    (checkpoint,) = newest_checkpoints([str(monday)], print)
    behind = checkpoint._replace(path="behind", saved=copy(checkpoint.saved))
    behind.saved.header = replace(checkpoint.saved.header, offset=7)
    assert (
        without_copies([behind, checkpoint], None)
        == without_copies([checkpoint, behind], None)
        == [checkpoint]
    )
    # What has started over wins over all that was before, whatever offsets that has.
    again = checkpoint._replace(path="again", saved=copy(checkpoint.saved))
    again.saved.header = replace(checkpoint.saved.header, offset=7, generation=1)
    for copies in ([again, checkpoint], [checkpoint, again]):
        assert without_copies(copies, None) == [again]


def test_no_partition_of_a_topic_counts_that_was_recreated_with_fewer(tmp_path: Path) -> None:
    store = folder_store(tmp_path)
    store.claim("c1", "g1")
    shards = [Shard("events", identity, number) for identity, number in (("a", 0), ("a", 1))]
    for hour, shard in enumerate((*shards, Shard("events", "0", 0))):
        store.save([draft(7, shard, written_at=NOON + hour)])
    assert [checkpoint.shard for checkpoint in newest_checkpoints([str(tmp_path)], print)] == [
        ("events", "0", 0)
    ]


def test_export_reads_other_metrics_that_the_state_supports(monday: Path, tmp_path: Path) -> None:
    config = tmp_path / "other.toml"
    text = (monday.parent / "streameval.toml").read_text().replace('"ctr",', '"map@5",')
    config.write_text(text)
    exported = run("state", "export", monday, "--config", config)
    file = monday.parent / "monday.ndjson"
    evaluated = run("evaluate", file, "--config", config, "--format", "json")
    assert "map@5" in exported.stdout
    assert exported.stdout == evaluated.stdout


def test_counts_are_not_read_as_something_else(monday: Path, tmp_path: Path) -> None:
    config = tmp_path / "other.toml"
    text = (monday.parent / "streameval.toml").read_text()
    for was, now, says in (
        ('labels = ["variant"]', 'labels = ["arm"]', 'labels: ["variant"] → ["arm"]'),
        ("windows = {", 'windows = { pane = "2m",', 'pane: "1m" → "2m"'),
    ):
        config.write_text(text.replace(was, now).replace('["1m", ', "["))
        assert says in usage_error("state", "export", monday, "--config", config)


def test_stores_that_counted_by_other_labels_are_not_read_as_one(monday: Path) -> None:
    (checkpoint,) = newest_checkpoints([str(monday)], print)
    header = checkpoint.saved.header
    settings = {**header.state.settings, "labels": ["arm"]}
    header = replace(header, state=replace(header.state, settings=settings))
    other = checkpoint._replace(path="other", saved=copy(checkpoint.saved))
    other.saved.header = header
    with pytest.raises(UsageError, match=f"labels: .*arm.* → .*; {monday} was written last"):
        restore([checkpoint, other], None, print)


def test_stores_of_one_group_become_one(monday: Path, tmp_path: Path) -> None:
    merged = tmp_path / "merged"
    done = run("state", "merge", monday, monday, "--into", merged)
    assert done.returncode == 0
    assert "offset 1,000" in done.stdout
    assert run("state", "export", merged).stdout == run("state", "export", monday).stdout
    assert run("state", "verify", merged).returncode == 0
    again = run("state", "merge", monday, "--into", merged)
    assert (again.returncode, "exists already" in again.stderr) == (2, True)


def test_stores_of_two_clusters_are_not_merged(tmp_path: Path) -> None:
    """Not even if all partitions have the same names."""
    for cluster, offset in (("c1", 10), ("c2", 20)):
        store, made = folder_store(tmp_path / cluster), draft(offset)
        store.claim(cluster, "g1")
        state = replace(made.header.state, cluster=cluster)
        store.save([replace(made, header=replace(made.header, state=state))])
    paths = tmp_path / "c1", tmp_path / "c2"
    done = usage_error("state", "merge", *paths, "--into", tmp_path / "merged")
    assert "group 'g1' of cluster 'c1' and group 'g1' of cluster 'c2'" in done
