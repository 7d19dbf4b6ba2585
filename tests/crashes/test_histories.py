"""After any history of two processes that crash anywhere, the highest saved checkpoint exists."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from streameval.checkpoints.cleaning import GRACE, Cleaner
from streameval.checkpoints.store import Store, folder_store
from streameval.events.errors import DamagedStateError, StoreError
from tests.crashes.simulated_disk import Crash, SimulatedDisk, failing_at
from tests.stores.drafts import NOON, PLACE, STORE, Writer, read_at, whole

OFFSETS = st.integers(0, 600)
PROCESSES = st.integers(0, 1)


class StoreHistories(RuleBasedStateMachine):
    """An owner, and a former owner that does not know it lost the partition.

    Attributes:
        writers: both processes.
        durable: offsets that were saved.
        perhaps: offsets whose save was interrupted.
    """

    def __init__(self) -> None:
        super().__init__()
        self.durable: set[int] = set()
        self.perhaps: set[int] = set()
        self.writers = [self.start(), self.start()]

    @abstractmethod
    def fresh(self) -> Store:
        """A new `Store` object on the same files."""

    def start(self) -> Writer:
        store = self.fresh()
        store.claim("c1", "g1")
        return Writer(store)

    def write(self, process: int, offset: int) -> None:
        self.writers[process].save(offset, written_at=NOON + offset)

    @rule(process=PROCESSES, offset=OFFSETS, retained=st.booleans())
    def save(self, process: int, offset: int, *, retained: bool) -> None:
        if not retained:
            self.writers[process].last = ()
        try:
            self.write(process, offset)
        except StoreError:
            # The other process has removed a blob of this one.
            self.write(process, offset)
        self.durable.add(offset)

    @rule(process=PROCESSES)
    def restore(self, process: int) -> None:
        checkpoint = self.writers[process].store.newest(PLACE).saved
        if checkpoint is not None:
            self.writers[process].last = checkpoint.entries
            self.durable.add(whole(checkpoint))

    @rule()
    def archive(self) -> None:
        self.writers[0].store.archive(PLACE)
        self.durable.clear()
        self.perhaps.clear()

    @invariant()
    def the_highest_is_there_and_whole(self) -> None:
        newest = self.fresh().newest(PLACE)
        assert not newest.damaged
        offset = -1 if newest.saved is None else whole(newest.saved)
        assert offset >= max(self.durable, default=-1)
        assert offset in self.durable | self.perhaps | {-1}

    @invariant()
    def every_file_is_whole(self) -> None:
        store = self.fresh()
        for offset in store.offsets(PLACE):
            assert whole(read_at(store, offset)) == offset


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
        self.writers[process] = self.start()
        if power:
            self.power_fails()

    @rule()
    def power_fails(self) -> None:
        self.disk.crash()
        self.writers = [self.start(), self.start()]

    @rule()
    def time_passes(self) -> None:
        self.disk.now += GRACE + 1


def _only(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Let the cleaner see only this many checkpoints, those with the lowest offsets."""
    references_of = Cleaner._references_of

    def lowest(*arguments: Any) -> Any:
        references = references_of(*arguments)
        return None if references is None else dict(sorted(references.items())[:number])

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
