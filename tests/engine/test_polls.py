"""A poll is counted as one batch, and each partition's state is as if its batches came alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streameval import Intervals
from streameval.accumulator.table import Table
from streameval.decoding.columns import Decoded
from streameval.decoding.decode import Decoder
from streameval.engine import ingest as module
from streameval.engine.ingest import EventFrontend, Ingest
from streameval.engine.partition import Layout
from streameval.engine.windows.family import FamilySpec
from streameval.engine.windows.labels import LabelCapOptions
from streameval.events.errors import SourceError, UncountableRecordsError
from streameval.events.records import Partition, RecordBatch
from tests.engine.counting import FIELDS, METRICS, MINUTE, batch, ingest, layout, parts, record
from tests.engine.picky import PICKY

Value = bytes | None
Poll = Sequence[tuple[int, Sequence[Value]]]
"""Partition and values of each batch."""

PARTITIONS = range(4)


def _layout(intervals: Intervals | None = None, cap: int = 50) -> Layout:
    """A family of labels and one of a segment, with windows, users and a metric of events."""
    requested = (*METRICS, PICKY)
    of = layout(requested, spans=(5 * MINUTE, 180 * MINUTE), dedup=10 * MINUTE, intervals=intervals)
    (labels,) = of.families
    segment = FamilySpec(
        name="country",
        metrics=labels.metrics,
        table=labels.table,
        dimensions=("variant", "country"),
        columns=(1, 0),
        spans=labels.spans,
        label_caps=LabelCapOptions(cap=cap, max_series=3 * cap),
    )
    return Layout(
        families=[labels, segment], windowing=of.windowing, dedup=of.dedup, intervals=intervals
    )


def _ingest(of: Layout, **options: Any) -> Ingest:
    return Ingest(EventFrontend(Decoder(FIELDS, ("variant", "country")), of), **options)


events = st.builds(
    record,
    ts=st.integers(0, 900) | st.integers(0, 9 * 3600) | st.just(4_000_000_000),
    id=st.sampled_from("abcdefghijkl"),
    variant=st.sampled_from("abc"),
    country=st.sampled_from("pqrstu"),
    user=st.sampled_from(["u1", "u2", "u3", None]),
    recommendations=st.sampled_from([["a"], ["a", "b"], ["b", "c", "a"], ["a", "poison"]]),
    interactions=st.sampled_from([[], ["a"], ["b", "z"], {"a": 2.5}]),
)
values = st.lists(st.none() | events | events | events | st.just(b"x"), max_size=8)
polls = st.lists(
    st.lists(st.tuples(st.sampled_from(PARTITIONS), values), max_size=6), min_size=1, max_size=5
)
layouts = st.builds(
    _layout, st.sampled_from([None, Intervals(groups=16)]), cap=st.sampled_from([2, 50])
)


class _Reader:
    """Counts polls; `together`: whether the batches of a poll are given at once."""

    def __init__(self, of: Layout, *, together: bool) -> None:
        self.of, self._together = of, together
        self.ingest = _ingest(of, keep_dead_letters=True)
        self._positions: defaultdict[int, int] = defaultdict(int)

    def count(self, poll: Poll) -> None:
        batches = list[RecordBatch]()
        for number, of_batch in poll:
            batches.append(batch(of_batch, number, self._positions[number]))
            self._positions[number] += len(of_batch)
        if self._together:
            self.ingest.apply(*batches)
        for each in () if self._together else batches:
            self.ingest.apply(each)

    def rebalance(self, number: int) -> None:
        """Lose a partition, and get it back from its saved state."""
        log = Partition("events", number)
        if log in self.ingest.partitions:
            saved, position = parts(self.ingest, number), self.ingest.positions[log]
            self.ingest.drop(log)
            self.ingest.restore(log, {log: position}, saved)

    def states(self) -> dict[int, dict[str, bytes]]:
        return {log.number: parts(self.ingest, log.number) for log in self.ingest.partitions}

    def letters(self) -> list[tuple[int, int, str]]:
        taken = self.ingest.take_dead_letters()
        return sorted((each.partition.number, each.offset, each.reason) for each in taken)


@given(layouts, polls, st.lists(st.none() | st.sampled_from(PARTITIONS)), st.integers(1, 40))
def test_a_whole_poll_gives_the_bytes_of_its_batches_one_by_one(
    of: Layout, polled: list[Poll], lost: list[int | None], size: int
) -> None:
    together, alone = _Reader(of, together=True), _Reader(of, together=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "RECORDS_AT_ONCE", size)
        for index, poll in enumerate(polled):
            for reader in (together, alone):
                reader.count(poll)
                number = lost[index] if index < len(lost) else None
                if number is not None:
                    reader.ingest.copied()
                    reader.rebalance(number)
    assert together.states() == alone.states()
    assert together.letters() == alone.letters()
    assert together.ingest.tally == alone.ingest.tally
    assert together.ingest.positions == alone.ingest.positions


def _poll(places: Sequence[int] = PARTITIONS, lists: int = 3) -> list[tuple[int, list[Value]]]:
    return [
        (number, [record(ts=at, id=f"{number}/{at}", country="p") for at in range(lists)])
        for number in places
    ]


class _Unsociable(Decoder):
    """Raises for records of countries "p" and "q" together, as a bug might."""

    def decode_many(self, values: Sequence[Value]) -> Decoded:
        joined = b"".join(value or b"" for value in values)
        if b'"p"' in joined and b'"q"' in joined:
            raise KeyError("country")
        return super().decode_many(values)


def test_batches_that_fail_only_together_are_counted_one_by_one() -> None:
    of = _layout()
    values: list[Value] = [record(ts=at, id=str(at), country="q") for at in range(3)]
    polled = [*_poll([0, 1]), (2, values), (3, [b"x", *values])]
    reader = _Reader(of, together=True)
    reader.ingest = Ingest(
        EventFrontend(_Unsociable(FIELDS, ("variant", "country")), of), keep_dead_letters=True
    )
    alone = _Reader(of, together=False)
    for each in (reader, alone):
        each.count(polled)
    assert reader.states() == alone.states()
    assert reader.letters() == alone.letters() == [(3, 0, "not_json")]


def test_an_interrupt_before_anything_is_counted_leaves_no_trace() -> None:
    of = _layout()
    interrupted = list[bool]()

    class Interrupted(Decoder):
        def decode_many(self, values: Sequence[Value]) -> Decoded:
            decoded = super().decode_many(values)
            if not interrupted:
                interrupted.append(True)
                raise KeyboardInterrupt
            return decoded

    reader = Ingest(EventFrontend(Interrupted(FIELDS, ("variant", "country")), of))
    batches = [batch(of_batch, number) for number, of_batch in _poll()]
    with pytest.raises(KeyboardInterrupt):
        reader.apply(*batches)
    reader.apply(*batches)
    once = _ingest(of)
    once.apply(*batches)
    assert [parts(reader, number) for number in PARTITIONS] == [
        parts(once, number) for number in PARTITIONS
    ]


def test_a_poll_that_begins_before_a_position_counts_nothing() -> None:
    reader = _Reader(_layout(), together=True)
    reader.count(_poll())
    before = reader.states()
    batches = [batch(of_batch, number, 3 - (number == 3)) for number, of_batch in _poll()]
    with pytest.raises(SourceError, match=r"events\[3\].* record 2 was delivered again"):
        reader.ingest.apply(*batches)
    assert reader.states() == before


def test_a_bug_while_a_poll_is_counted_names_all_its_records(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def failing(*_: object) -> None:
        raise ZeroDivisionError

    reader = ingest()
    monkeypatch.setattr(Table, "count", failing)
    with pytest.raises(UncountableRecordsError) as caught:
        reader.apply(batch([record()] * 3, 0, 7), batch([], 1), batch([record()], 2, 9))
    assert caught.value.records == [("events[0]", 7, 9), ("events[2]", 9, 9)]


@pytest.mark.parametrize("read", [Ingest.copied, lambda ingest: parts(ingest, 3)])
def test_partitions_settle_together(read: Callable[[Ingest], object]) -> None:
    """Reading one partition moves the pending counts of all, with users, into their panes once."""
    reader = _Reader(_layout(Intervals(groups=16)), together=True)
    reader.count(_poll())
    read(reader.ingest)
    distributed = list[int]()
    with pytest.MonkeyPatch.context() as patch:
        distribute = Table.distribute

        def counted(self: Table, bits: int, targets: Any) -> None:
            distributed.append(len(targets))
            distribute(self, bits, targets)

        patch.setattr(Table, "distribute", counted)
        reader.count([(number, [record(ts=9, id="n")]) for number in PARTITIONS])
        for number in PARTITIONS:
            parts(reader.ingest, number)
    # Of two families, the panes and the day.
    assert distributed == [len(PARTITIONS)] * 4
