"""A crash at every step of a save leaves the old or the new checkpoint intact."""

from __future__ import annotations

import errno
import os

import pytest

from streameval.checkpoints.store import Store, folder_store
from streameval.errors import StoreError
from tests.effort import sampled, thorough
from tests.stores.drafts import PLACE, STORE, draft, restored, whole
from tests.stores.simulated_disk import Crash, SimulatedDisk, Step, failing_at

BEFORE, AFTER = 110, 120
"""Offsets of one hundred share their blobs; those of the next hundred have new ones."""

SEEDS = 6 if thorough() else 3
"""Repetitions of each crash, because an unsynced disk keeps a random subset of its writes."""


def prepared(seed: int, before: int | None = BEFORE) -> tuple[SimulatedDisk, Store]:
    """A disk with a store that holds one checkpoint, or none."""
    disk = SimulatedDisk(STORE.parent, seed=seed)
    store = folder_store(STORE, disk)
    if before is not None:
        store.claim("c1", "g1")
        store.save(draft(before))
    disk.steps.clear()
    return disk, store


def steps(before: int | None, after: int) -> int:
    disk, store = prepared(0, before)
    store.claim("c1", "g1")
    store.save(draft(after))
    return len(disk.steps)


def killed(step: int, seed: int, before: int | None = BEFORE, after: int = AFTER) -> SimulatedDisk:
    """The disk of a process that was killed before that step of a save."""
    disk, store = prepared(seed, before)
    with disk.failing(failing_at([step], Crash)):
        store.claim("c1", "g1")
        store.save(draft(after))
    return disk


CRASHES = ((BEFORE, AFTER), (BEFORE, AFTER + 100), (None, AFTER))
"""A save that shares blobs with the one before, one with new blobs, and the first of a place."""


@pytest.mark.parametrize("power", [True, False], ids=["power", "kill"])
@pytest.mark.parametrize(("before", "after"), sampled(CRASHES, 3))
def test_a_crash_at_every_step_leaves_the_old_or_the_new_checkpoint(
    before: int | None, after: int, *, power: bool
) -> None:
    for step in range(steps(before, after)):
        for seed in range(SEEDS):
            disk = killed(step, seed, before, after)
            if power:
                disk.crash()
            checkpoint = restored(disk)
            assert checkpoint in {before, after}, (step, seed, checkpoint)


def test_a_saved_checkpoint_survives_power_loss() -> None:
    for before, after in CRASHES:
        for seed in range(SEEDS * 4):
            disk, store = prepared(seed, before)
            store.claim("c1", "g1")
            store.save(draft(after))
            disk.crash()
            assert restored(disk) == after, (before, seed)


def test_a_restored_checkpoint_survives_power_loss() -> None:
    """Even if its writer was killed before it was durable."""
    for step in range(steps(BEFORE, AFTER)):
        for seed in range(SEEDS):
            disk = killed(step, seed)
            first = restored(disk)
            disk.crash()
            assert restored(disk) == first, (step, seed)


def test_a_crash_in_the_tenth_save_leaves_two_valid_checkpoints() -> None:
    for step in range(steps(BEFORE, AFTER)):
        disk, store = prepared(step)
        for offset in range(AFTER, AFTER + 80, 10):
            store.save(draft(offset))
        with disk.failing(failing_at([step], Crash)):
            store.save(draft(AFTER + 80))
        disk.crash()
        again = folder_store(STORE, disk)
        newest = whole(again.newest(PLACE).saved)
        assert newest in {AFTER + 70, AFTER + 80}
        older = [offset for offset in again.offsets(PLACE) if offset < newest]
        assert whole(again.checked(PLACE, older[-1])) == older[-1]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EACCES, errno.EROFS])
def test_an_error_at_every_step_is_reported_and_the_state_survives(number: int) -> None:
    for step in range(steps(BEFORE, AFTER)):
        disk, store = prepared(step)

        def os_error(failing: Step) -> OSError:
            return OSError(number, os.strerror(number), str(failing.path))

        with disk.failing(failing_at([step], os_error)):
            try:
                store.claim("c1", "g1")
                store.save(draft(AFTER))
                reported = store.cleanup_failure
            except StoreError as error:
                reported = str(error)
        assert reported is None or os.strerror(number).lower() in reported
        # The user need not have access to the parent of the store.
        assert reported is not None or (number == errno.EACCES and step == 1)
        assert restored(disk) in {BEFORE, AFTER}
        store.save(draft(AFTER + 10))
        disk.crash()
        assert restored(disk) == AFTER + 10


def test_a_failed_save_leaves_no_file_behind() -> None:
    disk, store = prepared(0)
    files = disk.files()
    twin, other = prepared(0)
    other.save(draft(AFTER))
    saving = [n for n, step in enumerate(twin.steps) if step.call == "rename"]
    disk.before = failing_at(saving, lambda _: OSError(errno.EIO, "input/output error"))
    with pytest.raises(StoreError):
        store.save(draft(AFTER))
    assert disk.files() == files
