"""Crashes a save at every step, and checks the checkpoint that the next process restores."""

from __future__ import annotations

from pathlib import Path

from streameval.checkpoints.store import Store, folder_store
from tests.effort import thorough
from tests.stores.drafts import PLACE, draft, whole
from tests.stores.simulated_disk import Crash, SimulatedDisk, failing_at

ROOT = Path("/disk")
STORE = ROOT / "state"
BEFORE, AFTER = 110, 120
"""Offsets of one hundred share their blobs; those of the next hundred have new ones."""

SEEDS = 6 if thorough() else 3
"""Repetitions of each crash, because an unsynced disk keeps a random subset of its writes."""


def prepared(seed: int, before: int | None = BEFORE) -> tuple[SimulatedDisk, Store]:
    """A disk with a store that holds one checkpoint, or none."""
    disk = SimulatedDisk(ROOT, seed=seed)
    store = folder_store(STORE, disk)
    if before is not None:
        store.claim("c1", "g1")
        store.save(draft(before))
    disk.steps.clear()
    return disk, store


def steps(before: int | None, after: int) -> int:
    """The number of disk steps of a claim and a save."""
    disk, store = prepared(0, before)
    store.claim("c1", "g1")
    store.save(draft(after))
    return len(disk.steps)


def found_after_crash_at(
    step: int, seed: int, *, before: int | None, after: int, power: bool
) -> int | None:
    """The offset restored after a crash before that step, with all parts intact."""
    disk, store = prepared(seed, before)
    with disk.failing(failing_at([step], Crash)):
        store.claim("c1", "g1")
        store.save(draft(after))
    if power:
        disk.crash()
    return _found(disk)


def _found(disk: SimulatedDisk) -> int | None:
    store = folder_store(STORE, disk)
    store.claim("c1", "g1")
    found = store.newest(PLACE)
    assert not found.damaged, found.damaged
    return None if found.saved is None else whole(found.saved)


def assert_old_or_new_survives(
    *, before: int | None = BEFORE, after: int = AFTER, power: bool = True
) -> None:
    """After a crash at any step, the old or the new checkpoint is intact, and none is torn."""
    for step in range(steps(before, after)):
        for seed in range(SEEDS):
            found = found_after_crash_at(step, seed, before=before, after=after, power=power)
            assert found in {before, after}, (step, seed, found)


def assert_saved_survives_power_loss() -> None:
    """A completed save survives power loss, also the first save of a place."""
    for before, after in ((None, AFTER), (BEFORE, AFTER), (BEFORE, AFTER + 100)):
        for seed in range(SEEDS * 4):
            disk, store = prepared(seed, before)
            store.claim("c1", "g1")
            store.save(draft(after))
            disk.crash()
            assert _found(disk) == after, (before, seed)


def assert_restored_survives_power_loss() -> None:
    """A restored checkpoint survives power loss, even if its writer was killed early."""
    for step in range(steps(BEFORE, AFTER)):
        for seed in range(SEEDS):
            disk, store = prepared(seed)
            with disk.failing(failing_at([step], Crash)):
                store.claim("c1", "g1")
                store.save(draft(AFTER))
            first = _found(disk)
            disk.crash()
            assert _found(disk) == first, (step, seed)
