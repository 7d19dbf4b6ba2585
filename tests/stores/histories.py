"""A state machine of two processes on one store, for any kind of store."""

from __future__ import annotations

from abc import abstractmethod

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from streameval.checkpoints.store import Store
from streameval.errors import StoreError
from tests.stores.drafts import NOON, PLACE, Writer, whole

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
        self.writers = [self.started(), self.started()]

    @abstractmethod
    def fresh(self) -> Store:
        """A new `Store` object on the same files."""

    def started(self) -> Writer:
        store = self.fresh()
        store.claim("c1", "g1")
        return Writer(store)

    def write(self, process: int, offset: int) -> None:
        self.writers[process].save(offset, written_at=NOON + offset)

    @rule(process=PROCESSES, offset=OFFSETS, known=st.booleans())
    def save(self, process: int, offset: int, *, known: bool) -> None:
        if not known:
            self.writers[process].last = ()
        try:
            self.write(process, offset)
        except StoreError:
            # The other process has removed a blob of this one.
            self.write(process, offset)
        self.durable.add(offset)

    @rule(process=PROCESSES)
    def restore(self, process: int) -> None:
        found = self.writers[process].store.newest(PLACE).saved
        if found is not None:
            self.writers[process].last = found.entries
            self.durable.add(whole(found))

    @rule()
    def archive(self) -> None:
        self.writers[0].store.archive(PLACE)
        self.durable.clear()
        self.perhaps.clear()

    @invariant()
    def the_highest_is_there_and_whole(self) -> None:
        found = self.fresh().newest(PLACE)
        assert not found.damaged
        offset = -1 if found.saved is None else whole(found.saved)
        assert offset >= max(self.durable, default=-1)
        assert offset in self.durable | self.perhaps | {-1}

    @invariant()
    def every_file_is_whole(self) -> None:
        store = self.fresh()
        for offset in store.offsets(PLACE):
            assert whole(store.checked(PLACE, offset)) == offset
