"""A proxy before a broker that cuts, delays or blocks connections."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Self

from streameval.testing.broker import Broker, free_ports

PRODUCE, FETCH, OFFSET_COMMIT, JOIN_GROUP, HEARTBEAT = 0, 1, 8, 11, 12
"""API keys of Kafka's protocol."""

_CHUNK = 1 << 16


class Proxy:
    """Forwards connections of clients to one broker.

    Attributes:
        port: of the proxy.
        target: port of the broker, on this machine.
        cuts: number of dropped responses.
        delay: seconds added to every request and response.
    """

    def __init__(self) -> None:
        self.port, self.target = free_ports(2)
        self.cuts = 0
        self.delay = 0.0
        self._to_cut: set[int] = set()
        self._frozen = threading.Event()
        self._connections: list[_Connection] = []
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._accept, name="proxy", daemon=True).start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def frozen(self) -> bool:
        return self._frozen.is_set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.thaw()
        self._listener.close()
        self.cut()

    def cut_answers(self, *kinds: int) -> None:
        """Drop the response to the next request of each kind, and close its connection."""
        with self._lock:
            self._to_cut |= set(kinds)

    def cut(self) -> None:
        with self._lock:
            connections, self._connections = self._connections, []
        for connection in connections:
            connection.end()

    def freeze(self) -> None:
        self._frozen.set()

    def thaw(self) -> None:
        """Unblock traffic, and close the old connections."""
        self.cut()
        self._frozen.clear()

    def must_cut(self, kind: int) -> bool:
        with self._lock:
            must = kind in self._to_cut
            self._to_cut.discard(kind)
        return must

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self.target), timeout=5.0)
            except OSError:
                client.close()
                continue
            server.settimeout(None)
            connection = _Connection(self, client, server)
            with self._lock:
                self._connections.append(connection)
            connection.begin()


class _Connection:
    """A connection of a client, and its counterpart to the broker."""

    def __init__(self, proxy: Proxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy = proxy
        self._client = client
        self._server = server
        self._to_cut = False

    def begin(self) -> None:
        """Forward both directions, on a thread each."""
        for way in (self._ask, self._answer):
            threading.Thread(target=self._through, args=(way,), daemon=True).start()

    def end(self) -> None:
        """Close both sockets, also under a blocked read."""
        for end in (self._client, self._server):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _through(self, way: Callable[[], bool]) -> None:
        with suppress(OSError):
            while way():
                pass
        self.end()

    def _ask(self) -> bool:
        head = _exactly(self._client, 6)
        if head is None:
            return False
        size, kind = struct.unpack(">ih", head)
        body = _exactly(self._client, size - 2)
        if body is None:
            return False
        self._wait()
        self._to_cut = self._to_cut or self._proxy.must_cut(kind)
        self._server.sendall(head + body)
        return True

    def _answer(self) -> bool:
        content = self._server.recv(_CHUNK)
        self._wait()
        if self._to_cut:
            self._proxy.cuts += 1
            return False
        self._client.sendall(content)
        return bool(content)

    def _wait(self) -> None:
        time.sleep(self._proxy.delay)
        while self._proxy.frozen:
            time.sleep(0.05)


def _exactly(connection: socket.socket, size: int) -> bytes | None:
    content = bytearray()
    while len(content) < size:
        more = connection.recv(size - len(content))
        if not more:
            return None
        content += more
    return bytes(content)


@contextmanager
def proxied_broker() -> Iterator[tuple[Broker, Proxy]]:
    """A separate broker that may be killed, and the proxy through which daemons reach it."""
    properties = {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,"
        "PROXIED:PLAINTEXT,CONTROLLER:PLAINTEXT"
    }
    with Proxy() as proxy:
        through = {"PROXIED": f"127.0.0.1:{proxy.target}"}
        broker = Broker(listeners=through, properties=properties)
        # Clients use the advertised address, so the extra listener advertises the proxy.
        own = f"PLAINTEXT://{broker.bootstrap_servers}"
        properties["advertised.listeners"] = f"{own},PROXIED://{proxy.address}"
        with broker:
            yield broker, proxy
