"""A real S3 server, behind a proxy that injects faults. Needs moto."""

from __future__ import annotations

import atexit
import http.client
import os
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal, NamedTuple, Self, TypeAlias

from streameval.checkpoints.settings import BucketOptions
from streameval.testing.broker import free_ports
from tests.effort import PATIENCE

BUCKET = "checkpoints"
Fault: TypeAlias = Literal["error", "denied", "cut", "lost", "silent", "slow"]
"""500 | 403 | closed before the request | closed after it | no response | a late response."""

_CODES = {"error": (500, "InternalError"), "denied": (403, "AccessDenied")}
_LATE = 0.3
"""Delay of a slow response in seconds."""

_STARTING = threading.Lock()


class Request(NamedTuple):
    """path: with bucket and key."""

    method: str
    path: str


class S3Proxy:
    """Forwards requests to the S3 server at this port until the end of its block.

    Attributes:
        endpoint: URL of the proxy.
        requests: all requests received.
        fault: called with each request; the fault to inject, or None.
    """

    def __init__(self, port: int) -> None:
        self.requests: list[Request] = []
        self.fault: Callable[[Request], Fault | None] = lambda _: None
        self._ended = threading.Event()
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                proxy._forward(self, port)

            do_PUT = do_POST = do_DELETE = do_HEAD = do_GET  # noqa: N815  named by http.server

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._server.shutdown()
        self._server.server_close()

    def _forward(self, handler: BaseHTTPRequestHandler, port: int) -> None:
        body = handler.rfile.read(int(handler.headers.get("content-length", 0)))
        request = Request(handler.command, handler.path)
        self.requests.append(request)
        fault = self.fault(request)
        if fault == "silent":
            self._ended.wait(PATIENCE)
        if fault in ("cut", "silent"):
            handler.close_connection = True
            return
        if fault in ("error", "denied"):
            status, code = _CODES[fault]
            _respond(handler, status, {}, f"<Error><Code>{code}</Code></Error>".encode())
            return
        server = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        server.request(handler.command, handler.path, body, dict(handler.headers))
        response = server.getresponse()
        content = response.read()
        server.close()
        if fault == "lost":
            handler.close_connection = True
            return
        time.sleep(_LATE if fault == "slow" else 0.0)
        with suppress(OSError):
            _respond(handler, response.status, dict(response.getheaders()), content)


def _respond(
    handler: BaseHTTPRequestHandler, status: int, headers: dict[str, str], content: bytes
) -> None:
    handler.send_response_only(status)
    length = headers.pop("Content-Length", None) if handler.command == "HEAD" else None
    for name, value in headers.items():
        if name.lower() not in ("content-length", "transfer-encoding", "connection"):
            handler.send_header(name, value)
    handler.send_header("Content-Length", length or str(len(content)))
    handler.end_headers()
    handler.wfile.write(content)


def server() -> int:
    """The port of an S3 server on this machine with an empty bucket; it stops with the process."""
    # A cache alone starts a server for each thread that asks before the first one answers.
    with _STARTING:
        return _start_server()


@cache
def _start_server() -> int:
    (port,) = free_ports(1)
    # Any credentials work; child processes inherit them.
    os.environ.update(AWS_ACCESS_KEY_ID="tests", AWS_SECRET_ACCESS_KEY="tests")
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    atexit.register(process.kill)
    deadline = time.monotonic() + PATIENCE
    while not _created(port):
        if process.poll() is not None or time.monotonic() > deadline:
            raise TimeoutError("the S3 server does not start")
        time.sleep(0.1)
    return port


def _created(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        connection.request("PUT", f"/{BUCKET}")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException, socket.gaierror):
        return False
    finally:
        connection.close()


def new_path() -> str:
    return f"s3://{BUCKET}/{uuid.uuid4().hex}/state"


def options(endpoint: str | None = None, timeout: float = 60.0) -> BucketOptions:
    """The connection to the server, or to the proxy."""
    return BucketOptions(
        endpoint=endpoint or f"http://127.0.0.1:{server()}",
        region="us-east-1",
        allow_http=True,
        timeout=timeout,
    )
