"""The page, /metrics and the API for accumulators of a service, as an ASGI application."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

import msgspec
from starlette.applications import Starlette

from streameval.engine.history import HistoryReader
from streameval.engine.snapshot import Snapshot
from streameval.events.forks import forkable_lock
from streameval.exporters.embedded import Accumulators, AccumulatorSnapshots, Collector, exposition
from streameval.exporters.families import FIRST_EXPOSURE
from streameval.exporters.web.application import application

__all__ = ["app"]

EVERY: Final = 1.0
"""Shortest time between snapshots, in seconds."""


def app(
    accumulators: Accumulators,
    labels: str | Sequence[str] = (),
    *,
    source: str = "the lists of this service",
    restored: bool = False,
    first_exposure: float = FIRST_EXPOSURE,
) -> Starlette:
    """The page, /metrics and the API of the daemon, for accumulators of this process.

    Mount it under any path. `/` is the page, `/metrics` is for Prometheus, `/api/v1/metrics` has
    the values as JSON, and `/api/v1/openapi.json` describes the API. There is no authentication:
    protect the path in your service. Values are read on request, at most once a second, so charts
    have points only at the times of requests.

    Args:
        accumulators: one, or a mapping from label values to accumulators, as for
            `streameval.prometheus.Collector`.
        labels: names of the labels of the mapping; a string is one label.
        source: what is counted, for the heading of the page.
        restored: whether another process has exported these counts; counters then start at 0.
        first_exposure: seconds for which a new counter is 0; at least two scrape intervals.

    Raises:
        UsageError: a key does not match the labels.

    Example:
        >>> from starlette.applications import Starlette
        >>> from streameval import Accumulator
        >>> lists = Accumulator("ndcg@10", "hit_rate@10")
        >>> service = Starlette()
        >>> service.mount("/evaluation", app(lists, source="the home page"))
    """
    latest = _Latest(AccumulatorSnapshots(accumulators, labels, source), time.monotonic)
    counters = Collector(accumulators, labels, restored=restored, first_exposure=first_exposure)
    return application(latest.current, exposition(counters))


class _Latest:
    """The last snapshot, replaced on request when it is older than `EVERY`."""

    def __init__(self, snapshots: AccumulatorSnapshots, clock: Callable[[], float]) -> None:
        self._snapshots = snapshots
        self._clock = clock
        self._lock = forkable_lock()
        self._history = HistoryReader([])
        self._snapshot: Snapshot | None = None
        self._until = 0.0

    def current(self) -> Snapshot:
        with self._lock:
            if self._snapshot is None or self._clock() >= self._until:
                now = self._snapshots.take()
                past = self._history.take(now.taken_at, None, now.series)
                self._snapshot = msgspec.structs.replace(now, past=past)
                self._until = self._clock() + EVERY
            return self._snapshot
