"""A real server with a given snapshot and web configuration file."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import bcrypt
import httpx

from streameval.config.tables import WebOptions
from streameval.config.web_file import web_security
from streameval.engine.snapshot import Snapshot
from streameval.exporters.prometheus import PrometheusExporter
from streameval.exporters.web import Server, application
from streameval.exporters.web.server import CLIENT_SECONDS
from tests.effort import PATIENCE
from tests.exporters.pictures import mean, picture
from tests.ports import WEB


class Guarded:
    """The server, its web configuration file, and a client.

    Attributes:
        snapshot: that it shows.
        turns: whether the loop turns.
    """

    def __init__(
        self,
        file: Path,
        text: str = "",
        *,
        listen: str | Sequence[str] = "127.0.0.1:0",
        patience: float = CLIENT_SECONDS,
        prefix: str = "",
        hosts: Iterable[str] | None = None,
    ) -> None:
        self.snapshot: Snapshot | None = picture(mean("ndcg@10", ("a",), 1.0, 2))
        self.turns = True
        file.write_text(text)
        options = WebOptions(config_file=str(file))
        self.security = security = web_security(options)
        app = application(
            lambda: self.snapshot,
            PrometheusExporter(version="1", first_exposure=0).exposition,
            healthy=lambda: self.turns,
            prefix=prefix,
            hosts=hosts,
            security=security,
        )
        self.server = Server(app, listen, security, patience)

    @property
    def port(self) -> int:
        return port_of(self.server)

    def get(self, path: str = "/metrics", **options: Any) -> httpx.Response:
        return self.ask("GET", path, **options)

    def ask(
        self, method: str, path: str, *, verify: ssl.SSLContext | None = None, **options: Any
    ) -> httpx.Response:
        address = self.server.address + path
        if verify is None:
            return WEB.request(method, address, **options)
        with httpx.Client(verify=verify, trust_env=False, timeout=PATIENCE) as client:
            return client.request(method, address, **options)


@contextmanager
def guarded(file: Path, text: str = "", **options: Any) -> Iterator[Guarded]:
    site = Guarded(file, text, **options)
    with site.server:
        yield site


def trusting(authority: Path, certificate: tuple[Path, Path] | None = None) -> ssl.SSLContext:
    """A client that trusts an authority, optionally with a client certificate."""
    context = ssl.create_default_context(cafile=authority)
    context.verify_flags &= ~ssl.VerifyFlags.VERIFY_X509_STRICT
    if certificate is not None:
        context.load_cert_chain(*certificate)
    return context


def hashed(password: str) -> str:
    """A bcrypt hash with the lowest cost."""
    return bcrypt.hashpw(password.encode(), bcrypt.gensalt(4)).decode()


def users(**passwords: str) -> str:
    """The users of a web configuration file."""
    users_text = ", ".join(f"{user}: {hashed(password)}" for user, password in passwords.items())
    return f"basic_auth_users: {{ {users_text} }}\n"


@contextmanager
def connections(
    port: int, count: int, opening: bytes = b"", source: str = "127.0.0.1"
) -> Iterator[list[socket.socket]]:
    """Connections from this address that send these bytes and then nothing."""
    with ExitStack() as stack:
        made = []
        for _ in range(count):
            connection = stack.enter_context(
                socket.create_connection(("127.0.0.1", port), 60, (source, 0))
            )
            connection.sendall(opening)
            made.append(connection)
        yield made


def port_of(server: Server) -> int:
    return int(server.address.rsplit(":", 1)[1])


def ended(connection: socket.socket) -> bool:
    """Whether the other side closes the connection."""
    with suppress(ConnectionError):
        while connection.recv(65_536):
            pass
    return True
