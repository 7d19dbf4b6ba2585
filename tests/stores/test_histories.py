"""Two processes on one store, in any order, cut off anywhere: the highest saved is there."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import rule, run_state_machine_as_test

from streameval.checkpoints.cleaning import GRACE, Cleaner
from streameval.checkpoints.store import Store, folder_store
from streameval.errors import DamagedStateError
from tests.stores.drafts import NOON, draft
from tests.stores.forgetful import Crash, ForgetfulDisk, failing_at
from tests.stores.histories import OFFSETS, PROCESSES, StoreHistories

STORE = Path("/disk/state")


class Histories(StoreHistories):
    """An owner and one that does not know that it is none any more."""

    def __init__(self) -> None:
        super().__init__()
        self.disk = ForgetfulDisk(STORE.parent, seed=3)
        self.stores = [self._opened(), self._opened()]

    def fresh(self) -> Store:
        return folder_store(STORE, self.disk)

    def _opened(self) -> Store:
        store = folder_store(STORE, self.disk)
        store.claim("c1", "g1")
        return store

    def _draft(self, store: Store, offset: int, *, known: bool) -> None:
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

    @rule()
    def time_passes(self) -> None:
        self.disk.now += GRACE + 1


def _only(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Only so many of the lowest checkpoints are looked at."""
    tables_of = Cleaner._tables_of

    def lowest(*arguments: Any) -> Any:
        found = tables_of(*arguments)
        return None if found is None else dict(sorted(found.items())[:number])

    monkeypatch.setattr(Cleaner, "_tables_of", lowest)


def _nothing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    _only(monkeypatch, 0)


def _newer_ones_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    _only(monkeypatch, 1)


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
