"""Documents that are rendered once for everybody who asks for them."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Callable
from hashlib import blake2b
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from streameval.exporters.web.state import State
from streameval.pipeline.snapshot import Snapshot

_WORTH: Final = 1_000
"""Bytes from which on it pays to compress."""


class _Rendered(msgspec.Struct, frozen=True):
    tag: str
    plain: bytes
    packed: bytes


class Documents:
    """The last rendering of each document; may be used from several threads.

    Attributes:
        renderings: how often one was rendered.
    """

    def __init__(self) -> None:
        self._rendered: dict[str, _Rendered] = {}
        self._locks: dict[str, threading.Lock] = {}
        self._tag = ""
        self._lock = threading.Lock()
        self.renderings = 0

    def answer(
        self, request: Request, name: str, tag: str, render: Callable[[], bytes], kind: str
    ) -> Response:
        """What `render` gives, rendered unless it was under this tag; 304 to who has it.

        Args:
            request: of the client.
            name: of the document.
            tag: while it stays the same, so does the content.
            render: makes it.
            kind: its media type.
        """
        headers = {"ETag": f'W/"{tag}"', "Vary": "Accept-Encoding"}
        if headers["ETag"] in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        found = self._find(name, tag, render)
        accepted = request.headers.get("accept-encoding", "")
        if found.packed and "gzip" in accepted:
            headers["Content-Encoding"] = "gzip"
            return Response(found.packed, media_type=kind, headers=headers)
        return Response(found.plain, media_type=kind, headers=headers)

    def _find(self, name: str, tag: str, render: Callable[[], bytes]) -> _Rendered:
        with self._lock:
            if tag != self._tag:
                self._rendered.clear()
                self._locks.clear()
                self._tag = tag
            lock = self._locks.setdefault(name, threading.Lock())
        with lock:
            found = self._rendered.get(name)
            if found is None or found.tag != tag:
                found = self._rendered[name] = self._render(name, tag, render)
            return found

    def _render(self, name: str, tag: str, render: Callable[[], bytes]) -> _Rendered:
        try:
            plain = render()
        except Exception:
            # What is not there leaves nothing behind, however often it is asked for.
            self._locks.pop(name, None)
            raise
        self.renderings += 1
        packed = gzip.compress(plain, 1, mtime=0) if len(plain) > _WORTH else b""
        return _Rendered(tag, plain, packed)


def tag_of(snapshot: Snapshot | None, state: State) -> str:
    """While it stays the same, so does everything that is shown of a snapshot."""
    version = (0.0, 0) if snapshot is None else (snapshot.started_at, snapshot.version)
    return blake2b(repr((version, state)).encode(), digest_size=12).hexdigest()


def refusal(sentence: str) -> Response:
    """The answer while there is nothing to answer with."""
    return PlainTextResponse(f"{sentence}\n", status_code=503, headers={"Retry-After": "1"})
