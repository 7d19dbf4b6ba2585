"""Joins of two streams, relative to decoding the same bytes, and memory of open lists."""

from __future__ import annotations

import random
import resource
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, cast

import msgspec
import pyarrow as pa

from streameval.attribution import Attribution, joined
from streameval.config.config import Config
from streameval.config.pipeline import new_ingest
from streameval.decoding.fields import EventFields
from streameval.engine.ingest import Ingest
from streameval.events.records import Partition, RecordBatch
from streameval.join.attribution import AttributionKey, AttributionOptions, InteractionOptions
from streameval.partials import partials
from streameval.sources.settings import FilesOptions
from tests.batches import batch_of

LISTS = 200_000
OPEN = 1_000_000
OF_ONE = 100_000
LENGTH, ITEMS, CLICKED = 20, 5_000, 0.2
SHOWN, DONE = Partition("impressions", 0), Partition("clicks", 0)
_IDS = [f"item-{number:06d}" for number in range(ITEMS)]


def config(window: str, key: AttributionKey = "request_id") -> Config:
    return Config(
        metrics=["hit_rate@10", "ndcg@10", "mrr@10", "recall@20", "map@20"],
        labels=["variant"],
        source=FilesOptions(paths=[SHOWN.topic, DONE.topic]),
        event=EventFields(time="ts", time_unit="ms"),
        attribution=AttributionOptions(
            impressions=SHOWN.topic,
            key=key,
            window=window,
            lateness="1m",
            max_open=2 * OPEN,
            max_bytes=4_000_000_000,
            interactions=[InteractionOptions(source=DONE.topic, types={"click": 1.0})],
        ),
    )


def records(
    lists: int, users: int = 50_000, clicked: float = CLICKED
) -> Iterator[tuple[int, Partition, bytes]]:
    """Time, log and bytes of each record; clicks follow lists within five minutes."""
    chance, now, encode = random.Random(0), 1_700_000_000_000, msgspec.json.encode
    for number in range(lists):
        now += chance.randint(0, 6)
        items = chance.sample(_IDS, LENGTH)
        request = f"req-{number:09d}-{chance.randrange(16**6):06x}"
        user, variant = f"u{chance.randrange(users)}", "ab"[number % 2]
        impressions = {"ts": now, "request_id": request, "user": user, "variant": variant}
        yield now, SHOWN, encode({**impressions, "recommendations": items})
        if chance.random() < clicked:
            at = now + chance.randint(1_000, 300_000)
            click = {"ts": at, "request_id": request, "user": user, "item": chance.choice(items)}
            yield at, DONE, encode({**click, "type": "click"})


def batches(
    stream: Iterable[tuple[int, Partition, bytes]], size: int = 5_000
) -> Iterator[RecordBatch]:
    """The records of both logs by time, in batches."""
    offsets, rest = {SHOWN: 0, DONE: 0}, iter(stream)
    while some := list(islice(rest, size)):
        for log, begin in offsets.items():
            values = [value for _, of, value in some if of == log]
            offsets[log] += len(values)
            yield batch_of(log, values, begin)


def joining(window: str, key: AttributionKey = "request_id") -> Ingest:
    ingest = new_ingest(config(window, key))
    ingest.begin(SHOWN, {SHOWN: 0, DONE: 0})
    return ingest


def speed() -> None:
    """Print lists per CPU second."""
    fed = list(batches(sorted(records(LISTS))))
    best = float("inf"), float("inf")
    for _ in range(3):
        began = time.process_time()
        decode = msgspec.json.Decoder().decode
        for batch in fed:
            for value in batch.values:
                decode(value or b"")
        plain = time.process_time() - began
        joined, began = joining("5m"), time.process_time()
        for batch in fed:
            joined.apply(batch)
        joined.end([SHOWN, DONE])
        best = min(best, (time.process_time() - began, plain))
    took, plain = best
    print(
        f"{LISTS:,} lists of {LENGTH}, {CLICKED:.0%} clicked: {LISTS / took:,.0f} lists/s, "
        f"{took / LISTS * 1e6:.1f} us each with its clicks; {plain / took:.2f} of decoding alone"
    )


def one_user() -> None:
    """Print what last touch costs if all lists in the window are of one user."""
    took = []
    for users in (50_000, 1):
        fed = list(batches(sorted(records(OF_ONE, users, clicked=1.0))))
        joined, began = joining("30m", "user_item"), time.process_time()
        for batch in fed:
            joined.apply(batch)
        joined.end([SHOWN, DONE])
        took.append(time.process_time() - began)
    spread, alone = took
    print(
        f"user_item, {OF_ONE:,} lists and clicks: {spread:.1f} s of 50,000 users, "
        f"{alone:.1f} s of one: {alone / spread:.1f} times"
    )


def tables() -> None:
    """Print what a join of tables costs, alone and with counting, also with one user."""
    for key, users in (("request_id", 50_000), ("user_item", 50_000), ("user_item", 1)):
        sides: dict[str, list[Any]] = {SHOWN.topic: [], DONE.topic: []}
        for _, log, value in records(OF_ONE, users, clicked=0.67):
            row = msgspec.json.decode(value)
            sides[log.topic].append({**row, "times": 1_000 * row["ts"]})
        impressions, clicks = (pa.Table.from_pylist(rows) for rows in sides.values())
        sides.clear()
        rule = Attribution(key=cast("AttributionKey", key), lateness="1m", types={"click": 1.0})
        began = time.process_time()
        lists = joined(impressions, clicks, rule).lists
        alone = time.process_time() - began
        _ = partials([lists], *config("30m").metrics, by=["variant"])
        counted = time.process_time() - began
        print(
            f"tables, {key}, {users:,} users, {OF_ONE:,} lists: {alone:.2f} s alone, "
            f"{counted:.2f} s with counting"
        )


def memory() -> None:
    """Print memory and state of lists that stay open for a day."""
    joined = joining("24h")
    before = _resident()
    for batch in batches(_waiting()):
        joined.apply(batch)
    grown = _resident() - before
    print(f"{OPEN:,} open lists: {grown / 1e6:,.0f} MB more, {grown / OPEN:.0f} bytes each")
    before_saving = time.process_time()
    size = sum(len(piece) for section in joined.sections(SHOWN) for piece in section.content()())
    print(f"saved as {size / 1e6:,.0f} MB in {time.process_time() - before_saving:.1f} s in all")


def _waiting() -> Iterator[tuple[int, Partition, bytes]]:
    """Lists, generated lazily; views of an ignored type move the clock of the other log."""
    for number, record in enumerate(entry for entry in records(OPEN) if entry[1] == SHOWN):
        yield record
        if number % 1_000 == 0:
            view = {"ts": record[0], "request_id": "x", "item": "x", "type": "view"}
            yield record[0], DONE, msgspec.json.encode(view)


def _resident() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main() -> None:
    tables()
    memory()
    speed()
    one_user()
