"""Slow responses, and clients that do not receive them."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from streameval.exporters.web import Limits, Server
from tests.exporters.guarded import connections, ended, port_of
from tests.ports import WEB

_ASKED = b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n"


def greedy(limits: Limits) -> Server:
    """Sends more than any buffer holds."""
    routes = [
        Route("/large", lambda _: Response(bytes(32_000_000))),
        Route("/", lambda _: Response()),
    ]
    return Server(Starlette(routes=routes), "127.0.0.1:0", limits=limits)


@contextmanager
def clogged(port: int, count: int) -> Iterator[list[socket.socket]]:
    """Connections that send a request, and receive only the beginning of the response."""
    with connections(port, count, b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n") as made:
        for each in made:
            assert each.recv(12) == b"HTTP/1.1 200"
        yield made


def test_a_response_that_is_not_received_is_dropped() -> None:
    with greedy(Limits(idle=0.2)) as server, clogged(port_of(server), 1) as (client,):
        deadline = time.monotonic() + 300
        while server._uvicorn.server_state.connections and time.monotonic() < deadline:
            time.sleep(0.02)
        taken = sum(map(len, iter(lambda: client.recv(65_536), b"")))
    assert taken < 32_000_000


def test_connections_with_unreceived_responses_are_replaced() -> None:
    with greedy(Limits(connections=3)) as server, clogged(port_of(server), 3):
        assert WEB.get(server.address).status_code == 200


def test_a_server_stops_with_unreceived_responses(caplog: pytest.LogCaptureFixture) -> None:
    with greedy(Limits()) as server, clogged(port_of(server), 2):
        server.stop()
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []


class Slow:
    """Responds on request of the test."""

    def __init__(self) -> None:
        self.asked, self.go = threading.Event(), threading.Event()

    async def answer(self, _: Request) -> Response:
        self.asked.set()
        await asyncio.to_thread(self.go.wait, 60)
        return Response("there")

    def server(self, limits: Limits) -> Server:
        routes = [Route("/slow", self.answer)]
        return Server(Starlette(routes=routes), "127.0.0.1:0", limits=limits)


def test_a_connection_that_waits_for_us_is_not_replaced() -> None:
    slow = Slow()
    with slow.server(Limits(connections=2)) as server:
        port = port_of(server)
        with connections(port, 1, _ASKED) as (patient,):
            assert slow.asked.wait(300)
            with connections(port, 3) as idle:
                assert ended(idle[0])
                slow.go.set()
                assert patient.recv(12) == b"HTTP/1.1 200"


def test_a_new_connection_is_rejected_if_all_wait_for_us() -> None:
    slow = Slow()
    with slow.server(Limits(connections=1)) as server:
        port = port_of(server)
        with connections(port, 1, _ASKED) as (patient,):
            assert slow.asked.wait(300)
            with connections(port, 1) as (more,):
                assert ended(more)
            slow.go.set()
            assert patient.recv(12) == b"HTTP/1.1 200"


@pytest.mark.parametrize("method", [b"GET", b"HEAD"])
def test_an_invalid_body_is_rejected_without_an_error_in_the_log(
    caplog: pytest.LogCaptureFixture, method: bytes
) -> None:
    broken = (
        method + b" /slow HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nno chunk\r\n"
    )
    slow = Slow()
    with slow.server(Limits()) as server:
        with connections(port_of(server), 1, broken) as (client,):
            assert client.recv(12) == b"HTTP/1.1 400"
            assert ended(client)
        slow.go.set()
        with connections(port_of(server), 1, _ASKED) as (client,):
            assert client.recv(12) == b"HTTP/1.1 200"
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []
