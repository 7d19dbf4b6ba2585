"""The JSON API below /api/v1 and the page; each document is rendered once per snapshot."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Hashable
from functools import partial
from hashlib import blake2b
from typing import Any, Final, TypeAlias

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
from streameval.exporters.web.openapi import PARAMETER_TEXTS, description
from streameval.exporters.web.threads import WorkerThreads, unavailable

_COMPRESSED: Final = 1_000
"""Bytes above which a document is compressed."""
_RENDERINGS: Final = 2
"""Documents rendered at once; each takes a core."""
MOST_REQUESTS: Final = 64
"""Requests for the page and the API that may run or wait at once; others get a 503."""
_MOST: Final = 200
"""Documents cached of one snapshot: addresses can name more selections than fit in memory."""
_OLD: Final = 10
"""Seconds after which the page tells the age of its snapshot."""


class Documents:
    """The last rendering of each document, plain and compressed. Thread-safe."""

    def __init__(self) -> None:
        self._tag = ""
        self._rendered: dict[Hashable, tuple[bytes, bytes]] = {}
        self._lock = threading.Lock()

    def answer(
        self, request: Request, selected: Hashable, tag: str, render: Callable[[], bytes], kind: str
    ) -> Response:
        """The document of a path, rendered at most once per tag; 304 if the client has it.

        `selected`: by the parameters of the request, however its address is spelled; `tag`: changes
        with the content.
        """
        headers = {"ETag": f'W/"{tag}"', "Vary": "Accept-Encoding"}
        etags = request.headers.get("if-none-match", "").split(",")
        if {f'"{tag}"', "*"} & {text.strip().removeprefix("W/") for text in etags}:
            return Response(status_code=304, headers=headers)
        # Not of `request.url`, which also has what the client says is its host.
        name = request.scope["path"], selected
        with self._lock:
            if tag != self._tag or len(self._rendered) >= _MOST:
                self._rendered, self._tag = {}, tag
            if name not in self._rendered:
                body = render()
                self._rendered[name] = body, compress(body) if len(body) > _COMPRESSED else b""
            body, packed = self._rendered[name]
        if packed and accepts_gzip(request.headers.get("accept-encoding", "")):
            return Response(
                packed, media_type=kind, headers={**headers, "Content-Encoding": "gzip"}
            )
        return Response(body, media_type=kind, headers=headers)


_NEVER: Final = re.compile(r";\s*q=0(\.0*)?$")


def accepts_gzip(accept_encoding: str) -> bool:
    """True if an `Accept-Encoding` names gzip, and does not refuse it.

    Example:
        >>> [accepts_gzip(text) for text in ("br, gzip;q=0.5", "gzip;q=0", "deflate", "")]
        [True, False, False, False]
    """
    choices = (choice.strip().lower() for choice in accept_encoding.split(","))
    return any(
        choice.partition(";")[0].rstrip() == "gzip" and not _NEVER.search(choice)
        for choice in choices
    )


Handler: TypeAlias = Callable[..., Response]
"""Answers a request, with the parameters that it has."""

Answer: TypeAlias = Callable[..., object]
"""The content of a document: of a snapshot, its state, and what the parameters choose."""


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
        answers: dict[str, Answer] = {
            "metrics": snapshot_answer,
            "history": _history,
            **{
                analysis.name: partial(_analysis, analysis)
                for analysis in installed()
                if analysis.is_alone
            },
            "catalogue": lambda now, _: definitions(now),
        }
        documents: dict[str, Handler] = {
            **{name: partial(self._json, answer) for name, answer in answers.items()},
            "openapi.json": self._description,
        }
        handlers: dict[str, Handler] = {
            "/": partial(self._html, page),
            "/main": partial(self._html, body),
            "/points": lambda request: self._json(_points, request, _selection(request)),
        }
        for name, answer in documents.items():
            handlers[f"/api/v1/{name}"] = partial(_with_known_parameters, name, answer)
        return [Route(path, self._threads.handler(handlers[path])) for path in handlers]

    def _html(
        self, render: Callable[[Snapshot | None, State, Selection, str], str], request: Request
    ) -> Response:
        now, status = self._now()
        selection = _selection(request)
        seconds = 0.0 if now is None else time.time() - now.taken_at
        age = span(seconds) if seconds >= _OLD else ""
        return self._pages.answer(
            request,
            selection,
            _tag(now, status, age),
            lambda: render(now, status, selection, age).encode(),
            "text/html",
        )

    def _json(self, answer: Answer, request: Request, *choice: Hashable) -> Response:
        now, status = self._now()
        if now is None:
            return unavailable(status.sentence)
        try:
            return self._documents.answer(
                request,
                choice,
                _tag(now, status),
                lambda: encode(answer(now, status, *choice)),
                "application/json",
            )
        except UnknownHistory as unknown:
            return PlainTextResponse(f"{unknown}\n", status_code=404)

    def _description(self, request: Request) -> Response:
        tag = _tag(*self._now())
        return self._documents.answer(request, None, tag, description, "application/json")

    def _now(self) -> tuple[Snapshot | None, State]:
        now = self._current()
        return now, self._state(now)


def _with_known_parameters(name: str, answer: Handler, request: Request) -> Response:
    """The answer, unless the request has a parameter that its description does not have."""
    parameters = PARAMETER_TEXTS.get(name, {})
    for parameter in request.query_params:
        if parameter not in parameters:
            takes = f"takes {', '.join(parameters)}" if parameters else "takes no parameters"
            problem = f"Unknown parameter {parameter[:200]!r}; /api/v1/{name} {takes}.\n"
            return PlainTextResponse(problem, status_code=400)
    return answer(request, *map(request.query_params.get, parameters))


def _selection(request: Request) -> Selection:
    return selection_of(request.query_params.multi_items())


def _history(
    now: Snapshot, _: State, metric: str | None, window: str | None, segment: str | None
) -> object:
    return history(now, metric or "", PANE if window is None else window, segment or None)


def _points(now: Snapshot, _: State, selection: Selection) -> object:
    return slices_now(excerpt(now, selection), selection.view)


def _analysis(analysis: Analysis[Any, Any], now: Snapshot, _: State) -> object:
    return analysis.answer(analysis.report_in(now.findings))


def _tag(snapshot: Snapshot | None, state: State, age: str = "") -> str:
    """An entity tag that changes with the snapshot, the state and its age, where that is shown."""
    version: object = None
    if snapshot is not None:
        version = (snapshot.started_at, snapshot.version, snapshot.stored)
    return blake2b(repr((version, state, age)).encode(), digest_size=12).hexdigest()
