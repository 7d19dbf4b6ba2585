"""Headers that keep a browser from fetching, framing or guessing anything."""

from __future__ import annotations

from starlette.datastructures import MutableHeaders
from starlette.middleware import Middleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from streameval.exporters.web.protection import Shield

_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


class SafeHeaders:
    """Adds the same headers to every answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    @classmethod
    def middleware(cls) -> Middleware:
        """As an application takes it."""
        return Middleware(cls)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, and add the headers on the way back."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        await self._app(scope, receive, send_with_headers)


class ConfiguredHeaders:
    """Adds what the web configuration file says; outside of `SafeHeaders`, which stay as they are.

    A browser obeys every policy it is given, so a second one can only be stricter.
    """

    def __init__(self, app: ASGIApp, shield: Shield) -> None:
        self._app = app
        self._shield = shield

    @classmethod
    def middleware(cls, shield: Shield) -> Middleware:
        """As an application takes it."""
        return Middleware(cls, shield=shield)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, and add the headers on the way back."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                there = MutableHeaders(scope=message)
                for name, value in self._shield.current.headers(scope["scheme"]):
                    if value not in there.getlist(name):
                        there.append(name, value)
            await send(message)

        await self._app(scope, receive, send_with_headers)
