"""The HTTP server, on a thread of its own."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Self

import uvicorn
from starlette.applications import Starlette

from streameval.exporters.web.listening import http_address, listening

_CONNECTIONS = 256
"""Beyond so many at once, a connection is answered 503."""


class Server:
    """Serves an application until it is stopped; its address is taken when it is made.

    Args:
        app: what is served.
        listen: "HOST:PORT", an IPv6 address in brackets; port 0 takes a free one.

    Raises:
        AddressInUseError: the address is taken, or not ours to take.
    """

    def __init__(self, app: Starlette, listen: str) -> None:
        self._socket = listening(listen)
        self._address = http_address(self._socket)
        self._server = uvicorn.Server(_settings(app))
        self._thread = threading.Thread(target=self._serve, name="streameval-http", daemon=True)

    @property
    def address(self) -> str:
        """Where it serves: "http://HOST:PORT"."""
        return self._address

    def start(self) -> None:
        """Begin to answer; what connected before is answered too."""
        self._thread.start()

    def stop(self) -> None:
        """Answer what is being asked, for a second at most, and let go of the address."""
        self._server.should_exit = True
        if self._thread.ident is not None:
            self._thread.join()
        self._socket.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def _serve(self) -> None:
        self._server.run(sockets=[self._socket])


def try_address(listen: str) -> str:
    """The address, after it was taken and let go again.

    Raises:
        AddressInUseError: the address is taken, or not ours to take.
    """
    with listening(listen) as taken:
        return http_address(taken)


def _settings(app: Starlette) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http="h11",
        loop="asyncio",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        limit_concurrency=_CONNECTIONS,
        timeout_keep_alive=65,
        timeout_graceful_shutdown=1,
    )
