"""The HTTP server, on a thread of its own."""

from __future__ import annotations

import ipaddress
import socket
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Final, Self

from starlette.applications import Starlette

from streameval.exporters.web.limits import Limits
from streameval.exporters.web.listening import http_address, listening
from streameval.exporters.web.protection import Shield
from streameval.exporters.web.serving import Serving

_OPEN: Final = (
    "other machines can reach it, and there is neither TLS nor a password: whoever reaches it "
    "reads it; give --web.config.file, or listen on 127.0.0.1 only"
)
_READABLE: Final = (
    "other machines can reach it without TLS: passwords can be read on the way; give "
    "tls_server_config in the web configuration file"
)


class Server:
    """Serves an application until it is stopped; its addresses are taken when it is made.

    Args:
        app: what is served.
        listen: "HOST:PORT", an IPv6 address in brackets; port 0 takes a free one. Or several.
        shield: certificates; by default none: plain HTTP.
        limits: how much of us one client may take.

    Raises:
        AddressInUseError: an address is taken, or not ours to take; none is taken then.
    """

    def __init__(
        self,
        app: Starlette,
        listen: str | Sequence[str],
        shield: Shield | None = None,
        limits: Limits = Limits(),  # noqa: B008  frozen
    ) -> None:
        self._shield = shield or Shield()
        self._sockets = _taken([listen] if isinstance(listen, str) else listen)
        self._addresses = [http_address(each) for each in self._sockets]
        self._exposed = any(map(_is_exposed, self._sockets))
        self._server = Serving(app, self._shield, limits)
        self._thread = threading.Thread(target=self._serve, name="streameval-http", daemon=True)

    @property
    def address(self) -> str:
        """Where it serves, "http://HOST:PORT"; the first of several."""
        return self.addresses[0]

    @property
    def addresses(self) -> list[str]:
        """Where it serves, in the order given."""
        secure = self._shield.current.context is not None
        return [each.replace("http:", "https:", 1) if secure else each for each in self._addresses]

    @property
    def danger(self) -> str | None:
        """What other machines may do that they perhaps should not; None where there is nothing."""
        now = self._shield.current
        if now.context is not None or not self._exposed:
            return None
        return _READABLE if now.users else _OPEN

    def start(self) -> None:
        """Begin to answer; what connected before is answered too."""
        self._thread.start()

    def stop(self) -> None:
        """Answer what is being asked, for a second at most, and let go of the addresses."""
        self._server.should_exit = True
        if self._thread.ident is not None:
            self._thread.join()
        for each in self._sockets:
            each.close()

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
        self._server.run(sockets=self._sockets)


def try_address(listen: str) -> str:
    """The address, after it was taken and let go again.

    Raises:
        AddressInUseError: the address is taken, or not ours to take.
    """
    with listening(listen) as taken:
        return http_address(taken)


def _taken(listen: Sequence[str]) -> list[socket.socket]:
    with ExitStack() as stack:
        taken = [stack.enter_context(listening(each)) for each in listen]
        stack.pop_all()
        return taken


def _is_exposed(taken: socket.socket) -> bool:
    return not ipaddress.ip_address(taken.getsockname()[0].partition("%")[0]).is_loopback
