"""What every source delivers, and what it owes to the owner of its partitions."""

from __future__ import annotations

import importlib
import itertools
import pkgutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

from streameval import sources
from streameval.events.errors import StreamevalError
from streameval.events.records import Assignment, Partition, RecordBatch
from streameval.sources.source import Positions, Source
from tests.contract.source_cases import CASES, Content, Records
from tests.effort import PATIENCE


class RefusedError(StreamevalError):
    """What an owner raises here."""


class Owner:
    """Keeps what it was told and how far it was given records; begins where it left off.

    Attributes:
        told: what happened, in order; shared by owners that are watched together.
        held: what is ours at the moment.
        seen: how each partition was described.
        positions: where the next reading of each begins.
        read: offsets that were delivered of each.
    """

    def __init__(
        self, name: str = "", told: list[tuple[str, str, Partition]] | None = None
    ) -> None:
        self.name = name
        self.told = [] if told is None else told
        self.held: set[Partition] = set()
        self.seen: dict[Partition, Assignment] = {}
        self.positions: dict[Partition, int] = {}
        self.read: dict[Partition, list[int]] = {}
        self.refusing = ""
        self.while_revoked: Callable[[Sequence[Partition]], object] = len

    def assigned(self, assignments: Sequence[Assignment]) -> Mapping[Partition, int]:
        self._tell("assigned", [assignment.partition for assignment in assignments])
        self.seen |= {assignment.partition: assignment for assignment in assignments}
        self.held |= {assignment.partition for assignment in assignments}
        return {
            assignment.partition: self.positions.setdefault(assignment.partition, assignment.start)
            for assignment in assignments
        }

    def revoked(self, partitions: Sequence[Partition]) -> None:
        self._tell("revoked", partitions)
        self.while_revoked(partitions)
        self.held -= set(partitions)

    def lost(self, partitions: Sequence[Partition]) -> None:
        self._tell("lost", partitions)
        self.held -= set(partitions)

    def take(self, batches: Sequence[RecordBatch]) -> None:
        """Count what a poll gave; asserts that it is ours and goes on where we are."""
        for batch in batches:
            assert batch.partition in self.held, f"{batch.partition} is not ours"
            position = self.positions[batch.partition]
            assert all(offset >= position for offset in batch.offsets)
            assert batch.next_offset >= position
            self.positions[batch.partition] = batch.next_offset
            self.read.setdefault(batch.partition, []).extend(batch.offsets)

    def _tell(self, what: str, partitions: Sequence[Partition]) -> None:
        if self.refusing == what:
            raise RefusedError(f"{what} is refused")
        self.told += [(self.name, what, partition) for partition in partitions]


@pytest.fixture(params=[pytest.param(name, marks=case.marks) for name, case in CASES.items()])
def content(request: pytest.FixtureRequest, tmp_path: Path) -> Content:
    return CASES[request.param].prepare(tmp_path, request)


@pytest.fixture(
    params=[pytest.param(name, marks=case.marks) for name, case in CASES.items() if case.group]
)
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> Content:
    return CASES[request.param].prepare(tmp_path, request)


@contextmanager
def _opened(content: Content, owner: Owner) -> Iterator[Source]:
    with closing(content.source()) as source:
        source.open(owner)
        yield source


def _poll_until(condition: Callable[[], bool], *readers: tuple[Source, Owner]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        told = [(owner.told, owner.positions) for _, owner in readers]
        assert time.monotonic() < deadline, f"never so: {told}"
        for source, owner in readers:
            owner.take(source.poll(0.1))


def test_every_partition_is_handed_over_once_and_read_from_where_its_owner_says(
    content: Content,
) -> None:
    """What it is stays the same, closing tells nothing, and a commit has nobody to refuse it."""
    owners = Owner(), Owner()
    for owner in owners:
        owner.positions = {partition: end // 2 for partition, end in content.ends.items()}
        with _opened(content, owner) as source:
            before = source.status.joined
            _poll_until(lambda: owner.positions == content.ends, (source, owner))  # noqa: B023  used at once
            assert (before, source.status.joined) == (False, True)
            assert source.commit(content.ends) is None
        assert sorted(owner.told) == [("", "assigned", place) for place in sorted(content.ends)]
        for partition, records in content.records.items():
            seen, end = owner.seen[partition], content.ends[partition]
            later = [offset for offset, _ in records if offset >= end // 2]
            assert owner.read.get(partition, []) == later
            assert seen.identity == owners[0].seen[partition].identity != ""
            assert (seen.begin, seen.start) == (0, 0)
            assert seen.end >= end
    assert {seen.committed for seen in owners[0].seen.values()} == {None}


def test_an_owners_refusal_comes_out_of_poll_and_nothing_is_delivered(content: Content) -> None:
    owner = Owner()
    owner.refusing = "assigned"
    with _opened(content, owner) as source:
        with pytest.raises(RefusedError):
            _poll_until(lambda: bool(owner.told), (source, owner))
        assert not source.status.joined
        assert owner.positions == {}


def test_the_group_knows_what_was_committed_last(shared: Content) -> None:
    first, second = Owner(), Owner()
    with _opened(shared, first) as source:
        _poll_until(lambda: first.positions == shared.ends, (source, first))
        assert source.commit(shared.ends) is None
        ahead = max(shared.ends)
        assert source.commit({ahead: 3}) is None
    with _opened(shared, second) as source:
        _poll_until(lambda: second.held == shared.ends.keys(), (source, second))
    committed = {partition: seen.committed for partition, seen in second.seen.items()}
    assert committed == {**shared.ends, ahead: 3}


def test_what_is_not_ours_is_not_committed(shared: Content) -> None:
    foreign = Partition("elsewhere", 7)
    with closing(shared.source()) as source:
        owner = Owner()
        source.open(owner)
        _poll_until(lambda: owner.held == shared.ends.keys(), (source, owner))
        assert str(foreign) in str(source.commit({foreign: 1}))


def test_a_partition_is_finished_by_one_before_it_is_given_to_another(shared: Content) -> None:
    told: list[tuple[str, str, Partition]] = []
    a, b = Owner("a", told), Owner("b", told)
    with ExitStack() as stack:
        first = stack.enter_context(_opened(shared, a))
        _poll_until(lambda: a.positions == shared.ends, (first, a))
        second = stack.enter_context(_opened(shared, b))
        both = ((first, a), (second, b))
        _poll_until(lambda: bool(a.held and b.held and second.status.joined), *both)
        _poll_until(lambda: {**a.positions, **b.positions} == shared.ends, *both)
        assert not a.held & b.held
        assert a.held | b.held == shared.ends.keys()
    moved = next(iter(b.held))
    order = [(name, what) for name, what, partition in told if partition == moved]
    assert order == [("a", "assigned"), ("a", "revoked"), ("b", "assigned")]


def test_a_partition_that_is_still_being_finished_can_be_committed(shared: Content) -> None:
    a, b = Owner("a"), Owner("b")
    messages: list[object] = []
    with ExitStack() as stack:
        first = stack.enter_context(_opened(shared, a))
        _poll_until(lambda: a.positions == shared.ends, (first, a))
        a.while_revoked = lambda partitions: messages.append(
            first.commit({partition: a.positions[partition] for partition in partitions})
        )
        second = stack.enter_context(_opened(shared, b))
        _poll_until(lambda: bool(b.held), (first, a), (second, b))
        moved = next(iter(b.held))
        assert moved.topic in str(first.commit({moved: 1}))
    assert messages[0] is None
    assert b.seen[moved].committed == shared.ends[moved]


def test_what_comes_back_begins_where_the_owner_says_then(shared: Content) -> None:
    a, b = Owner("a"), Owner("b")
    with ExitStack() as stack:
        first = stack.enter_context(_opened(shared, a))
        _poll_until(lambda: a.positions == shared.ends, (first, a))
        second = stack.enter_context(_opened(shared, b))
        _poll_until(lambda: bool(b.held), (first, a), (second, b))
        second.close()
        back = next(iter(b.held))
        a.positions[back], a.read = 2, {}
        _poll_until(lambda: a.positions == shared.ends, (first, a))
        assert a.read[back] == [offset for offset, _ in shared.records[back] if offset >= 2]


def test_a_failing_revocation_comes_out_of_poll_and_gives_nothing_up(shared: Content) -> None:
    a, b = Owner("a"), Owner("b")
    with ExitStack() as stack:
        first = stack.enter_context(_opened(shared, a))
        _poll_until(lambda: a.held == shared.ends.keys(), (first, a))
        a.refusing = "revoked"
        second = stack.enter_context(_opened(shared, b))
        with pytest.raises(RefusedError):
            _poll_until(lambda: bool(b.held), (first, a), (second, b))
        assert not b.held
        a.refusing = ""
        _poll_until(lambda: bool(b.held), (first, a), (second, b))


def _read(
    source: Source, ends: Mapping[Partition, int], start: Mapping[Partition, int] | None = None
) -> list[RecordBatch]:
    """Batches until every partition came to its end, one of each a poll, and what comes after."""
    batches: list[RecordBatch] = []
    deadline = time.monotonic() + PATIENCE
    while (
        not source.status.finished and (reached := {**(start or {}), **_positions(batches)}) != ends
    ):
        assert time.monotonic() < deadline, f"only {reached} of {ends}"
        polled = source.poll(0.2)
        assert len({batch.partition for batch in polled}) == len(polled)
        batches += polled
    return [*batches, *source.poll(0.1)]


def _positions(batches: Sequence[RecordBatch]) -> dict[Partition, int]:
    return {batch.partition: batch.next_offset for batch in batches}


def _records(batches: Sequence[RecordBatch]) -> Records:
    by_partition: dict[Partition, list[tuple[int, bytes]]] = {}
    for batch in batches:
        numbered = zip(batch.offsets, batch.values, strict=True)
        by_partition.setdefault(batch.partition, []).extend(
            (n, v) for n, v in numbered if v is not None
        )
    return {partition: records for partition, records in by_partition.items() if records}


def _from(content: Content, positions: Mapping[Partition, int]) -> Records:
    later = {
        partition: [record for record in records if record[0] >= positions.get(partition, 0)]
        for partition, records in content.records.items()
    }
    return {partition: records for partition, records in later.items() if records}


def test_every_record_comes_once_in_order_and_up_to_the_ends(content: Content) -> None:
    with closing(content.source()) as source:
        source.open(Positions())
        assert not source.status.finished
        batches = _read(source, content.ends)
        assert source.status.finished is content.bounded
        assert source.status.ends == content.ends == _positions(batches)
        assert source.name
        assert source.cluster
        assert source.status.problem is None
    assert _records(batches) == content.records
    for partition in content.records:
        assigned = [batch for batch in batches if batch.partition == partition]
        seen = [[*batch.offsets, batch.next_offset] for batch in assigned]
        assert all(list(offsets) == sorted(set(offsets)) for offsets in seen)
        assert all(after[0] >= before[-1] for before, after in itertools.pairwise(seen))


def test_partitions_go_on_at_positions_of_their_own(content: Content) -> None:
    ahead = min(content.ends)
    positions = {ahead: content.ends[ahead] * 9 // 10}
    with closing(content.source()) as source:
        source.open(Positions(positions))
        batches = _read(source, content.ends)
    assert _records(batches) == _from(content, positions)
    assert all(batch.next_offset >= positions.get(batch.partition, 0) for batch in batches)


def test_a_new_source_goes_on_where_another_stopped(content: Content) -> None:
    batches: list[RecordBatch] = []
    with closing(content.source()) as first:
        first.open(Positions())
        while not any(batch.values for batch in batches):
            batches += first.poll(0.2)
    with closing(content.source()) as second:
        second.open(Positions(_positions(batches)))
        batches += _read(second, content.ends, _positions(batches))
    assert _records(batches) == content.records


def test_nothing_comes_where_there_is_nothing_left(content: Content) -> None:
    with closing(content.source()) as source:
        source.open(Positions(content.ends))
        for _ in range(3):
            assert not _records(source.poll(0.1))


def test_a_source_closes_twice_and_opens_again(content: Content) -> None:
    source = content.source()
    source.close()
    for _ in range(2):
        source.open(Positions())
        assert _records(_read(source, content.ends)) == content.records
        source.close()
        source.close()


def test_every_source_in_the_package_has_a_case() -> None:
    # One has no records, and refuses to open.
    cases = {case.kind for case in CASES.values()} | {"CountedElsewhere"}
    assert _source_classes() == cases - {"LogSource"}


def _source_classes() -> set[str]:
    modules = [
        module.name for module in pkgutil.walk_packages(sources.__path__, "streameval.sources.")
    ]
    content = [
        value for module in modules for value in vars(importlib.import_module(module)).values()
    ]
    members = {name: value for name, value in vars(Source).items() if not name.startswith("_")}
    contract = {name for name, value in members.items() if callable(value)}
    classes = [value for value in content if isinstance(value, type) and value is not Source]
    return {class_.__name__ for class_ in classes if contract <= set(dir(class_))}
