"""Compares counting in this build with an earlier build, each in separate processes.

A task runs in both builds, so it names a module by its current and its earlier path.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from io import BytesIO
from pathlib import Path
from statistics import median
from typing import IO, Any, Final, cast

import msgspec
import numpy as np

from streameval import Accumulator, Columns
from tests.benchmarks.timing import best_of

BEFORE: Final = "3ec8509"
"""The last commit whose state was a tree of accumulators."""

_ROUNDS: Final = 7
_EVENTS, _AT_ONCE = 16_384, 8_192
CLICKED: Final = 0.2
"""Share of the lists."""

_START: Final = 1_700_000_000
_ITEMS: Final = [f"item-{number}" for number in range(5_000)]
_SHAPES: Final = ((1, 1), (50, 1), (50, 4), (50, 64))
_LISTS: Final = 40_000


def compare_builds() -> Iterator[tuple[str, float, float, float]]:
    """Task, microseconds per event in the earlier build and in this one (the minimum of several
    alternating rounds), and the median ratio of the rounds."""
    with _earlier() as before:
        for name in TASKS:
            with _process(name, before) as old, _process(name, _HERE) as new:
                rounds = [(_round(old), _round(new)) for _ in range(_ROUNDS)]
            ratio = median(earlier / now for earlier, now in rounds)
            yield name, *map(min, zip(*rounds, strict=True)), ratio


_HERE: Final = str(Path(__file__).parents[2])


@contextmanager
def _earlier() -> Iterator[str]:
    """A folder with the package of the earlier build."""
    command = ["git", "-C", _HERE, "archive", BEFORE, "streameval"]
    packed = subprocess.run(command, check=True, capture_output=True).stdout
    with tempfile.TemporaryDirectory() as folder, tarfile.open(fileobj=BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")
        yield folder


@contextmanager
def _process(name: str, root: str) -> Iterator[subprocess.Popen[str]]:
    program = f"from tests.benchmarks import builds; builds.report({name!r})"
    paths = {"PYTHONPATH": os.pathsep.join((root, _HERE)), "PYTHONSAFEPATH": "1"}
    command, pipe = [sys.executable, "-c", program], subprocess.PIPE
    with subprocess.Popen(
        command, stdin=pipe, stdout=pipe, text=True, env={**os.environ, **paths}
    ) as process:
        yield process


def _round(process: subprocess.Popen[str]) -> float:
    print(file=process.stdin, flush=True)
    return float(cast("IO[str]", process.stdout).readline())


def report(name: str) -> None:
    """Print microseconds per event of a task for each line of standard input."""
    events, task = TASKS[name]()
    for _ in sys.stdin:
        print(best_of({name: task}, rounds=1)[name] / events * 1e6, flush=True)


Task = tuple[int, Callable[[], object]]
"""The number of events of a task, and the task."""


def _ingest(slices: int, partitions: int, *, clicks: bool) -> Task:
    """Decode, count and copy batches of records as delivered by polls."""
    records = _module("streameval.events.records", "streameval.records")
    draw = random.Random(1)
    values = [_event(draw, number, slices, clicks=clicks) for number in range(_EVENTS)]
    names = [records.Partition("events", number) for number in range(partitions)]
    batches = [
        _batch(records, name, values[start + name.number : start + _AT_ONCE : partitions], start)
        for start in range(0, _EVENTS, _AT_ONCE)
        for name in names
    ]

    def count() -> None:
        ingest = _ingest_of(_config())
        for batch in batches:
            ingest.apply(batch)
        if hasattr(ingest, "copied"):
            ingest.copied()
        else:
            for view in ingest.views.values():
                view.lifetime()

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
    records = _module("streameval.events.records", "streameval.records")
    logs = [records.Partition(topic, 0) for topic in ("impressions", "clicks")]
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
            batches.append(_batch(records, log, values, begun[number]))
            begun[number] += len(values)

    def count() -> None:
        ingest = _ingest_of(_joining(logs))
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


def _module(*names: str) -> Any:
    for name in names:
        try:
            return import_module(name)
        except ModuleNotFoundError:
            continue
    raise ModuleNotFoundError(" or ".join(names))


def _config() -> Any:
    options = _module("streameval.config.options")
    return _of(
        _module("streameval.config"),
        label_cap=10_000,
        max_series=10_000,
        event=_fields("s"),
        source=_module("streameval.sources.options").SimulatorOptions(),
        windows=options.WindowsOptions(spans=["5m", "1h", "24h"]),
    )


def _joining(logs: Sequence[Any]) -> Any:
    options = _module("streameval.join.options", "streameval.config.attribution")
    shown, done = (log.topic for log in logs)
    interactions = options.InteractionOptions(source=done, types={"click": 1.0})
    return _of(
        _module("streameval.config"),
        event=_fields("ms"),
        source=_module("streameval.sources.options").FilesOptions(paths=[shown, done]),
        attribution=options.AttributionOptions(
            impressions=shown, window="5m", lateness="1m", interactions=[interactions]
        ),
    )


def _of(config: Any, **settings: Any) -> Any:
    return config.Config(metrics=["ndcg@10", "hit_rate@10", "mrr"], labels=["variant"], **settings)


def _fields(unit: str) -> Any:
    fields = _module("streameval.decoding.fields", "streameval.pipeline.fields")
    return fields.EventFields(time="ts", time_unit=unit)


def _ingest_of(config: Any) -> Any:
    pipeline = _module("streameval.config.pipeline", "streameval.config.counting")
    make = getattr(pipeline, "new_ingest", None) or pipeline.counting
    return make(config)


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


def _batch(records: Any, partition: Any, values: Sequence[bytes], offset: int) -> Any:
    offsets = range(offset, offset + len(values))
    return records.RecordBatch(
        partition=partition, values=values, offsets=offsets, next_offset=offsets.stop
    )
