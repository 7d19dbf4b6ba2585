"""A crash at every step of a save, a claim or a restart leaves a state from which all goes on."""

from __future__ import annotations

import errno
import os
from collections.abc import Collection
from itertools import product
from typing import NamedTuple

import pytest

from streameval.checkpoints.store import GRACE, Store, folder_store
from streameval.events.errors import RefusedStateError, StoreError
from tests.crashes.simulated_disk import Crash, SimulatedDisk, Step, failing_at
from tests.durability.checkpointing import LoneMember, P, after, with_policy
from tests.durability.test_refusals import CASES
from tests.effort import sampled, thorough
from tests.stores.drafts import SHARD, STORE, MemoryStore, draft, restored, whole

BEFORE, AFTER = 110, 120
"""Offsets of one hundred share a part; those of the next hundred have another one."""

SEEDS = 6 if thorough() else 3
"""Repetitions of each crash, because an unsynced disk keeps a random subset of its writes."""


class Save(NamedTuple):
    """A save, and the offsets that are saved before it; it cleans if it comes long after them."""

    before: tuple[int, ...]
    offset: int
    pause: float = 0.0

    def prepare(self, seed: int) -> tuple[SimulatedDisk, Store]:
        """A disk with a store that holds what was saved before."""
        disk = SimulatedDisk(STORE.parent, seed=seed)
        store = folder_store(STORE, disk)
        for offset in self.before:
            store.claim("c1", "g1")
            store.save([draft(offset)])
        disk.now += self.pause
        disk.steps.clear()
        return disk, store

    def on(self, store: Store) -> None:
        store.claim("c1", "g1")
        store.save([draft(self.offset)])


SECOND = Save((BEFORE,), AFTER)
SAVES = {
    "the first": Save((), AFTER),
    "shares parts": SECOND,
    "has new parts": Save((BEFORE,), AFTER + 100),
    "cleans": Save((BEFORE, BEFORE + 110, BEFORE + 220), BEFORE + 330, GRACE + 1),
}


def steps(save: Save) -> int:
    disk, store = save.prepare(0)
    save.on(store)
    return len(disk.steps)


@pytest.mark.parametrize("power", [True, False], ids=["power", "kill"])
@pytest.mark.parametrize("save", SAVES.values(), ids=SAVES)
def test_a_crash_at_every_step_leaves_the_old_or_the_new_checkpoint(
    save: Save, *, power: bool
) -> None:
    """And the older one beside it; after the last step it is the new one."""
    end = steps(save)
    old = save.before[-1] if save.before else None
    for step, seed in product(range(end + 1), range(SEEDS)):
        disk, store = save.prepare(seed)
        with disk.failing(failing_at([step], Crash)):
            save.on(store)
        if power:
            disk.crash()
        checkpoint = restored(disk)
        assert checkpoint in ({save.offset} if step == end else {old, save.offset}), (step, seed)
        # What was restored is durable even if its writer was killed before it was.
        disk.crash()
        assert restored(disk) == checkpoint, (step, seed)
        again = folder_store(STORE, disk)
        for location in again.listing().shards.get(SHARD, ()):
            assert whole(again.read(location)) == location.offset


def test_a_claim_succeeds_after_a_crash_at_any_step() -> None:
    for step, seed in product(range(60), range(SEEDS)):
        disk = SimulatedDisk(STORE.parent, seed=seed)
        with disk.failing(failing_at([step], Crash)):
            folder_store(STORE, disk).claim("c1", "g1")
        disk.crash()
        folder_store(STORE, disk).claim("c1", "g1")
        disk.crash()
        with pytest.raises(RefusedStateError):
            folder_store(STORE, disk).claim("c2", "g1")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EACCES, errno.EROFS])
def test_an_error_at_every_step_is_reported_and_the_state_survives(number: int) -> None:
    for step in range(steps(SECOND)):
        disk, store = SECOND.prepare(step)

        def os_error(failing: Step) -> OSError:
            return OSError(number, os.strerror(number), str(failing.path))

        with disk.failing(failing_at([step], os_error)):
            try:
                store.claim("c1", "g1")
                store.save([draft(AFTER)])
                reported = store.cleanup_failure
            except StoreError as error:
                reported = str(error)
        assert reported is None or os.strerror(number).lower() in reported
        # The user need not have access to the parent of the store.
        assert reported is not None or (number == errno.EACCES and step == 1)
        assert restored(disk) in {BEFORE, AFTER}
        store.save([draft(AFTER + 10)])
        disk.crash()
        assert restored(disk) == AFTER + 10


def test_a_failed_save_leaves_no_file_behind() -> None:
    disk, store = SECOND.prepare(0)
    files = disk.files()
    twin, other = SECOND.prepare(0)
    other.save([draft(AFTER)])
    saving = [n for n, step in enumerate(twin.steps) if step.call == "rename_new"]
    disk.before = failing_at(saving, lambda _: OSError(errno.EIO, "input/output error"))
    with pytest.raises(StoreError):
        store.save([draft(AFTER)])
    assert disk.files() == files


def _restart(policy: str, at: Collection[int] = ()) -> tuple[MemoryStore, int]:
    """The store, and the group's commit, after a process was killed at these steps of a restart."""
    case, store = CASES[policy], MemoryStore()
    after(10, store)
    policies = with_policy(policy, "restart")
    member = LoneMember(store, policies=policies, **case.settings)
    store.disk.steps.clear()
    with store.disk.failing(failing_at(at, Crash)):
        member.assign(**case.changes, committed=10)
    return store, member.commits[-1][P] if member.commits else 10


@pytest.mark.parametrize("policy", sampled(["on_truncated", "on_other_settings"], 2))
def test_a_kill_at_any_step_of_a_restart_leaves_no_commit_that_looks_foreign(policy: str) -> None:
    whole, committed = _restart(policy)
    assert committed == 0
    for step in range(len(whole.disk.steps)):
        store, committed = _restart(policy, [step])
        policies = with_policy(policy, "restart")
        heir = LoneMember(store, policies=policies, **CASES[policy].settings)
        assert heir.assign(**CASES[policy].changes, committed=committed) == 0
