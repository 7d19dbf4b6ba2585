"""The JSON API below /api/v1 and the page: each document is rendered once for a snapshot."""

from __future__ import annotations

import gzip
import math
import threading
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from streameval.accumulator.comparison import verdict_text
from streameval.accumulator.experiment import Report
from streameval.catalogue.conventions import CONVENTIONS
from streameval.catalogue.metric import Metric
from streameval.catalogue.reading import UndefinedReading
from streameval.engine.snapshot import (
    LIFETIME,
    CheckpointHealth,
    Health,
    JoinHealth,
    PartitionHealth,
    Series,
    SeriesFamily,
    Snapshot,
)
from streameval.exporters.view import comparison, counted, differences
from streameval.exporters.web.health import State, state, unavailable
from streameval.exporters.web.history import PANE, UnknownHistory, history
from streameval.exporters.web.page import experiment, page

_JSON: Final = "application/json"
_OPENAPI: Final = Path(__file__).parent / "openapi.json"
_COMPRESSED: Final = 1_000
"""Bytes above which a document is compressed."""


class Documents:
    """The last rendering of each document, plain and compressed; for use by several threads."""

    def __init__(self) -> None:
        self._tag = ""
        self._rendered: dict[str, tuple[bytes, bytes]] = {}
        self._lock = threading.Lock()
        self.renderings = 0

    def answer(
        self, request: Request, name: str, tag: str, render: Callable[[], bytes], kind: str
    ) -> Response:
        """A document, rendered at most once for a tag; 304 where the client has it already.

        `tag`: stays the same while the content does.
        """
        headers = {"ETag": f'W/"{tag}"', "Vary": "Accept-Encoding"}
        if headers["ETag"] in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        plain, packed = self._find(name, tag, render)
        if packed and "gzip" in request.headers.get("accept-encoding", ""):
            headers["Content-Encoding"] = "gzip"
            return Response(packed, media_type=kind, headers=headers)
        return Response(plain, media_type=kind, headers=headers)

    def _find(self, name: str, tag: str, render: Callable[[], bytes]) -> tuple[bytes, bytes]:
        with self._lock:
            if tag != self._tag:
                self._rendered, self._tag = {}, tag
            if name not in self._rendered:
                plain = render()
                packed = gzip.compress(plain, 1, mtime=0) if len(plain) > _COMPRESSED else b""
                self._rendered[name] = plain, packed
                self.renderings += 1
            return self._rendered[name]


def tag_of(snapshot: Snapshot | None, state: State) -> str:
    """An entity tag: stays the same while nothing that is shown changes."""
    version = (0.0, 0) if snapshot is None else (snapshot.started_at, snapshot.version)
    return blake2b(repr((version, state)).encode(), digest_size=12).hexdigest()


class Api:
    """The page and the documents below /api/v1."""

    def __init__(
        self,
        current: Callable[[], Snapshot | None],
        state: Callable[[Snapshot | None], State],
    ) -> None:
        self._current = current
        self._state = state
        self.documents = Documents()

    def routes(self) -> list[Route]:
        """The paths answered here."""
        return [
            Route("/", self._page),
            Route("/experiment", self._experiment),
            Route("/api/v1/metrics", self._metrics),
            Route("/api/v1/history", self._history),
            Route("/api/v1/catalogue", self._catalogue),
            Route("/api/v1/openapi.json", self._openapi),
        ]

    def _page(self, request: Request) -> Response:
        return self._html(request, "page", page)

    def _experiment(self, request: Request) -> Response:
        return self._html(request, "experiment", lambda now, _: experiment(now))

    def _html(
        self, request: Request, name: str, render: Callable[[Snapshot | None, State], str]
    ) -> Response:
        now, status = self._now()
        return self.documents.answer(
            request, name, tag_of(now, status), lambda: render(now, status).encode(), "text/html"
        )

    def _metrics(self, request: Request) -> Response:
        return self._shared(request, "metrics", document)

    def _catalogue(self, request: Request) -> Response:
        return self._shared(request, "catalogue", lambda now, _: definitions(now))

    def _history(self, request: Request) -> Response:
        metric = request.query_params.get("metric", "")
        window = request.query_params.get("window", PANE)
        segment = request.query_params.get("segment") or None
        name = repr((metric, window, segment))
        try:
            return self._shared(request, name, lambda now, _: history(now, metric, window, segment))
        except UnknownHistory as unknown:
            return PlainTextResponse(f"{unknown}\n", status_code=404)

    def _openapi(self, request: Request) -> Response:
        return self.documents.answer(
            request, "openapi", tag_of(*self._now()), _OPENAPI.read_bytes, _JSON
        )

    def _shared(
        self, request: Request, name: str, render: Callable[[Snapshot, State], bytes]
    ) -> Response:
        now, status = self._now()
        if now is None:
            return unavailable(status.sentence)
        return self.documents.answer(
            request, name, tag_of(now, status), lambda: render(now, status), _JSON
        )

    def _now(self) -> tuple[Snapshot | None, State]:
        now = self._current()
        return now, self._state(now)


def document(snapshot: Snapshot, status: State | None = None) -> bytes:
    """Everything in a snapshot as JSON, as openapi.json describes it.

    Each number is the exact double; null where it is undefined.
    """
    compared = comparison(snapshot)
    return msgspec.json.encode(
        {
            "source": snapshot.source,
            "started_at": snapshot.started_at,
            "taken_at": snapshot.taken_at,
            "version": snapshot.version,
            "state": (status or state(snapshot, turning=True))._asdict(),
            "families": [_family(family) for family in snapshot.families],
            "comparison": None if compared is None else compared._asdict(),
            "metrics": [
                _entry(entry, snapshot.families[entry.family], difference)
                for entry, difference in zip(snapshot.series, differences(snapshot), strict=True)
            ],
            "experiment": None if snapshot.experiment is None else plain(snapshot.experiment),
            "health": _health(snapshot.health),
        }
    )


def plain(report: Report) -> dict[str, Any]:
    """The report as plain values; numbers are exact, None where nothing can be said."""
    rows = [row.flat() | {"text": verdict_text(row.comparison)} for row in report.rows]
    return {"checks": msgspec.to_builtins(report.checks), "comparisons": rows}


def _family(family: SeriesFamily) -> dict[str, object]:
    return {
        "name": family.name,
        "segment": family.segment,
        "label_names": family.label_names,
        "windows": (*family.windows, LIFETIME),
    }


def _entry(entry: Series, family: SeriesFamily, difference: float | None) -> dict[str, object]:
    # msgspec writes the shortest text that reads back as the same double, and NaN as null.
    reading = entry.reading
    return {
        "metric": entry.metric.text,
        "labels": dict(zip(family.label_names, entry.labels, strict=True)),
        "segment": family.segment,
        "window": entry.window,
        "since": entry.since,
        "value": reading.value if reading.defined else None,
        "count": reading.count,
        "lists": reading.lists,
        "total": reading.total,
        "estimated": reading.estimated,
        "low": reading.low,
        "high": reading.high,
        "interval": reading.interval,
        "no_interval": reading.no_interval,
        "problem": reading.problem if isinstance(reading, UndefinedReading) else None,
        "difference": difference,
    }


def _health(health: Health) -> dict[str, object]:
    found = msgspec.structs.asdict(health)
    # Of the first the checkpoint tells; the other is a matter of the log and of Prometheus.
    del found["commit_failures"], found["registry_failures"]
    return found | {
        "checkpoint": _checkpoint(health),
        "join": _join(health.join),
        "partitions": [_partition(entry, health.checkpoint) for entry in health.partitions],
    }


def _join(join: JoinHealth | None) -> dict[str, object] | None:
    if join is None:
        return None
    return {"bytes": join.bytes, "passed_by": join.passed_by, "streams": join.streams}


def _checkpoint(health: Health) -> dict[str, object] | None:
    kept = health.checkpoint
    if kept is None:
        return None
    return {
        "last_success": kept.last_success,
        "failures": sum(kept.failures.values()),
        "commit_failures": health.commit_failures,
        "skipped": kept.skipped,
    }


def _partition(entry: PartitionHealth, kept: CheckpointHealth | None) -> dict[str, object]:
    return {
        "topic": entry.partition.topic,
        "partition": entry.partition.number,
        "position": entry.position,
        "end": entry.end,
        "lag": entry.lag,
        "durable": None if kept is None else kept.offsets.get(entry.partition),
        "event_time": None if entry.event_time is None else entry.event_time / 1_000_000,
    }


def definitions(snapshot: Snapshot) -> bytes:
    """The definition of every metric of a snapshot as JSON, in its order."""
    metrics = dict.fromkeys(entry.metric for entry in snapshot.series)
    return msgspec.json.encode({"metrics": [definition(each) for each in metrics]})


def definition(metric: Metric) -> dict[str, object]:
    """The definition of one metric, from its own docstring.

    Example:
        >>> from streameval.catalogue import parse
        >>> definition(parse("ndcg@10"))["formula"]
        'ndcg@k = mean over lists of (dcg@k / dcg@k of the best order)'
    """
    meant = metric.definition
    text, formula = _parts(meant.documentation)
    convention = CONVENTIONS.get(metric.convention or "")
    return {
        "metric": metric.text,
        "name": meant.name,
        "k": metric.k,
        "convention": metric.convention,
        "system": None if convention is None else convention.system,
        "parameters": dict(metric.options),
        "summary": meant.summary,
        "text": text,
        "formula": formula,
        "range": [None if math.isinf(bound) else bound for bound in meant.bounds],
        "higher_is_better": meant.higher_is_better,
        "counts": counted(metric),
        "mean": metric.is_mean,
        "source": meant.source,
    }


def _parts(documentation: str) -> tuple[str, str | None]:
    """The text after the first line, and the indented formula; without the example."""
    explained = documentation.partition("\n\nExample:\n")[0]
    _, *blocks = explained.split("\n\n")
    words = [" ".join(block.split()) for block in blocks if not block.startswith("    ")]
    formulas = [block for block in blocks if block.startswith("    ")]
    lines = [line.removeprefix("    ") for block in formulas for line in block.splitlines()]
    return "\n\n".join(words), "\n".join(lines) or None
