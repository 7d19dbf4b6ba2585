"""Lists of rankers that were not shown wait in a join until the window of their list is over."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from streameval.config import Config, load
from streameval.config.pipeline import new_ingest
from streameval.engine.ingest import Ingest
from streameval.events.records import Partition
from tests.batches import batch_of, content_of
from tests.engine.test_rankers import content, events, lifetime

START: Final = 1_790_000_000
LISTS, CLICKS = Partition("lists", 0), Partition("clicks", 0)
FIELDS: Final = """
metrics = ["ctr", "ndcg@4", "value_per_list"]
labels = ["variant"]
intervals = { groups = 64 }
max_ahead = "10d"
"""
EVENT: Final = """
[event]
time = "ts"
time_unit = "s"
rankers = { challenger = "rankings.challenger", control = "rankings.control" }
"""
JOIN: Final = f"""{FIELDS}
[source]
type = "kafka"
topics = ["lists", "clicks"]
{EVENT}
[attribution]
impressions = "lists"
window = "30m"
[[attribution.interactions]]
source = "clicks"
types = {{ click = 2 }}
"""
PLAIN: Final = f"""{FIELDS}
[source]
type = "kafka"
topics = ["lists"]
{EVENT}"""


@pytest.fixture
def joins(tmp_path: Path) -> Config:
    path = tmp_path / "join.toml"
    path.write_text(JOIN)
    return load(path)


@pytest.fixture
def plain(tmp_path: Path) -> Config:
    path = tmp_path / "plain.toml"
    path.write_text(PLAIN)
    return load(path)


def streams(rows: Sequence[dict[str, Any]]) -> Iterator[list[bytes]]:
    """The lists, and the clicks on them a minute later."""
    yield [
        msgspec.json.encode({**row, "request_id": row["id"], "interactions": None}) for row in rows
    ]
    yield [
        msgspec.json.encode(
            {"request_id": row["id"], "ts": row["ts"] + 60, "item": item, "type": "click"}
        )
        for row in rows
        for item in row["interactions"]
    ]


def fed(ingest: Ingest, streams: Sequence[Sequence[bytes]], begins: Sequence[int]) -> None:
    for partition, values, begin in zip((LISTS, CLICKS), streams, begins, strict=True):
        ingest.apply(batch_of(partition, values[begin:], begin))


def parts_of(ingest: Ingest) -> dict[str, bytes]:
    return content_of(ingest.sections(LISTS))


def test_closed_lists_count_as_events_with_their_interactions_do(
    joins: Config, plain: Config
) -> None:
    rows = events(400)
    ingest = new_ingest(joins)
    ingest.begin(LISTS, {LISTS: 0, CLICKS: 0})
    fed(ingest, [*streams(rows)], (0, 0))
    events_alone = new_ingest(plain)
    events_alone.apply(batch_of(LISTS, [msgspec.json.encode(row) for row in rows]))
    total = lifetime(events_alone)
    assert lifetime(ingest) != total, "the newest lists wait for the end of their window"
    ingest.end([LISTS, CLICKS])
    assert lifetime(ingest) == total
    assert {labels[1] for labels in lifetime(ingest)} == {"shown", "challenger", "control"}


@pytest.mark.parametrize("seed", [1, 2])
def test_a_join_that_was_restored_while_lists_waited_has_the_same_bytes(
    joins: Config, seed: int
) -> None:
    total, halves = new_ingest(joins), new_ingest(joins)
    of_streams = [*streams(events(300))]
    cuts = [random.Random(seed).randrange(len(stream)) for stream in of_streams]
    for ingest in (total, halves):
        ingest.begin(LISTS, {LISTS: 0, CLICKS: 0})
    fed(total, of_streams, (0, 0))
    fed(halves, [stream[:cut] for stream, cut in zip(of_streams, cuts, strict=True)], (0, 0))
    restored, parts, offsets = new_ingest(joins), parts_of(halves), halves.positions
    restored.restore(LISTS, offsets, parts)
    assert parts_of(restored) == parts
    assert any(name.startswith("~join/shown") for name in parts), "lists wait"
    fed(restored, of_streams, [offsets[LISTS], offsets[CLICKS]])
    for ingest in (total, restored):
        ingest.end([LISTS, CLICKS])
    assert lifetime(restored) == lifetime(total)
    assert content(restored, LISTS).keys() == content(total, LISTS).keys()


def test_lists_that_wait_keep_their_rankers_if_these_are_written_in_another_order(
    joins: Config, tmp_path: Path
) -> None:
    table = EVENT[EVENT.index("{") :]
    names = table.strip("{ }\n").split(", ")
    path = tmp_path / "swapped.toml"
    path.write_text(JOIN.replace(table, f"{{ {', '.join(reversed(names))} }}\n"))
    of_streams = [*streams(events(60))]
    ingest, swapped = new_ingest(joins), new_ingest(load(path))
    ingest.begin(LISTS, {LISTS: 0, CLICKS: 0})
    fed(ingest, of_streams, (0, 0))
    swapped.restore(LISTS, ingest.positions, parts_of(ingest))
    for counted in (ingest, swapped):
        counted.end([LISTS, CLICKS])
    assert lifetime(swapped) == lifetime(ingest)


def test_a_list_without_that_of_a_ranker_is_a_letter_and_takes_no_other_with_it(
    joins: Config,
) -> None:
    rows = events(40)
    impressions, clicks = streams(rows)
    bad = msgspec.json.encode(
        {**msgspec.json.decode(impressions[3]), "rankings": {}, "request_id": "x"}
    )
    with_bad, without = new_ingest(joins, keep_dead_letters=True), new_ingest(joins)
    for ingest, lists in (
        (with_bad, [*impressions[:4], bad, *impressions[4:]]),
        (without, impressions),
    ):
        ingest.begin(LISTS, {LISTS: 0, CLICKS: 0})
        fed(ingest, [lists, clicks], (0, 0))
        ingest.end([LISTS, CLICKS])
    (dead_letter,) = with_bad.take_dead_letters()
    assert (dead_letter.reason, dead_letter.offset) == ("missing_field", 4)
    assert lifetime(with_bad) == lifetime(without)
