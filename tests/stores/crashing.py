"""A save that is cut off at a chosen step, and what a process finds that begins after it."""

from __future__ import annotations

from pathlib import Path

from streameval.checkpoints.store import Store, folder_store
from tests.effort import thorough
from tests.stores.drafts import PLACE, draft, whole
from tests.stores.forgetful import Crash, ForgetfulDisk, failing_at

ROOT = Path("/disk")
STORE = ROOT / "state"
BEFORE, AFTER = 110, 120
"""Both name the blobs of their hundred; the next hundred's are new."""

SEEDS = 6 if thorough() else 3
"""So often is each crash tried: what an unsynced disk keeps is drawn anew each time."""


def prepared(seed: int, before: int | None = BEFORE) -> tuple[ForgetfulDisk, Store]:
    """A disk with a store that holds one checkpoint, or nothing at all."""
    disk = ForgetfulDisk(ROOT, seed=seed)
    store = folder_store(STORE, disk)
    if before is not None:
        store.claim("c1", "g1")
        store.save(draft(before))
    disk.steps.clear()
    return disk, store


def steps(before: int | None, after: int) -> int:
    """How many steps claiming and saving take."""
    disk, store = prepared(0, before)
    store.claim("c1", "g1")
    store.save(draft(after))
    return len(disk.steps)


def found_after_crash_at(
    step: int, seed: int, *, before: int | None, after: int, power: bool
) -> int | None:
    """The offset of what is found after a crash before that step; its parts are as they were."""
    disk, store = prepared(seed, before)
    with disk.failing(failing_at([step], Crash)):
        store.claim("c1", "g1")
        store.save(draft(after))
    if power:
        disk.crash()
    return _found(disk)


def _found(disk: ForgetfulDisk) -> int | None:
    store = folder_store(STORE, disk)
    store.claim("c1", "g1")
    found = store.newest(PLACE)
    assert not found.damaged, found.damaged
    return None if found.saved is None else whole(found.saved)


def the_old_or_the_new_is_there(
    *, before: int | None = BEFORE, after: int = AFTER, power: bool = True
) -> None:
    """Wherever a save is cut off, one of both is there, whole; and nothing that is torn."""
    for step in range(steps(before, after)):
        for seed in range(SEEDS):
            found = found_after_crash_at(step, seed, before=before, after=after, power=power)
            assert found in {before, after}, (step, seed, found)


def what_was_saved_is_there() -> None:
    """A save that has come back survives the power's failing, the first of a place too."""
    for before, after in ((None, AFTER), (BEFORE, AFTER), (BEFORE, AFTER + 100)):
        for seed in range(SEEDS * 4):
            disk, store = prepared(seed, before)
            store.claim("c1", "g1")
            store.save(draft(after))
            disk.crash()
            assert _found(disk) == after, (before, seed)


def what_was_found_stays() -> None:
    """What a process has found is not lost by the power, though its writer was killed early."""
    for step in range(steps(BEFORE, AFTER)):
        for seed in range(SEEDS):
            disk, store = prepared(seed)
            with disk.failing(failing_at([step], Crash)):
                store.claim("c1", "g1")
                store.save(draft(AFTER))
            first = _found(disk)
            disk.crash()
            assert _found(disk) == first, (step, seed)
