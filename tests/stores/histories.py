"""What histories of two processes on one store have in common, whatever the store."""

from __future__ import annotations

from abc import abstractmethod

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from streameval.checkpoints.store import Store
from tests.stores.drafts import PLACE, whole

OFFSETS = st.integers(0, 600)
PROCESSES = st.integers(0, 1)


class StoreHistories(RuleBasedStateMachine):
    """An owner and one that does not know that it is none any more.

    Attributes:
        stores: that of each process.
        durable: offsets that were saved.
        perhaps: offsets whose saving was cut off.
    """

    stores: list[Store]

    def __init__(self) -> None:
        super().__init__()
        self.durable: set[int] = set()
        self.perhaps: set[int] = set()

    @abstractmethod
    def fresh(self) -> Store:
        """The same store, as one sees it who has not read it yet."""

    @rule(process=PROCESSES)
    def restore(self, process: int) -> None:
        found = self.stores[process].newest(PLACE)
        if found.saved is not None:
            self.durable.add(whole(found.saved))

    @rule()
    def archive(self) -> None:
        self.stores[0].archive(PLACE)
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
