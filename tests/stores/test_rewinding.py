"""Going back in time: the state of then, and counters that count nothing twice."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from streameval.durability.checkpoint import Place
from streameval.stores.folder import FolderStore
from streameval.stores.naming import ASIDE, file_of, folder_of
from streameval.stores.rewinding import rewind, rewind_of
from tests.stores.drafts import NOON, PLACE, draft, whole
from tests.stores.forgetful import Crash, ForgetfulDisk, failing_at

STORE = Path("/disk/state")
MINUTE = 60_000_000
"""A draft's clock is so many microseconds for each offset."""


def prepared(seed: int = 0) -> tuple[ForgetfulDisk, FolderStore]:
    disk = ForgetfulDisk(STORE.parent, seed=seed)
    store = FolderStore(STORE, disk)
    store.claim("c1", "g1")
    for offset in (110, 220, 230, 240):
        store.save(draft(offset, written_at=NOON + offset * 3600, counted=offset - 1))
    return disk, store


def newest(disk: ForgetfulDisk) -> tuple[int, int]:
    saved = FolderStore(STORE, disk).newest(PLACE).saved
    assert saved is not None
    return whole(saved), saved.header.counted


def test_the_newest_at_or_before_a_time_is_loaded_and_keeps_what_was_counted() -> None:
    for clock, wanted in ((220, 220), (229, 220), (230, 230), (150, 110)):
        disk, store = prepared()
        plan = rewind_of(store, PLACE, clock * MINUTE)
        assert newest(disk) == (240, 239), "a plan changes nothing"
        rewind(store, plan)
        assert newest(disk) == (wanted, 239)


def test_what_is_newer_lies_aside_and_can_come_back() -> None:
    disk, store = prepared()
    rewind(store, rewind_of(store, PLACE, 225 * MINUTE))
    folder = folder_of(STORE, PLACE)
    names = disk.names(folder / ASIDE)
    assert [name[:31] for name in names] == [file_of(230), file_of(240)]
    for name in names:
        disk.rename(folder / ASIDE / name, folder / name[:31])
    assert newest(disk) == (240, 239)


def test_going_back_twice_keeps_the_highest_count() -> None:
    disk, store = prepared()
    rewind(store, rewind_of(store, PLACE, 225 * MINUTE))
    rewind(store, rewind_of(store, PLACE, 120 * MINUTE))
    assert newest(disk) == (110, 239)


def test_nothing_is_done_where_nothing_is_newer() -> None:
    disk, store = prepared()
    files = disk.files()
    plan = rewind_of(store, PLACE, 1000 * MINUTE)
    assert plan.moved == ()
    rewind(store, plan)
    assert disk.files() == files


def test_a_time_before_all_says_what_the_oldest_is() -> None:
    disk, store = prepared()
    plan = rewind_of(store, PLACE, 10 * MINUTE)
    assert plan.chosen is None
    assert plan.oldest is not None
    assert plan.oldest.offset == 110
    rewind(store, plan)
    assert newest(disk) == (240, 239)


def test_a_damaged_file_is_not_chosen_and_counts_as_having_counted_all() -> None:
    disk, store = prepared()
    folder = folder_of(STORE, PLACE)
    disk.overwrite(folder / file_of(220), b"rubbish")
    disk.overwrite(folder / file_of(240), b"rubbish")
    plan = rewind_of(store, PLACE, 225 * MINUTE)
    assert len(plan.faults) == 2
    rewind(store, plan)
    assert newest(disk) == (110, 240)


def test_a_later_version_goes_aside_too() -> None:
    disk, store = prepared()
    store.save(draft(300, version=2, counted=299))
    rewind(store, rewind_of(store, PLACE, 225 * MINUTE))
    assert newest(disk) == (220, 299)


def test_a_place_of_which_there_is_nothing_has_nothing_to_choose() -> None:
    _, store = prepared()
    plan = rewind_of(store, Place("other", "", 0), 225 * MINUTE)
    assert (plan.chosen, plan.oldest, plan.moved) == (None, None, ())


@pytest.mark.parametrize("power", [True, False])
def test_cut_off_anywhere_it_is_as_before_or_done(*, power: bool) -> None:
    step, finished = 0, False
    while not finished:
        disk, store = prepared(step)
        plan = rewind_of(store, PLACE, 150 * MINUTE)
        disk.before = failing_at([step], lambda _: Crash())
        with suppress(Crash):
            rewind(store, plan)
            finished = True
        disk.before = lambda _: None
        if power:
            disk.crash()
        assert newest(disk) in {(240, 239), (110, 239)}
        again = FolderStore(STORE, disk)
        rewind(again, rewind_of(again, PLACE, 150 * MINUTE))
        assert newest(disk) == (110, 239)
        step += 1
