"""What decoding, labelling and counting cost, against msgspec decoding of the same bytes alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from streameval.accumulator import Accumulator
from streameval.events import Id
from streameval.pipeline.decode import Decoder
from streameval.pipeline.fields import EventFields
from streameval.pipeline.ingest import Ingest
from streameval.records import Partition, RecordBatch
from tests.benchmarks import traffic
from tests.benchmarks.timing import best_of

EVENTS = 40_000
BATCH = 500
FIELDS = EventFields(time="ts", time_unit="s")
RANKED = ("hit_rate@10", "precision@10", "recall@10", "mrr@10", "map@10", "ndcg@20")
EXPOSED = (*RANKED, "item_coverage@20")


class Plain(msgspec.Struct, gc=False):
    """What a program that knows its records would decode into."""

    user: str
    variant: str
    ts: float
    recommendations: list[str]
    interactions: list[str]


def main() -> None:
    """Print microseconds per record, and their ratios to decoding alone."""
    plain, few, integers, objects = (_records(form) for form in (_text, _few, _integer, _object))
    tasks = {
        "decode alone": _decode(plain),
        "rank metrics": _count(plain, RANKED),
        "item exposures, 5,000 items": _count(few, EXPOSED),
        "item exposures, 50,000 items": _count(plain, EXPOSED),
        "decode and label, no metrics": _label(plain),
        "the same, integer ids": _label(integers),
        "the same, objects with scores": _label(objects),
    }
    best = best_of(tasks, rounds=7)
    for name, seconds in best.items():
        ratio = seconds / best["decode alone"]
        print(f"{name:>32}: {seconds / EVENTS * 1e6:6.2f} us a record, ratio {ratio:5.2f}")


def _records(form: Callable[[Id], str | int | dict[str, object]]) -> list[bytes]:
    """Click traffic of two variants, K=20, one list in ten with one click."""
    return [
        msgspec.json.encode(
            {
                "user": f"user-{number % 5000}",
                "variant": "ab"[number % 2],
                "ts": 1_700_000_000.25 + number,
                "recommendations": list(map(form, event.recommendations)),
                "interactions": list(map(form, event.interactions)),
            }
        )
        for number, event in enumerate(traffic.clicks(EVENTS))
    ]


def _text(item: Id) -> str:
    return str(item)


def _few(item: Id) -> str:
    return f"item-{_integer(item) % 5_000}"


def _integer(item: Id) -> int:
    return int(str(item).removeprefix("item-"))


def _object(item: Id) -> dict[str, object]:
    return {"id": item, "score": 0.5}


def _batches(records: Sequence[bytes]) -> list[RecordBatch]:
    return [
        RecordBatch(
            partition=Partition("events", 0),
            values=records[start : start + BATCH],
            offsets=range(start, start + BATCH),
            next_offset=start + BATCH,
        )
        for start in range(0, len(records), BATCH)
    ]


def _decode(records: Sequence[bytes]) -> Callable[[], None]:
    decode = msgspec.json.Decoder(Plain).decode

    def task() -> None:
        for record in records:
            decode(record)

    return task


def _label(records: Sequence[bytes]) -> Callable[[], None]:
    batches, decoder = _batches(records), Decoder(FIELDS, ["variant"])

    def task() -> None:
        for batch in batches:
            decoder.decode_many(batch.values)

    return task


def _count(records: Sequence[bytes], metrics: Sequence[str]) -> Callable[[], None]:
    batches, decoder = _batches(records), Decoder(FIELDS, ["variant"])

    def task() -> None:
        ingest = Ingest(decoder, lambda: Accumulator(*metrics, catalog=len(traffic.CATALOG)))
        for batch in batches:
            ingest.apply(batch)

    return task


if __name__ == "__main__":
    main()
