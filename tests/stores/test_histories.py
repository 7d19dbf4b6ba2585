"""Two processes on one store, in any order, cut off anywhere: the highest saved is there."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)

from streameval.checkpoints.files import GRACE, Cleaner
from streameval.checkpoints.folder import FolderStore
from streameval.errors import DamagedStateError
from tests.stores.drafts import NOON, PLACE, draft, whole
from tests.stores.forgetful import Crash, ForgetfulDisk, failing_at

STORE = Path("/disk/state")
OFFSETS = st.integers(0, 600)
PROCESSES = st.integers(0, 1)


class Histories(RuleBasedStateMachine):
    """An owner and one that does not know that it is none any more."""

    def __init__(self) -> None:
        super().__init__()
        self.disk = ForgetfulDisk(STORE.parent, seed=3)
        self.stores = [self._opened(), self._opened()]
        self.durable: set[int] = set()
        self.perhaps: set[int] = set()

    def _opened(self) -> FolderStore:
        store = FolderStore(STORE, self.disk)
        store.claim("c1", "g1")
        return store

    def _draft(self, store: FolderStore, offset: int, *, known: bool) -> None:
        store.save(draft(offset, written_at=NOON + offset, with_digest=known))

    @rule(process=PROCESSES, offset=OFFSETS, known=st.booleans())
    def save(self, process: int, offset: int, *, known: bool) -> None:
        self._draft(self.stores[process], offset, known=known)
        self.durable.add(offset)

    @rule(process=PROCESSES, offset=OFFSETS, step=st.integers(0, 60), power=st.booleans())
    def save_cut_off(self, process: int, offset: int, step: int, *, power: bool) -> None:
        self.disk.before = failing_at([step], lambda _: Crash())
        with suppress(Crash):
            self._draft(self.stores[process], offset, known=True)
        self.disk.before = lambda _: None
        self.perhaps.add(offset)
        self.stores[process] = self._opened()
        if power:
            self.power_fails()

    @rule()
    def power_fails(self) -> None:
        self.disk.crash()
        self.stores = [self._opened(), self._opened()]

    @rule(process=PROCESSES)
    def restore(self, process: int) -> None:
        found = self.stores[process].newest(PLACE)
        if found.saved is not None:
            self.durable.add(whole(found.saved))

    @rule()
    def time_passes(self) -> None:
        self.disk.now += GRACE + 1

    @rule()
    def archive(self) -> None:
        self.stores[0].archive(PLACE)
        self.durable.clear()
        self.perhaps.clear()

    @invariant()
    def the_highest_is_there_and_whole(self) -> None:
        found = FolderStore(STORE, self.disk).newest(PLACE)
        assert not found.damaged
        offset = -1 if found.saved is None else whole(found.saved)
        assert offset >= max(self.durable, default=-1)
        assert offset in self.durable | self.perhaps | {-1}

    @invariant()
    def every_file_is_whole(self) -> None:
        store = FolderStore(STORE, self.disk)
        for offset in store.offsets(PLACE):
            assert whole(store.checked(PLACE, offset)) == offset


def _nothing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Cleaner, "_files", lambda *_: iter(()))


def _newer_ones_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    files = Cleaner._files

    def lowest(cleaner: Cleaner, folder: Path) -> list[Path]:
        return sorted(files(cleaner, folder))[:1]

    monkeypatch.setattr(Cleaner, "_files", lowest)


BREAKAGES = {
    "blobs are removed that a checkpoint names": _nothing_is_named,
    "blobs are removed that only a newer checkpoint names": _newer_ones_are_forgotten,
}


@pytest.mark.nightly
@pytest.mark.parametrize("broken", BREAKAGES.values(), ids=BREAKAGES)
def test_the_histories_notice(
    broken: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    broken(monkeypatch)
    quick = settings(
        max_examples=400, stateful_step_count=30, deadline=None, phases=[Phase.generate]
    )
    with pytest.raises(DamagedStateError):
        run_state_machine_as_test(Histories, settings=quick)


TestHistories = Histories.TestCase
TestHistories.settings = settings(stateful_step_count=25)
