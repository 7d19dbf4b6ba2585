"""`streameval state show` and `verify`."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from streameval.checkpoints.checkpoint import Place
from streameval.checkpoints.format import file_of, folder_of
from streameval.checkpoints.store import folder_store
from tests.cli.program import ran
from tests.stores.drafts import NOON, PLACE, draft, part

OTHER = Place("data/day 1.ndjson", "2049:77", 0)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Three checkpoints of one place and one of another, in a golden store."""
    path = tmp_path / "state"
    store = folder_store(path)
    store.claim("c1", "g1")
    for offset in (110, 220, 4230):
        store.save(draft(offset, written_at=NOON + offset * 3600, counted=offset - 1))
    store.save(draft(7, OTHER))
    aged(path)
    return path


def aged(path: Path) -> None:
    then = time.time() - 3600
    for file in path.rglob("*.checkpoint"):
        os.utime(file, (then, then))


def test_show_is_a_table_for_people(state: Path) -> None:
    done = ran("state", "show", state)
    assert (done.returncode, done.stderr) == (0, "")
    texts = ("cluster c1, group g1", "shop.events[3]", "4,230", "4,229", "data/day 1.ndjson[0]")
    also = ("1970-01-01T00:07:00Z", 'pane = "1m"')
    assert [text for text in (*texts, *also) if text not in done.stdout] == []


def test_show_is_json_for_programs(state: Path) -> None:
    done = ran("state", "show", state, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    (store,) = json.loads(done.stdout)
    assert (store["cluster"], store["group"]) == ("c1", "g1")
    other, place = store["places"]
    assert (other["topic"], other["identity"], other["partition"]) == OTHER
    assert (place["topic"], place["identity"], place["partition"]) == PLACE
    assert place["kept"][-2:] == [220, 4230]
    found = place["checkpoint"]
    assert (found["offset"], found["counted"], found["clock"]) == (4230, 4229, 4230 * 60_000_000)
    assert found["written_at"] == NOON + 4230 * 3600
    assert [part["blob"] for part in found["parts"]] == [False, True, True, False]
    assert found["bytes"] == sum(part["bytes"] for part in found["parts"])
    assert found["settings"] == {"pane": "1m", "labels": ["variant"]}


def test_show_skips_and_reports_damaged_checkpoints(state: Path) -> None:
    (state / folder_of(PLACE) / file_of(4230)).write_bytes(b"rubbish")
    done = ran("state", "show", state)
    assert done.returncode == 1
    assert "offset 4,230 is skipped" in done.stderr
    assert " 220 " in done.stdout


def test_show_reports_a_later_version(state: Path) -> None:
    folder_store(state).save(draft(5000, version=3))
    done = ran("state", "show", state)
    assert done.returncode == 1
    assert "state version 3 is not known" in done.stderr
    assert "none valid" in done.stdout


def test_verify_reports_that_all_checkpoints_are_valid(state: Path) -> None:
    done = ran("state", "verify", state, state)
    assert (done.returncode, done.stderr) == (0, "")
    assert "3 checkpoints of 2 partitions, all valid" in done.stdout
    assert len(done.stdout.splitlines()) == 2


def test_verify_reports_each_fault_and_fails(state: Path) -> None:
    folder = state / folder_of(PLACE)
    (folder / file_of(4230)).write_bytes(b"rubbish")
    (state / folder_of(OTHER) / file_of(7)).write_bytes(b"")
    done = ran("state", "verify", state)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 2
    assert str(folder / file_of(4230)) in done.stderr
    assert "2 not valid" in done.stdout


def test_merging_a_folder_without_state_is_rejected_in_one_line(
    state: Path, tmp_path: Path
) -> None:
    made = draft(9000)
    parts = [part("meta", [b"no state"]) if each.name == "meta" else each for each in made.parts]
    folder_store(state).save(replace(made, parts=parts))
    done = ran("state", "merge", state, "--into", tmp_path / "merged")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("streameval: meta: the saved state is damaged (")
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "merged").exists()
