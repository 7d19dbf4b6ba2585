"""A store removes superseded checkpoints and blobs, and nothing that a process may need."""

from __future__ import annotations

import errno

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streameval.checkpoints.cleaning import GRACE, References, blobs_of, offsets_to_keep
from streameval.checkpoints.format import BLOBS, file_of
from streameval.events.errors import StoreError
from tests.crashes.simulated_disk import SimulatedDisk, refusing
from tests.stores.drafts import (
    FOLDER,
    NOON,
    PLACE,
    STORE,
    Writer,
    draft,
    opened,
    read_at,
    restored,
    whole,
)


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk(STORE.parent)


def blobs(disk: SimulatedDisk) -> list[str]:
    return disk.names(FOLDER / BLOBS)


def test_the_two_newest_checkpoints_are_kept(disk: SimulatedDisk) -> None:
    store = opened(disk)
    for number in range(1, 8):
        store.save(draft(number, written_at=NOON + number * 86_400))
    assert store.offsets(PLACE) == [6, 7]
    assert all(whole(read_at(store, offset)) == offset for offset in (6, 7))


files = st.builds(
    References, offset=st.integers(0, 10**6), version=st.sampled_from([3, 3, 3, 4, None])
)


@given(st.lists(files, unique_by=lambda file: file.offset))
def test_few_checkpoints_are_kept_and_cleaning_twice_changes_nothing(
    files: list[References],
) -> None:
    keep = offsets_to_keep(files)
    readable = sorted(file.offset for file in files if file.version is not None)
    assert set(readable[-2:]) <= keep <= set(readable)
    assert len(keep) <= 3
    assert offsets_to_keep([file for file in files if file.offset in keep]) == keep


def test_the_newest_of_another_version_is_kept_for_a_downgrade(disk: SimulatedDisk) -> None:
    store = opened(disk)
    for offset in (1, 2, 3):
        store.save(draft(offset, version=4))
    for offset in (10, 11, 12):
        store.save(draft(offset))
    assert store.offsets(PLACE) == [3, 11, 12]


def test_old_unreferenced_blobs_are_removed(disk: SimulatedDisk) -> None:
    writer = Writer(opened(disk))
    for offset in (110, 220, 330, 440):
        writer.save(offset)
    # One blob that never changes, and one for each hundred.
    assert len(blobs(disk)) == 4
    disk.now += GRACE + 1
    for offset in (445, 450, 455):
        writer.save(offset)
    assert writer.store.offsets(PLACE) == [450, 455]
    assert set(blobs(disk)) == blobs_of(writer.last)


def test_a_blob_is_written_once(disk: SimulatedDisk) -> None:
    writer = Writer(opened(disk))
    writer.save(110)
    for checkpoint_draft in (
        draft(120, last=writer.last),
        msgspec.structs.replace(draft(130), last=writer.last),
    ):
        disk.steps.clear()
        writer.store.save(checkpoint_draft)
        created = [step.path for step in disk.steps if step.call == "create"]
        assert [path.parent for path in created] == [FOLDER]


def test_a_blob_removed_by_others_is_reported_and_written_again(disk: SimulatedDisk) -> None:
    writer = Writer(opened(disk))
    writer.save(110)
    for name in blobs(disk):
        disk.remove(FOLDER / BLOBS / name)
    with pytest.raises(StoreError, match="'labels/1' of an earlier checkpoint is missing"):
        writer.save(120)
    writer.save(130)
    assert restored(disk) == 130


def test_old_temporary_files_of_a_killed_process_are_removed(disk: SimulatedDisk) -> None:
    store = opened(disk)
    store.save(draft(110))
    stems = [FOLDER / file_of(120), FOLDER / BLOBS / "blob"]
    left = [path.with_name(f"{path.name}.0123.tmp") for path in stems]
    for path in left:
        disk.create(path, [b"half"])
    store.save(draft(120))
    assert set(left) <= set(disk.files())
    disk.now += GRACE + 1
    for offset in (130, 140):
        store.save(draft(offset))
    assert not set(left) & set(disk.files())


def test_a_former_owner_that_saves_late_does_no_harm(disk: SimulatedDisk) -> None:
    late, owner = opened(disk), Writer(opened(disk))
    late.save(draft(110))
    for offset in (220, 230, 340):
        owner.store.save(draft(offset))
    disk.now += GRACE + 1
    for offset in (120, 130, 140):
        late.save(draft(offset))
    assert restored(disk) == 340
    left = [saved for saved in owner.store.offsets(PLACE) if saved >= 230]
    assert all(whole(read_at(owner.store, saved)) == saved for saved in left)
    for offset in (350, 360, 370):
        owner.save(offset)
    assert restored(disk) == 370
    assert owner.store.offsets(PLACE) == [360, 370]


def test_a_failed_removal_is_reported_and_fails_no_save(disk: SimulatedDisk) -> None:
    store = opened(disk)
    disk.before = refusing(errno.EACCES, "remove")
    for offset in (1, 2, 3):
        store.save(draft(offset))
    assert "permission denied" in (store.cleanup_failure or "")
    disk.before = lambda _: None
    store.save(draft(4))
    assert store.cleanup_failure is None
    assert store.offsets(PLACE) == [3, 4]


def test_archived_checkpoints_keep_their_blobs(disk: SimulatedDisk) -> None:
    store = opened(disk)
    store.save(draft(110))
    kept_blobs = set(blobs(disk))
    store.archive(PLACE)
    disk.now += 10 * GRACE
    store.save(draft(220))
    store.save(draft(230))
    assert kept_blobs <= set(blobs(disk))
