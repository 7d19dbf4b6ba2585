"""The demo's traffic as two streams: what was shown, and what was done with it later."""

from __future__ import annotations

import heapq
import os
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

import msgspec

from streameval.config.attribution import AttributionOptions, InteractionOptions
from streameval.sources.options import FilesOptions, SimulatorOptions
from streameval.sources.simulated_streams import (
    GAINS,
    IGNORED,
    Impression,
    Interaction,
    StreamOptions,
    line,
    streams,
)

_LISTS: Final = 2_000
"""So many are made at a time."""

_PAUSE_MS: Final = 3_600_000
"""Of event time between two such parts, so that none of the next one is late by the last."""

_NAMES: Final = {"a": "control", "b": "treatment"}


class Written(NamedTuple):
    """Where the streams are, and how they are joined."""

    source: FilesOptions
    attribution: AttributionOptions


@contextmanager
def two_streams(traffic: SimulatorOptions) -> Iterator[Written]:
    """Both streams, each in a pipe, at the pace of the traffic for whoever reads them."""
    with TemporaryDirectory(prefix="streameval-demo-") as folder:
        paths = [str(Path(folder) / name) for name in ("impressions", "interactions")]
        for path in paths:
            os.mkfifo(path)
        writer = threading.Thread(target=_write, args=(traffic, paths), name="streams", daemon=True)
        writer.start()
        yield Written(FilesOptions(paths=paths), _joined(paths))


def _joined(paths: list[str]) -> AttributionOptions:
    interactions = InteractionOptions(
        source=paths[1], event_id="event_id", types=dict(GAINS), ignore=[IGNORED]
    )
    return AttributionOptions(
        impressions=paths[0], interactions=[interactions], window="30m", lateness="5m"
    )


def _write(traffic: SimulatorOptions, paths: list[str]) -> None:
    pace = traffic.events_per_second or 1.0
    try:
        with Path(paths[0]).open("wb", 0) as shown, Path(paths[1]).open("wb", 0) as done:
            files, began = (shown, done), time.monotonic()
            for number, (stream, record) in enumerate(_records(traffic.seed)):
                time.sleep(max(0.0, began + number / pace - time.monotonic()))
                files[stream].write(record + b"\n")
    except BrokenPipeError:
        return  # nobody reads any more: the demo is over


def _records(seed: int) -> Iterator[tuple[int, bytes]]:
    """Stream and bytes of each record, without end, in the order in which they are written."""
    for part in count():
        made = streams(StreamOptions(lists=_LISTS, seed=seed + part, invalid=0.0))
        shift = part * (_PAUSE_MS + _LISTS * 4_000)
        logs = [_timed(0, made.impressions, shift), _timed(1, made.interactions, shift)]
        for _, stream, record in heapq.merge(*logs):
            yield stream, record


def _timed(
    stream: int, log: Iterable[Impression | Interaction | bytes], shift: int
) -> Iterator[tuple[int, int, bytes]]:
    """Each record with the newest time in its log by then, which is when it is written."""
    clock = 0
    for record in log:
        moved = record if isinstance(record, bytes) else _moved(record, shift)
        if not isinstance(moved, bytes):
            clock = max(clock, moved.ts)
        yield clock, stream, line(moved)


def _moved(record: Impression | Interaction, shift: int) -> Impression | Interaction:
    later = msgspec.structs.replace(record, ts=record.ts + shift)
    if isinstance(later, Impression):
        return msgspec.structs.replace(later, variant=_NAMES[later.variant])
    return later
