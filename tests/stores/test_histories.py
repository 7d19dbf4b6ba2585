"""After any history of two processes that crash anywhere, the highest saved checkpoint exists."""

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
from streameval.errors import DamagedStateError, StoreError
from tests.stores.histories import OFFSETS, PROCESSES, StoreHistories
from tests.stores.simulated_disk import Crash, SimulatedDisk, failing_at

STORE = Path("/disk/state")


class Histories(StoreHistories):
    """Histories on a disk that may lose power."""

    def __init__(self) -> None:
        self.disk = SimulatedDisk(STORE.parent, seed=3)
        super().__init__()

    def fresh(self) -> Store:
        return folder_store(STORE, self.disk)

    @rule(process=PROCESSES, offset=OFFSETS, step=st.integers(0, 60), power=st.booleans())
    def save_cut_off(self, process: int, offset: int, step: int, *, power: bool) -> None:
        with self.disk.failing(failing_at([step], Crash)), suppress(StoreError):
            self.write(process, offset)
        self.perhaps.add(offset)
        self.writers[process] = self.started()
        if power:
            self.power_fails()

    @rule()
    def power_fails(self) -> None:
        self.disk.crash()
        self.writers = [self.started(), self.started()]

    @rule()
    def time_passes(self) -> None:
        self.disk.now += GRACE + 1


def _only(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Let the cleaner see only this many checkpoints, those with the lowest offsets."""
    references_of = Cleaner._references_of

    def lowest(*arguments: Any) -> Any:
        found = references_of(*arguments)
        return None if found is None else dict(sorted(found.items())[:number])

    monkeypatch.setattr(Cleaner, "_references_of", lowest)


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
def test_the_histories_notice_broken_cleaning(
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
