"""A network between clients and a broker that can be hurt: cut, slow, or silent."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Self

from streameval.testing.broker import Broker, free_ports

PRODUCE, FETCH, OFFSET_COMMIT, JOIN_GROUP, HEARTBEAT = 0, 1, 8, 11, 12
"""Numbers of requests in Kafka's protocol."""

_CHUNK = 1 << 16


class Proxy:
    """Passes on what clients and one broker say to each other.

    Args:
        port: of the broker, on this machine.

    Attributes:
        port: that it listens on.
        cuts: how many answers were cut off.
        delay: seconds that every answer takes longer.
    """

    def __init__(self, port: int | None = None) -> None:
        (self.port,) = free_ports(1)
        self.target = port
        self.cuts = 0
        self.delay = 0.0
        self._doomed: set[int] = set()
        self._frozen = threading.Event()
        self._pairs: list[_Pair] = []
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._accept, name="proxy", daemon=True).start()

    @property
    def address(self) -> str:
        """Where clients find the broker."""
        return f"127.0.0.1:{self.port}"

    @property
    def frozen(self) -> bool:
        """Whether nothing passes."""
        return self._frozen.is_set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.thaw()
        self._listener.close()
        self.cut()

    def cut_answers(self, *kinds: int) -> None:
        """Let the next request of each kind reach the broker, and end its connection then."""
        with self._lock:
            self._doomed |= set(kinds)

    def cut(self) -> None:
        """End all connections."""
        with self._lock:
            pairs, self._pairs = self._pairs, []
        for pair in pairs:
            pair.end()

    def freeze(self) -> None:
        """Let nothing pass; connections stay, and nobody is told."""
        self._frozen.set()

    def thaw(self) -> None:
        """Let all pass again; connections from before are found to be dead."""
        self.cut()
        self._frozen.clear()

    def doom(self, kind: int) -> bool:
        """Whether the answer to this request must not come."""
        with self._lock:
            found = kind in self._doomed
            self._doomed.discard(kind)
        return found

    def counted(self) -> None:
        """An answer was cut off."""
        with self._lock:
            self.cuts += 1

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self.target or 0), timeout=5.0)
            except OSError:
                client.close()
                continue
            server.settimeout(None)
            pair = _Pair(self, client, server)
            with self._lock:
                self._pairs.append(pair)
            pair.begin()


class _Pair:
    """One client's connection and the one that stands in for it at the broker."""

    def __init__(self, proxy: Proxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy = proxy
        self._client = client
        self._server = server
        self._doomed = False

    def begin(self) -> None:
        """Pass on both ways, on threads of their own."""
        for way in (self._ask, self._answer):
            threading.Thread(target=self._through, args=(way,), daemon=True).start()

    def end(self) -> None:
        """Close both, whoever is reading from them."""
        for end in (self._client, self._server):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _through(self, way: object) -> None:
        assert callable(way)
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
        self._doomed = self._doomed or self._proxy.doom(kind)
        self._server.sendall(head + body)
        return True

    def _answer(self) -> bool:
        content = self._server.recv(_CHUNK)
        self._wait()
        if self._doomed:
            self._proxy.counted()
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
def rough_broker() -> Iterator[tuple[Broker, Proxy]]:
    """A broker of its own that may be killed, and the proxy over which daemons reach it."""
    broker = Broker()
    with Proxy() as proxy:
        (proxy.target,) = free_ports(1)
        # Clients go where the broker says that it is: a listener of its own says the proxy.
        properties = broker._prepare() / "server.properties"
        text = properties.read_text()
        for key, added in (
            ("listeners", f"PROXIED://127.0.0.1:{proxy.target}"),
            ("advertised.listeners", f"PROXIED://{proxy.address}"),
            ("listener.security.protocol.map", "PROXIED:PLAINTEXT"),
        ):
            text = text.replace(f"\n{key}=", f"\n{key}={added},")
        properties.write_text(text)
        try:
            broker.start()
            yield broker, proxy
        finally:
            broker.remove()
