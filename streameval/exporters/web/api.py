"""The paths below /api/v1: everything the page knows, for programs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from streameval.exporters.web.definitions import definitions
from streameval.exporters.web.document import document
from streameval.exporters.web.history import PANE, UnknownHistory, history
from streameval.exporters.web.page import page
from streameval.exporters.web.sharing import Documents, refusal, tag_of
from streameval.exporters.web.state import State
from streameval.pipeline.snapshot import Snapshot

_JSON = "application/json"
_OPENAPI = Path(__file__).parent / "openapi.json"


class Api:
    """Answers with shared documents; each is rendered once for a snapshot.

    Args:
        current: the latest snapshot, None before the first.
        state: how the daemon is by that.
    """

    def __init__(
        self,
        current: Callable[[], Snapshot | None],
        state: Callable[[Snapshot | None], State],
    ) -> None:
        self._current = current
        self._state = state
        self.documents = Documents()

    def routes(self) -> list[Route]:
        """The page, and what it is made of."""
        return [
            Route("/", self._page),
            Route("/api/v1/metrics", self._metrics),
            Route("/api/v1/history", self._history),
            Route("/api/v1/catalogue", self._catalogue),
            Route("/api/v1/openapi.json", self._openapi),
        ]

    def _page(self, request: Request) -> Response:
        now, said = self._now()
        return self.documents.answer(
            request, "page", tag_of(now, said), lambda: page(now, said).encode(), "text/html"
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
        now, said = self._now()
        if now is None:
            return refusal(said.sentence)
        return self.documents.answer(
            request, name, tag_of(now, said), lambda: render(now, said), _JSON
        )

    def _now(self) -> tuple[Snapshot | None, State]:
        now = self._current()
        return now, self._state(now)
