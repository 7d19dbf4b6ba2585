"""Tasks of counting, and their time: ingest, events of an embedding process, joins."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec
import numpy as np

from streameval import Accumulator, Columns
from streameval.config import Config
from streameval.config.options import WindowsOptions
from streameval.config.pipeline import new_ingest
from streameval.decoding.fields import EventFields
from streameval.events.records import Partition
from streameval.join.options import AttributionOptions, InteractionOptions
from streameval.sources.options import FilesOptions, SimulatorOptions
from tests.batches import batch_of
from tests.benchmarks.timing import best_of

_EVENTS, _AT_ONCE = 16_384, 8_192
CLICKED: Final = 0.2
"""Share of the lists."""

_START: Final = 1_700_000_000
_ITEMS: Final = [f"item-{number}" for number in range(5_000)]
_SHAPES: Final = ((1, 1), (50, 1), (50, 4), (50, 64))
_LISTS: Final = 40_000
_COUNTED: Final[Mapping[str, Any]] = {
    "metrics": ["ndcg@10", "hit_rate@10", "mrr"],
    "labels": ["variant"],
}


def time_tasks(rounds: int = 5) -> dict[str, float]:
    """Microseconds of CPU per event of each task: the minimum of several alternating rounds."""
    tasks = {name: make() for name, make in TASKS.items()}
    best = best_of({name: task for name, (_, task) in tasks.items()}, rounds)
    return {name: seconds / tasks[name][0] * 1e6 for name, seconds in best.items()}


Task = tuple[int, Callable[[], object]]
"""The number of events of a task, and the task."""


def _ingest(slices: int, partitions: int, *, clicks: bool) -> Task:
    """Decode, count and copy batches of records as delivered by polls."""
    draw = random.Random(1)
    values = [_event(draw, number, slices, clicks=clicks) for number in range(_EVENTS)]
    names = [Partition("events", number) for number in range(partitions)]
    batches = [
        batch_of(name, values[start + name.number : start + _AT_ONCE : partitions], start)
        for start in range(0, _EVENTS, _AT_ONCE)
        for name in names
    ]

    def count() -> None:
        ingest = new_ingest(_config())
        for batch in batches:
            ingest.apply(batch)
        ingest.copied()

    return _EVENTS, count


def _single(*, clicks: bool) -> Task:
    draw = random.Random(1)
    events = [_lists(draw, clicks=clicks) for _ in range(_EVENTS)]

    def count() -> None:
        accumulator = Accumulator("ndcg@10", "hit_rate@10", "mrr@20")
        for shown, acts in events:
            accumulator.update(shown, acts)
        accumulator.read("mrr@20")

    return _EVENTS, count


def _exposures(*, codes: bool) -> Task:
    draw = random.Random(1)
    events = [_lists(draw, clicks=True) for _ in range(_EVENTS)]
    number_of = {item: number for number, item in enumerate(_ITEMS)}
    shown = np.array([[number_of[item] for item in shown_items] for shown_items, _ in events])
    acts = np.array([number_of[item] for _, acted in events for item in acted])
    ends = np.cumsum([0, *(len(acted) for _, acted in events)])
    given = Columns(recommendations=shown, interactions=(acts, ends)) if codes else events

    def count() -> None:
        accumulator = Accumulator("item_coverage@10", "gini@20", catalog=len(_ITEMS))
        accumulator.update_many(given)
        accumulator.read("gini@20")

    return _EVENTS, count


def _joined(clicked: float) -> Task:
    """Lists and clicks up to five minutes later, in two logs."""
    logs = [Partition(topic, 0) for topic in ("impressions", "clicks")]
    draw, now = random.Random(0), 1_000 * _START
    made: list[tuple[int, int, bytes]] = []
    for number in range(_LISTS):
        now += draw.randint(0, 6)
        shown = draw.sample(_ITEMS, 20)
        request_fields = {"request_id": f"req-{number:09d}-{draw.randrange(16**6):06x}"}
        labels = {"user": f"u{draw.randrange(50_000)}", "variant": "ab"[number % 2]}
        made.append(
            (now, 0, _encoded({**request_fields, **labels, "ts": now, "recommendations": shown}))
        )
        if draw.random() < clicked:
            at = now + draw.randint(1_000, 300_000)
            click = {**request_fields, "item": draw.choice(shown), "type": "click", "ts": at}
            made.append((at, 1, _encoded(click)))
    made.sort()
    begun, batches = [0, 0], []
    for start in range(0, len(made), 5_000):
        for number, log in enumerate(logs):
            values = [encoded for _, of, encoded in made[start : start + 5_000] if of == number]
            batches.append(batch_of(log, values, begun[number]))
            begun[number] += len(values)

    def count() -> None:
        ingest = new_ingest(_joining(logs))
        ingest.begin(logs[0], dict.fromkeys(logs, 0))
        for batch in batches:
            ingest.apply(batch)
        ingest.end(logs)

    return _LISTS, count


TASKS: Final[Mapping[str, Callable[[], Task]]] = {
    **{
        f"{kind}, {slices} x {partitions}": partial(_ingest, slices, partitions, clicks=clicks)
        for kind, clicks in (("1 to 9 interactions", False), ("clicks of 20 %", True))
        for slices, partitions in _SHAPES
    },
    "single update, 1 to 9 interactions": partial(_single, clicks=False),
    "single update, clicks": partial(_single, clicks=True),
    "item exposures, by names": partial(_exposures, codes=False),
    "item exposures, by codes": partial(_exposures, codes=True),
    "join, a fifth is clicked": partial(_joined, CLICKED),
    "join, nothing is clicked": partial(_joined, 0.0),
}
"""Ingest by slices x partitions, events of an embedding process, and joins of two streams."""


def _config() -> Config:
    return Config(
        **_COUNTED,
        label_cap=10_000,
        max_series=10_000,
        event=EventFields(time="ts", time_unit="s"),
        source=SimulatorOptions(),
        windows=WindowsOptions(spans=["5m", "1h", "24h"]),
    )


def _joining(logs: Sequence[Partition]) -> Config:
    shown, done = (log.topic for log in logs)
    interactions = InteractionOptions(source=done, types={"click": 1.0})
    return Config(
        **_COUNTED,
        event=EventFields(time="ts", time_unit="ms"),
        source=FilesOptions(paths=[shown, done]),
        attribution=AttributionOptions(
            impressions=shown, window="5m", lateness="1m", interactions=[interactions]
        ),
    )


def _event(draw: random.Random, number: int, slices: int, *, clicks: bool) -> bytes:
    shown, acts = _lists(draw, clicks=clicks)
    labels_and_time = {"variant": f"v{number % slices}", "ts": _START + number // 200}
    return _encoded({**labels_and_time, "recommendations": shown, "interactions": acts})


def _lists(draw: random.Random, *, clicks: bool) -> tuple[list[str], list[str]]:
    shown = draw.sample(_ITEMS, 20)
    if clicks:
        return shown, draw.sample(shown, draw.random() < CLICKED)
    acts = draw.sample(shown, draw.randint(0, 3)) + draw.sample(_ITEMS, draw.randint(1, 6))
    return shown, acts


def _encoded(record: Mapping[str, Any]) -> bytes:
    return msgspec.json.encode(record)
