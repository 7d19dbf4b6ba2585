"""What a request must pass before anything is looked up for it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from streameval.exporters.web.auth import Verdict
from streameval.exporters.web.protection import Protection, Shield

_LARGEST: Final = 1024
"""Bytes of a body; no request here needs one."""


class Guard:
    """Bounds bodies, limits the rate, and asks for a password.

    Args:
        app: what is guarded.
        shield: the protection in force; looked at for every request.
        exempt: paths without limit of rate and without password.
    """

    def __init__(self, app: ASGIApp, shield: Shield, exempt: Iterable[str] = ()) -> None:
        self._app = app
        self._shield = shield
        self._exempt = frozenset(exempt)

    @classmethod
    def middleware(cls, shield: Shield, exempt: Iterable[str] = ()) -> Middleware:
        """As an application takes it."""
        return Middleware(cls, shield=shield, exempt=exempt)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or pass on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        now = self._shield.current
        body = await _body(scope, receive)
        if body is None:
            answer: ASGIApp | None = _too_large()
        elif scope["path"] in self._exempt:
            answer = None
        else:
            answer = await _refusal(now, Headers(scope=scope))
        await (answer or self._app)(scope, _again(body or b"", receive), send)


async def _refusal(now: Protection, headers: Headers) -> Response | None:
    if now.bucket is not None and not now.bucket.allows():
        return _told(429, "Too many requests: ask less often.", {"Retry-After": "1"})
    if not now.users:
        return None
    given = headers.get("authorization")
    verdict = await now.users.verdict(None if given is None else given.encode("latin-1"))
    if verdict is Verdict.BUSY:
        return _told(503, "Too many passwords to check: try again.", {"Retry-After": "5"})
    if verdict is Verdict.REFUSED:
        challenge = {"WWW-Authenticate": 'Basic realm="streameval", charset="UTF-8"'}
        return _told(401, "Name and password are needed, and must be right.", challenge)
    return None


def _too_large() -> Response:
    text = f"A body has at most {_LARGEST} bytes here; no request needs one."
    return _told(413, text, {"Connection": "close"})


def _told(status: int, sentence: str, headers: dict[str, str]) -> Response:
    return PlainTextResponse(f"{sentence}\n", status_code=status, headers=headers)


async def _body(scope: Scope, receive: Receive) -> bytes | None:
    """The whole body; None where it is too large, which is noticed before it is read."""
    announced = Headers(scope=scope).get("content-length", "0")
    if not announced.isdecimal() or int(announced) > _LARGEST:
        return None
    body = b""
    more = True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > _LARGEST:
            return None
    return body


def _again(body: bytes, receive: Receive) -> Receive:
    told = False

    async def receive_again() -> Message:
        nonlocal told
        if told:
            return await receive()
        told = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_again
