"""A crash at every step of a save leaves the old or the new checkpoint intact."""

from __future__ import annotations

import errno
import os

import pytest

from streameval.checkpoints.store import folder_store
from streameval.errors import StoreError
from tests.effort import every_case, sampled
from tests.stores import crashing
from tests.stores.crashing import AFTER, BEFORE, STORE, prepared, steps
from tests.stores.drafts import PLACE, draft, whole
from tests.stores.simulated_disk import Crash, Step, failing_at


@pytest.mark.parametrize("power", [True, False], ids=["power", "kill"])
@pytest.mark.parametrize(
    ("before", "after"), sampled([(BEFORE, AFTER), (BEFORE, AFTER + 100), (None, AFTER)], 3)
)
def test_a_crash_at_every_step_leaves_the_old_or_the_new_checkpoint(
    before: int | None, after: int, *, power: bool
) -> None:
    crashing.assert_old_or_new_survives(before=before, after=after, power=power)


def test_a_saved_checkpoint_survives_power_loss() -> None:
    crashing.assert_saved_survives_power_loss()


def test_a_restored_checkpoint_survives_power_loss() -> None:
    crashing.assert_restored_survives_power_loss()


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


@every_case("number", [errno.ENOSPC, errno.EIO, errno.EACCES, errno.EROFS])
def test_an_error_at_every_step_is_reported_and_the_state_survives(number: int) -> None:
    for step in range(steps(BEFORE, AFTER)):
        disk, store = prepared(step)

        def refused(each: Step) -> OSError:
            return OSError(number, os.strerror(number), str(each.path))

        with disk.failing(failing_at([step], refused)):
            try:
                store.claim("c1", "g1")
                store.save(draft(AFTER))
                reported = store.cleanup_failure
            except StoreError as error:
                reported = str(error)
        assert reported is None or os.strerror(number).lower() in reported
        # The user need not have access to the parent of the store.
        assert reported is not None or (number == errno.EACCES and step == 1)
        assert whole(folder_store(STORE, disk).newest(PLACE).saved) in {BEFORE, AFTER}
        store.save(draft(AFTER + 10))
        disk.crash()
        assert whole(folder_store(STORE, disk).newest(PLACE).saved) == AFTER + 10


def test_a_failed_save_leaves_no_file_behind() -> None:
    disk, store = prepared(0)
    files = disk.files()
    saving = [n for n, step in enumerate(_recorded()) if step.call == "rename"]
    disk.before = failing_at(saving, lambda _: OSError(errno.EIO, "input/output error"))
    with pytest.raises(StoreError):
        store.save(draft(AFTER))
    assert disk.files() == files


def _recorded() -> list[Step]:
    disk, store = prepared(0)
    store.save(draft(AFTER))
    return disk.steps
