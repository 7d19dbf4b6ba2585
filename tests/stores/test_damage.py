"""Damaged files are skipped with a message, and never loaded."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from streameval.checkpoints.format import CheckpointDraft as Draft
from streameval.checkpoints.format import Shard
from streameval.checkpoints.store import Store
from streameval.events.errors import DamagedStateError, StateVersionError, StoreError
from tests.crashes.simulated_disk import SimulatedDisk
from tests.effort import sampled
from tests.present import present
from tests.stores.drafts import (
    SHARD,
    STORE,
    Writer,
    draft,
    later_round,
    opened,
    part,
    whole,
)

OTHER = SHARD._replace(number=4)
SHARDS = [SHARD, OTHER]
OLD, NEW = 110, 220


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk(STORE.parent)


@pytest.fixture
def writer(disk: SimulatedDisk) -> Writer:
    """A process that has saved two shards in each of two rounds."""
    made = Writer(opened(disk))
    for offset in (OLD, NEW):
        made.save_all(dict.fromkeys(SHARDS, offset))
    return made


@pytest.fixture
def newest(writer: Writer, disk: SimulatedDisk) -> Path:  # noqa: ARG001  it has written the file
    return max(path for path in disk.files() if path.suffix == ".round")


def _flipped(content: bytes, position: int, bit: int = 0) -> bytes:
    changed = content[position] ^ 1 << bit
    return content[:position] + bytes([changed]) + content[position + 1 :]


def _newest(disk: SimulatedDisk) -> dict[Shard, int]:
    """What a new process restores of each shard; what is older has a message, and nothing else."""
    store = opened(disk)
    offsets = {}
    for shard in SHARDS:
        found = store.newest(shard)
        offsets[shard] = whole(found.saved, shard)
        assert bool(found.damaged) or offsets[shard] == NEW
        assert all(str(STORE) in message for message in found.damaged)
    return offsets


def test_a_flipped_bit_costs_one_shard_one_round_and_in_the_directory_the_writer_one(
    newest: Path, disk: SimulatedDisk
) -> None:
    content = disk.read(newest, 0, disk.size(newest))
    directory = content.rindex(b'{"version":')
    generator, seen = random.Random(1), set()
    for position in sampled(range(len(content)), 3):
        disk.overwrite(newest, _flipped(content, position, generator.randrange(8)))
        offsets = [*_newest(disk).values()]
        lost = offsets.count(OLD)
        assert lost == 2 if position >= directory else lost <= 1, position
        seen.add((position >= directory, lost))
    assert seen == {(False, 0), (False, 1), (True, 2)}
    disk.overwrite(newest, content)
    assert [*_newest(disk).values()] == [NEW, NEW]


def test_damage_is_reported_although_a_former_owner_names_an_older_checkpoint_later(
    disk: SimulatedDisk,
) -> None:
    """Or a commit that is ahead of it would look like that of another store."""
    former, owner = Writer(opened(disk)), Writer(opened(disk))
    former.save_all(dict.fromkeys(SHARDS, OLD))
    (first,) = (path for path in disk.files() if path.suffix == ".round")
    disk.now += 1
    owner.save_all({SHARDS[0]: NEW})
    disk.now += 1
    former.save_all({SHARDS[1]: NEW}, owned=[SHARDS[1]])
    (path,) = (
        path for path in disk.files() if path.suffix == ".round" and path.parent != first.parent
    )
    disk.overwrite(path, b"rubbish")
    assert whole(opened(disk).newest(SHARDS[0]).saved, SHARDS[0]) == OLD
    assert len(opened(disk).newest(SHARDS[0]).damaged) == 1


def test_every_truncation_costs_the_writer_one_round(newest: Path, disk: SimulatedDisk) -> None:
    content = disk.read(newest, 0, disk.size(newest))
    for end in sampled(range(len(content)), 5):
        disk.overwrite(newest, content[:end])
        assert [*_newest(disk).values()] == [OLD, OLD]
    disk.overwrite(newest, content + b"\n")
    assert [*_newest(disk).values()] == [OLD, OLD]


def test_a_damaged_round_costs_nothing_once_the_next_is_written(
    writer: Writer, newest: Path, disk: SimulatedDisk
) -> None:
    disk.overwrite(newest, b"rubbish")
    disk.now += 1
    # What did not change was in it: the process notices, and writes all once more.
    with pytest.raises(StoreError, match="the next round writes it again"):
        writer.save_all(dict.fromkeys(SHARDS, 330))
    writer.save_all(dict.fromkeys(SHARDS, 330))
    for shard in SHARDS:
        found = opened(disk).newest(shard)
        assert (whole(found.saved, shard), found.damaged) == (330, [])


@pytest.mark.parametrize(
    "change", [lambda it: it[1:], lambda it: it.replace(b"zz", b"zy", 1), lambda _: b"", None]
)
def test_a_changed_or_missing_part_of_an_earlier_round_is_noticed_and_written_again(
    disk: SimulatedDisk, change: Callable[[bytes], bytes] | None
) -> None:
    store = opened(disk)
    large = part("z", [b"z" * 10_000])
    for offset in (OLD, NEW):
        plain = draft(offset)
        store.save([Draft(header=plain.header, parts=[*plain.parts, large])])
    (entry,) = (at for at in present(store.newest(SHARD).saved).entries if at.name == "z")
    path = STORE / entry.key
    if change is None:
        disk.remove(path)
    else:
        disk.overwrite(path, change(disk.read(path, 0, 20_000)))
    found = opened(disk).newest(SHARD)
    assert found.saved is None
    assert found.damaged
    again = opened(disk)
    again.save([draft(230)])
    assert whole(again.newest(SHARD).saved) == 230


def test_what_is_damaged_is_not_copied_into_the_next_round(
    writer: Writer, newest: Path, disk: SimulatedDisk
) -> None:
    """Little of the round is needed by the next one, which notices, and writes all once more."""
    first = newest.with_name(f"{0:020d}.round")
    content = disk.read(first, 0, disk.size(first))
    damaged = content.replace(b"one shop", b"two shop")
    assert damaged != content
    disk.overwrite(first, damaged)
    for shard in SHARDS:
        with suppress(StoreError):
            writer.save_all({shard: 230})
    writer.save_all(dict.fromkeys(SHARDS, 240))
    for shard in SHARDS:
        found = opened(disk).newest(shard)
        assert whole(found.saved, shard) == 240


def test_a_round_under_the_name_of_another_is_noticed(newest: Path, disk: SimulatedDisk) -> None:
    content = disk.read(newest, 0, disk.size(newest))
    disk.create(newest.with_name(f"{7:020d}.round"), [content])
    found = opened(disk).newest(SHARD)
    assert whole(found.saved) == NEW
    assert f"it is round 1 of {newest.parent.name}" in found.damaged[0]


def test_without_a_valid_checkpoint_every_reason_is_reported(
    newest: Path, disk: SimulatedDisk
) -> None:
    older = newest.with_name(f"{0:020d}.round")
    for path in (newest, older):
        disk.overwrite(path, b"")
    found = opened(disk).newest(SHARD)
    assert found.saved is None
    assert len(found.damaged) == 2
    # Either may have had any shard, so none can start as if it were new.
    assert opened(disk).newest(SHARD._replace(number=5)).damaged == found.damaged


def test_a_torn_file_of_a_later_version_is_skipped(writer: Writer, disk: SimulatedDisk) -> None:
    key, content = later_round(330)
    disk.make_folder((STORE / key).parent)
    disk.create(STORE / key, [content])
    with pytest.raises(StateVersionError, match="state version 6 is not known"):
        opened(disk).newest(SHARD)
    assert whole(opened(disk).newest(OTHER).saved, OTHER) == NEW
    disk.overwrite(STORE / key, content[:-1])
    assert whole(writer.store.newest(SHARD).saved) == NEW


def test_a_part_that_changed_after_the_restore_is_refused(
    newest: Path, writer: Writer, disk: SimulatedDisk
) -> None:
    saved = present(writer.store.newest(SHARD).saved)
    disk.overwrite(newest, b"rubbish")
    with pytest.raises(DamagedStateError, match="part 'labels/2' is not what was written"):
        saved.read("labels/2")
    disk.remove(newest)
    with pytest.raises(DamagedStateError, match="the file of part 'meta' is missing"):
        saved.read("meta")


def test_a_store_that_vanished_is_not_an_empty_store(writer: Writer, disk: SimulatedDisk) -> None:
    store: Store = writer.store
    for path in disk.files():
        disk.remove(path)
    for call in (lambda: store.newest(SHARD), lambda: store.save([draft(300)])):
        with pytest.raises(StoreError, match="is missing; check that the disk is mounted"):
            call()


def test_files_that_vanish_during_a_read_are_listed_again(
    writer: Writer, disk: SimulatedDisk
) -> None:
    def saves(step: object) -> None:
        if getattr(step, "call", "") == "read" and "round" in str(getattr(step, "path", "")):
            disk.before = lambda _: None
            for offset in (330, 440, 550):
                writer.save_all(dict.fromkeys(SHARDS, offset))

    reader = opened(disk)
    disk.before = saves
    assert whole(reader.newest(SHARD).saved) == 550


def test_headers_are_the_newest_readable_ones_or_none_for_an_unknown_version(
    newest: Path, disk: SimulatedDisk
) -> None:
    def offset() -> int | None:
        header = opened(disk).headers()[SHARD]
        return None if header is None else header.offset

    assert offset() == NEW
    disk.overwrite(newest, b"torn")
    assert offset() == OLD
    key, content = later_round(330)
    disk.make_folder((STORE / key).parent)
    disk.create(STORE / key, [content])
    assert offset() is None
