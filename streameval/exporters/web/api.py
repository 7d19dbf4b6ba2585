"""The JSON API below /api/v1 and the page; each document is rendered once per snapshot."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from functools import partial
from hashlib import blake2b
from typing import Any, Final

from msgspec.json import encode
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from streameval.engine.analysis import Analysis, installed
from streameval.engine.snapshot import Snapshot
from streameval.exporters.page.charts import slices_now
from streameval.exporters.page.history import PANE, UnknownHistory, history
from streameval.exporters.page.page import body, page
from streameval.exporters.page.selection import Selection, excerpt, selection_of
from streameval.exporters.page.state import State
from streameval.exporters.prometheus import compress
from streameval.exporters.view import span
from streameval.exporters.web.answers import definitions, snapshot_answer
from streameval.exporters.web.openapi import PARAMETERS, description
from streameval.exporters.web.threads import WorkerThreads, unavailable

_JSON: Final = "application/json"
_COMPRESSED: Final = 1_000
"""Bytes above which a document is compressed."""
_RENDERINGS: Final = 2
"""Documents rendered at once; each takes a core."""
MOST_REQUESTS: Final = 64
"""Requests for the page and the API that may run or wait at once; others get a 503."""
_MOST: Final = 200
"""Documents kept of one snapshot: addresses can name more selections than fit in memory."""
_OLD: Final = 10
"""Seconds after which the page tells the age of its snapshot."""


class Documents:
    """The last rendering of each document, plain and compressed. Thread-safe."""

    def __init__(self) -> None:
        self._tag = ""
        self._rendered: dict[str, tuple[bytes, bytes]] = {}
        self._lock = threading.Lock()

    def answer(
        self, request: Request, name: str, tag: str, render: Callable[[], bytes], kind: str
    ) -> Response:
        """A document, rendered at most once per tag; 304 if the client already has it.

        `tag`: changes with the content.
        """
        headers = {"ETag": f'W/"{tag}"', "Vary": "Accept-Encoding"}
        known = request.headers.get("if-none-match", "").split(",")
        if {f'"{tag}"', "*"} & {text.strip().removeprefix("W/") for text in known}:
            return Response(status_code=304, headers=headers)
        plain, packed = self._find(name, tag, render)
        if packed and accepts_gzip(request.headers.get("accept-encoding", "")):
            headers["Content-Encoding"] = "gzip"
            return Response(packed, media_type=kind, headers=headers)
        return Response(plain, media_type=kind, headers=headers)

    def _find(self, name: str, tag: str, render: Callable[[], bytes]) -> tuple[bytes, bytes]:
        with self._lock:
            if tag != self._tag:
                self._rendered, self._tag = {}, tag
            if len(self._rendered) >= _MOST:
                self._rendered = {}
            if name not in self._rendered:
                plain = render()
                packed = compress(plain) if len(plain) > _COMPRESSED else b""
                self._rendered[name] = plain, packed
            return self._rendered[name]


_NEVER: Final = re.compile(r";\s*q=0(\.0*)?$")


def accepts_gzip(accept_encoding: str) -> bool:
    """Whether an `Accept-Encoding` names gzip, and does not refuse it.

    Example:
        >>> [accepts_gzip(text) for text in ("br, gzip;q=0.5", "gzip;q=0", "deflate", "")]
        [True, False, False, False]
    """
    choices = (choice.strip().lower() for choice in accept_encoding.split(","))
    return any(
        choice.partition(";")[0].rstrip() == "gzip" and not _NEVER.search(choice)
        for choice in choices
    )


def tag_of(snapshot: Snapshot | None, state: State, age: str = "") -> str:
    """An entity tag that changes with the snapshot, the state and its age, where that is shown."""
    version: object = None
    if snapshot is not None:
        version = (snapshot.started_at, snapshot.version, snapshot.stored)
    return blake2b(repr((version, state, age)).encode(), digest_size=12).hexdigest()


class Api:
    """The page and the documents below /api/v1."""

    def __init__(
        self,
        current: Callable[[], Snapshot | None],
        state: Callable[[Snapshot | None], State],
    ) -> None:
        self._current = current
        self._state = state
        self._documents, self._pages = Documents(), Documents()
        self._threads = WorkerThreads(_RENDERINGS, MOST_REQUESTS)

    def routes(self) -> list[Route]:
        """The routes of the page and the API."""
        return [
            Route("/", self._threads.handler(partial(self._html, page))),
            Route("/main", self._threads.handler(partial(self._html, body))),
            Route("/points", self._threads.handler(self._points)),
            self._documented("metrics", self._metrics),
            self._documented("history", self._history),
            *(
                self._documented(analysis.name, partial(self._analysis, analysis))
                for analysis in installed()
                if analysis.is_alone
            ),
            self._documented("catalogue", self._catalogue),
            self._documented("openapi.json", self._openapi),
        ]

    def _documented(self, name: str, answer: Callable[[Request], Response]) -> Route:
        """The route of a document, which refuses parameters that its description does not have."""
        path, known = f"/api/v1/{name}", PARAMETERS.get(name, {})

        def answer_known(request: Request) -> Response:
            for parameter in request.query_params:
                if parameter not in known:
                    takes = f"takes {', '.join(known)}" if known else "takes no parameters"
                    problem = f"Unknown parameter {parameter[:200]!r}; {path} {takes}.\n"
                    return PlainTextResponse(problem, status_code=400)
            return answer(request)

        return Route(path, self._threads.handler(answer_known))

    def _html(
        self, render: Callable[[Snapshot | None, State, Selection, str], str], request: Request
    ) -> Response:
        now, status = self._now()
        selection = selection_of(request.query_params.multi_items())
        seconds = 0.0 if now is None else time.time() - now.taken_at
        age = span(seconds) if seconds >= _OLD else ""
        return self._pages.answer(
            request,
            repr((render.__name__, selection)),
            tag_of(now, status, age),
            lambda: render(now, status, selection, age).encode(),
            "text/html",
        )

    def _points(self, request: Request) -> Response:
        selection = selection_of(request.query_params.multi_items())
        return self._shared(
            request,
            repr(selection),
            lambda now, _: slices_now(excerpt(now, selection), selection.view),
        )

    def _metrics(self, request: Request) -> Response:
        return self._shared(request, "metrics", snapshot_answer)

    def _analysis(self, analysis: Analysis[Any, Any], request: Request) -> Response:
        def answer(now: Snapshot, _: State) -> object:
            return analysis.answer(analysis.report_in(now.findings))

        return self._shared(request, analysis.name, answer)

    def _catalogue(self, request: Request) -> Response:
        return self._shared(request, "catalogue", lambda now, _: definitions(now))

    def _history(self, request: Request) -> Response:
        metric = request.query_params.get("metric", "")
        window = request.query_params.get("window", PANE)
        segment = request.query_params.get("segment") or None
        name = repr((metric, window, segment))
        return self._shared(request, name, lambda now, _: history(now, metric, window, segment))

    def _openapi(self, request: Request) -> Response:
        return self._documents.answer(request, "openapi", tag_of(*self._now()), description, _JSON)

    def _shared(
        self, request: Request, name: str, answer: Callable[[Snapshot, State], object]
    ) -> Response:
        now, status = self._now()
        if now is None:
            return unavailable(status.sentence)
        try:
            return self._documents.answer(
                request, name, tag_of(now, status), lambda: encode(answer(now, status)), _JSON
            )
        except UnknownHistory as unknown:
            return PlainTextResponse(f"{unknown}\n", status_code=404)

    def _now(self) -> tuple[Snapshot | None, State]:
        now = self._current()
        return now, self._state(now)
