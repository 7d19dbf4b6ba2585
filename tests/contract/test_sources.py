"""One contract, kept by every source."""

from __future__ import annotations

import importlib
import itertools
import pkgutil
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from streameval import sources
from streameval.events.records import Partition, RecordBatch
from streameval.sources.source import Positions, Source
from tests.contract.source_cases import CASES, Content, Records
from tests.effort import PATIENCE


@pytest.fixture(params=[pytest.param(name, marks=case.marks) for name, case in CASES.items()])
def content(request: pytest.FixtureRequest, tmp_path: Path) -> Content:
    return CASES[request.param].prepare(tmp_path, request)


def _read(
    source: Source, ends: Mapping[Partition, int], start: Mapping[Partition, int] | None = None
) -> list[RecordBatch]:
    """Batches until every partition came to its end, one of each a poll, and what comes after."""
    batches: list[RecordBatch] = []
    deadline = time.monotonic() + PATIENCE
    while not source.finished and (reached := {**(start or {}), **_positions(batches)}) != ends:
        assert time.monotonic() < deadline, f"only {reached} of {ends}"
        polled = source.poll(0.2)
        assert len({batch.partition for batch in polled}) == len(polled)
        batches += polled
    return [*batches, *source.poll(0.1)]


def _positions(batches: Sequence[RecordBatch]) -> dict[Partition, int]:
    return {batch.partition: batch.next_offset for batch in batches}


def _records(batches: Sequence[RecordBatch]) -> Records:
    found: dict[Partition, list[tuple[int, bytes]]] = {}
    for batch in batches:
        numbered = zip(batch.offsets, batch.values, strict=True)
        found.setdefault(batch.partition, []).extend((n, v) for n, v in numbered if v is not None)
    return {partition: records for partition, records in found.items() if records}


def _from(content: Content, positions: Mapping[Partition, int]) -> Records:
    later = {
        partition: [record for record in records if record[0] >= positions.get(partition, 0)]
        for partition, records in content.records.items()
    }
    return {partition: records for partition, records in later.items() if records}


def test_every_record_comes_once_in_order_and_up_to_the_ends(content: Content) -> None:
    with closing(content.source()) as source:
        source.open(Positions())
        assert not source.finished
        batches = _read(source, content.ends)
        assert source.finished is content.bounded
        assert source.end_offsets() == content.ends == _positions(batches)
        assert source.name
        assert source.cluster
        assert source.trouble is None
    assert _records(batches) == content.records
    for partition in content.records:
        mine = [batch for batch in batches if batch.partition == partition]
        seen = [[*batch.offsets, batch.next_offset] for batch in mine]
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
    # It reads through another, and tests/schemas/test_source.py is its own.
    found = _source_classes() - {"SchemaSource"}
    assert found == {case.kind for case in CASES.values()} - {"LogSource"}


def _source_classes() -> set[str]:
    modules = [each.name for each in pkgutil.walk_packages(sources.__path__, "streameval.sources.")]
    content = [
        value for module in modules for value in vars(importlib.import_module(module)).values()
    ]
    members = {name: value for name, value in vars(Source).items() if not name.startswith("_")}
    contract = {name for name, value in members.items() if callable(value)}
    classes = [value for value in content if isinstance(value, type) and value is not Source]
    return {each.__name__ for each in classes if contract <= set(dir(each))}
