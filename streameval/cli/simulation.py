"""The work of `streameval simulate`."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

import msgspec

from streameval.cli.ending import output
from streameval.sources.options import SimulatorOptions
from streameval.sources.simulator import records
from streameval.sources.traffic import Record

_UNLESS_SAID: Final = 1000


def simulated(*, events: int | None, seed: int, pace: float | None) -> None:
    """Write simulated events, one a line; see `simulate`.

    Args:
        events: how many; None means 1,000 without a pace, and without end at one.
        seed: equal seeds give equal events, but for the times of live ones.
        pace: events a second, of which each happens now; None means all at once.
    """
    many = _UNLESS_SAID if events is None and pace is None else events
    made = records(SimulatorOptions(seed=seed, events=many))
    with output():
        for record in made if pace is None else _live(made, pace):
            sys.stdout.buffer.write(record + b"\n")
            if pace is not None:
                sys.stdout.buffer.flush()
        sys.stdout.buffer.flush()


def _live(made: Iterator[bytes], pace: float) -> Iterator[bytes]:
    started = time.monotonic()
    for number, record in enumerate(made):
        time.sleep(max(0.0, started + number / pace - time.monotonic()))
        event = msgspec.json.decode(record, type=Record)
        yield msgspec.json.encode(msgspec.structs.replace(event, ts=datetime.now(UTC)))
