"""Bytes sent to a real server: it answers or closes, logs no error, and goes on answering."""

from __future__ import annotations

import base64
import errno
import logging
import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

import httpx
from hypothesis import strategies as st

from tests.exporters.guarded import Guarded, guarded, hashed


class Sent(NamedTuple):
    """What is sent on one connection, and whether the client ends it then."""

    data: bytes
    ends: bool


_METHODS = ["GET", "HEAD", "POST", "PUT", "OPTIONS", "DELETE", "CONNECT", "get", "", "\x00"]
_PATHS = [
    "/", "/metrics", "/sections", "/api/v1/metrics", "/api/v1/history", "/api/v1/catalogue",
    "/api/v1/changes", "/api/v1/openapi.json", "/-/healthy", "/-/ready", "/static/page.css",
    "/static/../../page.py", "/static/%2e%2e/page.py", "//", "*", "http://x/metrics", "/%", "/%00",
    "/é", "/eval/metrics",
]  # fmt: skip
_QUERIES = [
    "",
    "?metric=ndcg@10",
    "?metric=ndcg@10&window=lifetime",
    "?window=pane&segment=x",
    "?metric=%FF&&=",
]
_HEADERS = [
    "Host", "Authorization", "Content-Length", "Transfer-Encoding", "Connection", "Upgrade",
    "Accept-Encoding", "If-None-Match", "Origin", "Range", "Expect", "Cookie", "X", "",
]  # fmt: skip
_VALUES = [
    "127.0.0.1", "evil.example", "[::1", "0", "5", "-1", "9" * 30, "chunked", "identity", "close",
    "keep-alive, upgrade", "h2c", "websocket", "gzip", "*", 'W/"x"', "null", "http://[", "http://x",
    "bytes=0-", "100-continue", "Basic", "Basic !", "Bearer x", "é", "a" * 20_000,
]  # fmt: skip
_PLAIN = [
    ("Accept-Encoding", "gzip"), ("If-None-Match", "*"), ("If-None-Match", 'W/"x"'),
    ("Origin", "http://127.0.0.1"), ("Origin", "http://["), ("Range", "bytes=0-"),
    ("Content-Length", "0"), ("Content-Length", "3"), ("Connection", "close"), ("Cookie", "a=b"),
    ("Transfer-Encoding", "chunked"), ("Upgrade", "websocket"), ("Expect", "100-continue"),
    ("If-Modified-Since", "x"), ("Host", "evil.example"),
]  # fmt: skip
_LAST = b"GET /-/healthy HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
_ALONE = {"Connection": "close"}
_LOGGERS: Final = ("uvicorn.error", "asyncio", "starlette")


def requests() -> st.SearchStrategy[Sent]:
    """Requests as they should be or nearly so, some after each other, and anything."""
    name, value = st.sampled_from(_HEADERS), st.sampled_from(_VALUES) | st.text(max_size=20)
    basic = st.tuples(st.text(max_size=8), st.text(max_size=80)).map(_basic)
    plain = st.sampled_from([*_PLAIN, _basic(("ana", "s3cret"))])
    some = st.lists(plain, max_size=4) | st.lists(plain | basic, max_size=2)
    headers = some | some | some | st.lists(st.tuples(name, value) | basic, max_size=6)
    path = st.sampled_from(_PATHS)
    target = st.tuples(path | path | st.text(max_size=30), st.sampled_from(_QUERIES)).map("".join)
    version = st.sampled_from(["HTTP/1.1"] * 9 + ["HTTP/1.0", "HTTP/2.0", ""])
    method = st.sampled_from(["GET"] * 9 + _METHODS)
    body = st.just(b"") | st.just(b"") | st.binary(max_size=20)
    request = st.tuples(method, target, version, headers, body).map(_written)
    total = st.lists(request, min_size=1, max_size=3)
    broken = st.lists(request | _cut(request) | st.binary(max_size=200), min_size=1, max_size=3)
    complete = total.map(lambda sent: Sent(b"".join(sent) + _LAST, ends=False))
    rough = broken.map(lambda sent: Sent(b"".join(sent), ends=True))
    return complete | rough


@st.composite
def _cut(draw: st.DrawFn, request: st.SearchStrategy[bytes]) -> bytes:
    total = draw(request)
    start = draw(st.integers(0, len(total)))
    return total[:start] + draw(st.binary(max_size=4)) + total[start + draw(st.integers(0, 4)) :]


def _basic(credentials: tuple[str, str]) -> tuple[str, str]:
    content = ":".join(credentials).encode("utf-8", "surrogatepass")
    return "Authorization", f"Basic {base64.b64encode(content).decode()}"


def _written(parts: tuple[str, str, str, list[tuple[str, str]], bytes]) -> bytes:
    method, target, version, headers, body = parts
    if not any(name == "Host" for name, _ in headers):
        headers = [("Host", "127.0.0.1"), *headers]
    lines = [f"{method} {target} {version}", *(f"{name}: {value}" for name, value in headers)]
    return "\r\n".join([*lines, "", ""]).encode("utf-8", "surrogatepass") + body


@contextmanager
def server() -> Iterator[Callable[[Sent], None]]:
    """A server that all may read, and one with users."""
    users = f"basic_auth_users: {{ ana: {hashed('s3cret')} }}"
    errors = _Errors()
    with tempfile.TemporaryDirectory() as folder, errors.kept():
        free, closed = Path(folder) / "free.yml", Path(folder) / "closed.yml"
        with (
            guarded(free, hosts=["eval.example"], patience=0.5) as first,
            guarded(closed, users, patience=0.5) as second,
            httpx.Client(trust_env=False, timeout=60) as client,
        ):

            def check(sent: Sent) -> None:
                for site in (first, second):
                    answer = _answered(site.port, sent)
                    assert not answer or answer.startswith(b"HTTP/1.1 "), answer
                    assert not answer.startswith(b"HTTP/1.1 500"), answer
                    assert _ready(client, site) == 200
                    assert errors.taken() == []

            yield check


def _answered(port: int, sent: Sent) -> bytes:
    """What comes back until the server closes."""
    response = b""
    address = ("127.0.0.1", port)
    with socket.create_connection(address, timeout=60) as client, suppress(ConnectionError):
        client.sendall(sent.data)
        if sent.ends:
            _end(client)
        while piece := client.recv(65_536):
            response += piece
    return response


def _end(client: socket.socket) -> None:
    """Say that nothing more comes, where the server has not refused and closed already."""
    try:
        client.shutdown(socket.SHUT_WR)
    except OSError as error:
        if error.errno != errno.ENOTCONN:
            raise


def _ready(client: httpx.Client, site: Guarded) -> int:
    """The status of a request as it should be; a machine that is busy may make it too slow."""
    for _ in range(20):
        with suppress(httpx.TransportError):
            path = f"{site.server.address}/-/ready"
            return client.get(path, auth=("ana", "s3cret"), headers=_ALONE).status_code
    return 0


class _Errors(logging.Handler):
    """What a server logs where a handler fails; the test's own failure shows it."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self._found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self._found.append(self.format(record))

    def taken(self) -> list[str]:
        """What was logged since the last call."""
        taken, self._found = self._found, []
        return taken

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Within, errors are kept."""
        loggers = [logging.getLogger(name) for name in _LOGGERS]
        for logger in loggers:
            logger.addHandler(self)
        try:
            yield
        finally:
            for logger in loggers:
                logger.removeHandler(self)
