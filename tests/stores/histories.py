"""Histories of three processes of a store, after which the highest checkpoints exist."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import suppress

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from streameval.checkpoints.format import Shard
from streameval.checkpoints.storage import Storage
from streameval.checkpoints.store import Store
from streameval.events.errors import StoreError
from tests.stores.drafts import SHARD, Writer, whole

SHARDS = [SHARD, SHARD._replace(number=4), SHARD._replace(topic="other")]
OFFSETS = st.integers(0, 600)
PROCESSES = st.integers(0, 2)
SOME = st.sets(st.sampled_from(SHARDS), min_size=1)

Height = tuple[int, int]
"""Generation and offset of a checkpoint."""


class StoreHistories(RuleBasedStateMachine):
    """Three processes, none of which knows whether it still owns a shard.

    Attributes:
        writers: the processes.
        durable: what was saved, by shard.
        perhaps: what was saved or not: the save was interrupted.
        seen: of each shard, what each process has saved or restored last; it goes on from there.
    """

    def __init__(self) -> None:
        super().__init__()
        self.durable: dict[Shard, set[Height]] = {shard: set() for shard in SHARDS}
        self.perhaps: dict[Shard, set[Height]] = {shard: set() for shard in SHARDS}
        self.seen: list[dict[Shard, Height]] = [{}, {}, {}]
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
        self.seen[process] = dict.fromkeys(SHARDS, (0, 0))
        return Writer(store)

    def heights(self, process: int, offset: int, shards: set[Shard]) -> dict[Shard, Height]:
        """What the process saves next of these shards."""
        seen = self.seen[process]
        return {shard: (seen[shard][0], max(offset, seen[shard][1])) for shard in sorted(shards)}

    def write(self, process: int, heights: dict[Shard, Height], owned: set[Shard]) -> None:
        """Save shards of one generation in a round; those of others in the next."""
        for generation in sorted({generation for generation, _ in heights.values()}):
            of_it = {shard: of[1] for shard, of in heights.items() if of[0] == generation}
            self.writers[process].save_all(of_it, owned | {*heights}, generation)
            for shard in of_it:
                self.durable[shard].add(heights[shard])
                self.seen[process][shard] = heights[shard]

    @rule(process=PROCESSES, offset=OFFSETS, shards=SOME, owned=SOME)
    def save(self, process: int, offset: int, shards: set[Shard], owned: set[Shard]) -> None:
        heights = self.heights(process, offset, shards)
        for _ in range(3):
            # Others may have taken this process for dead, and have removed its rounds.
            with suppress(StoreError):
                self.write(process, heights, owned)
                return
        raise AssertionError

    @rule(process=PROCESSES, shard=st.sampled_from(SHARDS))
    def restore(self, process: int, shard: Shard) -> None:
        checkpoint = self.writers[process].store.newest(shard).saved
        if checkpoint is not None:
            whole(checkpoint, shard)
            height = checkpoint.header.generation, checkpoint.header.offset
            self.seen[process][shard] = height
            self.durable[shard].add(height)

    @rule(process=PROCESSES, shard=st.sampled_from(SHARDS), offset=OFFSETS)
    def start_over(self, process: int, shard: Shard, offset: int) -> None:
        self.restore(process, shard)
        self.writers[process].store.archive(shard)
        self.seen[process][shard] = self.seen[process][shard][0] + 1, 0
        self.save(process, offset, {shard}, set())

    @invariant()
    def the_highest_is_there_and_whole(self) -> None:
        store = self.fresh()
        listing = store.listing()
        for shard in SHARDS:
            newest = store.newest(shard, listing)
            assert not newest.damaged
            height = -1, -1
            if newest.saved is not None:
                height = newest.saved.header.generation, whole(newest.saved, shard)
            durable, perhaps = self.durable[shard], self.perhaps[shard]
            assert height >= max(durable, default=(-1, -1))
            assert height in durable | perhaps | {(-1, -1)}
