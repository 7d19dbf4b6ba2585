"""Random schedules of faults and rebalances, drawn by Hypothesis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from streameval.events.records import Partition
from tests.crashes.cluster import NAMES, PARTITIONS, SimulatedCluster
from tests.durability.process import Process, record
from tests.effort import thorough


class Coming(NamedTuple):
    """Records that are appended to a partition, and counted by its readers.

    Attributes:
        kinds: of each record: a variant with minutes forward or backward, or an invalid record.
        counted: how many records each reader counts then, zombies included.
    """

    which: Partition
    kinds: list[tuple[str, int]]
    counted: int


class Death(NamedTuple):
    """How a process ends.

    Attributes:
        point: where it is killed, if it gets there; otherwise right after its work.
        times: on which pass of the point.
        power: whether the disk loses what was not synced.
    """

    point: str
    times: int
    power: bool = True


OTHER: Final = {"bad": b"garbage", "list": b"[]", "tombstone": None}
POINTS: Final = (
    "disk: create",
    "disk: write",
    "disk: sync",
    "disk: rename_new",
    "disk: sync_folder",
    "disk: remove",
    "commit: before",
    "commit: after",
    "letters: before",
    "letters: half",
)

_WHO = st.sampled_from(NAMES)
_WHICH = st.sampled_from(PARTITIONS)
_KIND = st.tuples(
    st.sampled_from(["w", "x", "y", "z", "x", "y", "again", "gap", *OTHER]),
    st.sampled_from([0, 0, 1, 1, 3, -1, -3, -6]),
)
_COMING = st.builds(
    Coming, _WHICH, st.lists(_KIND, min_size=1, max_size=6), st.sampled_from([0, 1, 3, 100])
)
_DEATH = st.builds(Death, st.sampled_from(POINTS), st.sampled_from([1, 1, 1, 2, 4]), st.booleans())


class Machine(RuleBasedStateMachine):
    """Each rule is one fault or rebalance, mostly after some traffic; then invariants hold."""

    def __init__(self) -> None:
        super().__init__()
        self.world = SimulatedCluster()
        self._number = self._minute = 0
        self._written: list[tuple[Partition, bytes]] = []

    @initialize(coming=_COMING)
    def the_first_are_assigned(self, coming: Coming) -> None:
        for name, partition in zip(NAMES, PARTITIONS, strict=False):
            self._move(partition, name)
        self._comes(coming)

    @rule(coming=_COMING)
    def records_come(self, coming: Coming) -> None:
        self._comes(coming)

    @rule(coming=_COMING, who=_WHO)
    def checkpoints_are_made(self, coming: Coming, who: str) -> None:
        self._comes(coming)
        self._process(who).checkpoint()

    @rule(coming=_COMING)
    def everybody_makes_checkpoints(self, coming: Coming) -> None:
        self._comes(coming)
        for name in NAMES:
            self._process(name).checkpoint()

    @rule(coming=_COMING, which=_WHICH, who=_WHO)
    def a_partition_moves(self, coming: Coming, which: Partition, who: str) -> None:
        self._comes(coming)
        self._move(which, who)

    @rule(coming=_COMING, who=_WHO, then=st.sampled_from(["nothing", "told", "saving"]))
    def a_partition_goes_to_another_unknown_to_its_holder(
        self, coming: Coming, who: str, then: str
    ) -> None:
        name = self.world.group.holder.get(coming.which)
        if name is None or name == who:
            return
        self.world.lose(name, coming.which)
        self._move(coming.which, who)
        self._comes(coming)
        if then == "told":
            self.a_zombie_is_told(name)
        if then == "saving":
            self._process(name).checkpoint()
        if then != "nothing":
            self._process(who).checkpoint()

    @rule(who=_WHO)
    def a_zombie_is_told(self, who: str) -> None:
        self.world.group.tell(who)
        self._process(who).work()

    @rule(coming=_COMING, death=_DEATH, heir=_WHO)
    def one_dies_in_a_checkpoint(self, coming: Coming, death: Death, heir: str) -> None:
        self._comes(coming)
        for process in self.world.readers(coming.which):
            self._dies(process, process.checkpoint, death)
        self._move(coming.which, heir)

    @rule(coming=_COMING, death=_DEATH, heir=_WHO)
    def one_dies_while_it_is_revoked(self, coming: Coming, death: Death, heir: str) -> None:
        self._comes(coming)
        holder = self.world.holder(coming.which)
        if holder is not None:
            self.world.group.revoke(holder.name, [coming.which])
            self._dies(holder, holder.work, death)
        self._move(coming.which, heir)

    @rule(which=_WHICH, who=_WHO, death=st.builds(Death, st.just("disk: read"), st.integers(1, 12)))
    def one_dies_in_restore(self, which: Partition, who: str, death: Death) -> None:
        self._take_away(which)
        self.world.group.assign(who, [which])
        self._dies(self._process(who), self._process(who).work, death)

    @rule(coming=_COMING, who=_WHO)
    def one_ends_in_order(self, coming: Coming, who: str) -> None:
        self._comes(coming)
        self._process(who).end()
        self.world.restart(who)

    @rule(who=_WHO)
    def a_batch_comes_twice(self, who: str) -> None:
        self.world.deliver_twice(self._process(who))

    @rule(coming=_COMING, landed=st.booleans())
    def a_commit_fails(self, coming: Coming, *, landed: bool) -> None:
        self._comes(coming)
        for process in self.world.readers(coming.which):
            self.world.fail_commit(process.name, landed=landed)
            process.checkpoint()

    @rule(
        coming=_COMING,
        call=st.sampled_from(["create", "write", "sync", "rename_new", "sync_folder"]),
    )
    def the_disk_is_full(self, coming: Coming, call: str) -> None:
        self._comes(coming)
        self.world.kill_point.refused = frozenset({f"disk: {call}"})
        for process in self.world.readers(coming.which):
            process.checkpoint()
        self.world.kill_point.refused = frozenset()

    @rule(coming=_COMING)
    def dead_letters_cannot_be_written(self, coming: Coming) -> None:
        self._comes(coming)
        for process in self.world.readers(coming.which):
            process.letters.failing = True
            process.checkpoint()
            process.letters.failing = False

    @rule()
    def the_power_fails_in_between(self) -> None:
        self.world.disk.crash()

    @invariant()
    def all_is_true(self) -> None:
        self.world.check()

    def _process(self, who: str) -> Process:
        return self.world.processes[who]

    def _comes(self, coming: Coming) -> None:
        for kind, minutes in coming.kinds:
            if kind == "gap":
                self.world.log.skip(coming.which)
            elif kind in OTHER:
                self._append(coming.which, OTHER[kind])
            elif kind == "again" and self._written:
                self._append(*self._written[minutes % len(self._written)])
            else:
                self._event(coming.which, kind, minutes)
        for process in self.world.readers(coming.which):
            process.work(coming.which, coming.counted)

    def _event(self, which: Partition, variant: str, minutes: int) -> None:
        self._number += 1
        self._minute += max(0, minutes)
        minute = max(0, self._minute + min(0, minutes))
        hit = self._number % 3 > 0
        self._append(which, record(self._number, minute=minute, variant=variant, hit=hit))

    def _append(self, partition: Partition, value: bytes | None) -> None:
        self.world.log.append(partition, value, timestamp=2_000_000_000_000)
        if value is not None and value.startswith(b"{"):
            self._written.append((partition, value))

    def _move(self, partition: Partition, who: str) -> None:
        self._take_away(partition)
        self.world.group.assign(who, [partition])
        self._process(who).work()

    def _take_away(self, partition: Partition) -> None:
        holder = self.world.holder(partition)
        if holder is not None:
            self.world.group.revoke(holder.name, [partition])
            holder.work()

    def _dies(self, process: Process, act: Callable[[], None], death: Death) -> None:
        self.world.kill_point.set(death.point, death.times)
        self.world.crash(process.name, act, power=death.power)


def run(examples: int, *, derandomize: bool = True) -> None:
    """Run random schedules: the same every time, or new ones, whose shortest form is printed."""
    chosen = settings(
        max_examples=examples,
        stateful_step_count=30,
        derandomize=derandomize,
        database=None,
        deadline=None,
        phases=[Phase.generate] if derandomize else [Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(Machine, settings=chosen)


def test_no_schedule_breaks_an_invariant() -> None:
    if thorough():
        run(300, derandomize=False)
    else:
        run(8)
