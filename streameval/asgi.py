"""The page, /metrics and the API of accumulators, as an ASGI application to mount."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

import msgspec
from starlette.applications import Starlette

from streameval.engine.history import HistoryReader
from streameval.engine.snapshot import Snapshot
from streameval.exporters.families import FIRST_EXPOSURE
from streameval.exporters.web.application import application
from streameval.prometheus import Accumulators, AccumulatorSnapshots, Collector, exposition

EVERY: Final = 1.0
"""Seconds between snapshots."""


def app(
    accumulators: Accumulators,
    labels: str | Sequence[str] = (),
    *,
    source: str = "the lists of this service",
    restored: bool = False,
    first_exposure: float = FIRST_EXPOSURE,
) -> Starlette:
    """The page, /metrics and the API of the daemon, for accumulators of this process.

    Mount it under any path. `/` is the page, `/metrics` for Prometheus, `/api/v1/metrics` the same
    as JSON and `/api/v1/openapi.json` its description. It has no authentication: protect the path
    in your service. Values are read on request, once a second at most, so charts have the moments
    of requests.

    Args:
        accumulators: one, or a mapping from label values to accumulators, as for
            `streameval.prometheus.Collector`; they are made safe for threads.
        labels: names of the labels, for a mapping; a text means one.
        source: what is counted, for the heading of the page.
        restored: another process has exported these counts; the counters begin at 0.
        first_exposure: seconds for which a new counter stands at 0; at least two scrape intervals.

    Raises:
        NotShownError: labels and keys do not fit each other.

    Example:
        >>> from starlette.applications import Starlette
        >>> from streameval import Accumulator
        >>> lists = Accumulator("ndcg@10", "hit_rate@10")
        >>> service = Starlette()
        >>> service.mount("/evaluation", app(lists, source="the home page"))
    """
    shown = _Latest(AccumulatorSnapshots(accumulators, labels, source), time.monotonic)
    counters = Collector(accumulators, labels, restored=restored, first_exposure=first_exposure)
    return application(shown.current, exposition(counters))


class _Latest:
    """The last snapshot, renewed on request when it is old."""

    def __init__(self, snapshots: AccumulatorSnapshots, clock: Callable[[], float]) -> None:
        self._snapshots = snapshots
        self._clock = clock
        self._lock = threading.Lock()
        self._history = HistoryReader([])
        self._snapshot: Snapshot | None = None
        self._until = 0.0

    def current(self) -> Snapshot:
        with self._lock:
            if self._snapshot is None or self._clock() >= self._until:
                self._snapshot = self._with_past(self._snapshots.take())
                self._until = self._clock() + EVERY
            return self._snapshot

    def _with_past(self, snapshot: Snapshot) -> Snapshot:
        past = self._history.take(snapshot.taken_at, None, snapshot.series)
        return msgspec.structs.replace(snapshot, past=past)
