"""Histories of three processes of a store, after which the highest checkpoints exist."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import suppress

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from streameval.checkpoints.format import Place
from streameval.checkpoints.storage import Storage
from streameval.checkpoints.store import Store
from streameval.events.errors import StoreError
from tests.stores.drafts import PLACE, Writer, whole

PLACES = [PLACE, PLACE._replace(number=4), PLACE._replace(topic="other")]
OFFSETS = st.integers(0, 600)
PROCESSES = st.integers(0, 2)
SOME = st.sets(st.sampled_from(PLACES), min_size=1)

Height = tuple[int, int]
"""Generation and offset of a checkpoint."""


class StoreHistories(RuleBasedStateMachine):
    """Three processes, none of which knows whether it still owns a place.

    Attributes:
        writers: the processes.
        durable: what was saved, by place.
        perhaps: what was saved or not: the save was interrupted.
        seen: of each place, what each process has saved or restored last; it goes on from there.
    """

    def __init__(self) -> None:
        super().__init__()
        self.durable: dict[Place, set[Height]] = {place: set() for place in PLACES}
        self.perhaps: dict[Place, set[Height]] = {place: set() for place in PLACES}
        self.seen: list[dict[Place, Height]] = [{}, {}, {}]
        self.writers = [self.start(process) for process in range(3)]

    @abstractmethod
    def storage(self) -> Storage:
        """A new storage of the same files."""

    def fresh(self) -> Store:
        """A new `Store` object on the same files."""
        return Store(self.storage())

    def start(self, process: int) -> Writer:
        store = self.fresh()
        store.claim("c1", "g1")
        self.seen[process] = dict.fromkeys(PLACES, (0, 0))
        return Writer(store)

    def heights(self, process: int, offset: int, places: set[Place]) -> dict[Place, Height]:
        """What the process saves next of these places."""
        seen = self.seen[process]
        return {place: (seen[place][0], max(offset, seen[place][1])) for place in sorted(places)}

    def write(self, process: int, heights: dict[Place, Height], owned: set[Place]) -> None:
        """Save places of one generation in a round; those of others in the next."""
        for generation in sorted({generation for generation, _ in heights.values()}):
            of_it = {place: of[1] for place, of in heights.items() if of[0] == generation}
            self.writers[process].save_all(of_it, owned | {*heights}, generation)
            for place in of_it:
                self.durable[place].add(heights[place])
                self.seen[process][place] = heights[place]

    @rule(process=PROCESSES, offset=OFFSETS, places=SOME, owned=SOME)
    def save(self, process: int, offset: int, places: set[Place], owned: set[Place]) -> None:
        heights = self.heights(process, offset, places)
        for _ in range(3):
            # Others may have taken this process for dead, and have removed its rounds.
            with suppress(StoreError):
                self.write(process, heights, owned)
                return
        raise AssertionError

    @rule(process=PROCESSES, place=st.sampled_from(PLACES))
    def restore(self, process: int, place: Place) -> None:
        checkpoint = self.writers[process].store.newest(place).saved
        if checkpoint is not None:
            whole(checkpoint, place)
            height = checkpoint.header.generation, checkpoint.header.offset
            self.seen[process][place] = height
            self.durable[place].add(height)

    @rule(process=PROCESSES, place=st.sampled_from(PLACES), offset=OFFSETS)
    def start_over(self, process: int, place: Place, offset: int) -> None:
        self.restore(process, place)
        self.writers[process].store.archive(place)
        self.seen[process][place] = self.seen[process][place][0] + 1, 0
        self.save(process, offset, {place}, set())

    @invariant()
    def the_highest_is_there_and_whole(self) -> None:
        store = self.fresh()
        listing = store.listing()
        for place in PLACES:
            newest = store.newest(place, listing)
            assert not newest.damaged
            height = -1, -1
            if newest.saved is not None:
                height = newest.saved.header.generation, whole(newest.saved, place)
            durable, perhaps = self.durable[place], self.perhaps[place]
            assert height >= max(durable, default=(-1, -1))
            assert height in durable | perhaps | {(-1, -1)}
