"""Abusive clients and slow responses, none of which delays a scrape."""

from __future__ import annotations

import asyncio
import os
import resource
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path

import httpx
import psutil
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from streameval.exporters.prometheus import PrometheusExporter
from streameval.exporters.web import Server, application
from streameval.exporters.web.api import MOST_REQUESTS
from streameval.exporters.web.server import (
    CLIENT_SECONDS,
    MOST_BY_ADDRESS,
    MOST_CONNECTIONS,
    MOST_HANDSHAKES,
)
from tests.certificates import Authority
from tests.effort import PATIENCE
from tests.exporters.guarded import Guarded, connections, ended, guarded, port_of, trusting
from tests.ports import WEB

_ENDLESS = b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n"
_LARGE = 8_000_000
"""Bytes that the buffers of the kernel, 4 MiB for the sender, do not hold."""

_TLS = "tls_server_config: { cert_file: server.crt, key_file: server.key }"
_CLIENT_HELLO = bytes([22, 3, 1, 2, 0, 1, 0, 1, 252])
"""The beginning of a TLS ClientHello that is never finished."""


@pytest.fixture
def secure(tmp_path: Path) -> Guarded:
    authority = Authority(tmp_path)
    authority.issue("server")
    return Guarded(tmp_path / "web.yml", _TLS)


@pytest.mark.parametrize("opening", [b"", b"GET /metrics HTTP/1.1\r\nHost: x\r\n"])
def test_idle_connections_delay_no_scrape(tmp_path: Path, opening: bytes) -> None:
    with guarded(tmp_path / "web.yml") as site, connections(site.port, 100, opening):
        assert site.get().status_code == 200


@pytest.mark.parametrize("opening", [b"", _CLIENT_HELLO], ids=["silent", "slow"])
def test_handshakes_that_hang_delay_no_scrape_and_the_oldest_give_way(
    secure: Guarded, tmp_path: Path, opening: bytes
) -> None:
    trust = trusting(tmp_path / "authority.crt")
    with secure.server, connections(secure.port, MOST_HANDSHAKES + 44, opening) as clients:
        assert secure.get(verify=trust).status_code == 200
        assert all(is_closed(client, within=5_000) for client in clients[:44])
        assert not any(map(is_closed, clients[-MOST_HANDSHAKES + 1 :]))


def test_one_address_takes_only_some_of_the_connections(tmp_path: Path) -> None:
    allow_many_files()
    with guarded(tmp_path / "web.yml") as site, connections(site.port, MOST_BY_ADDRESS) as first:
        with connections(site.port, 1) as (newcomer,):
            assert ended(first[0])
            assert not any(map(is_closed, [*first[1:], newcomer]))
            free = MOST_CONNECTIONS - MOST_BY_ADDRESS
            with connections(site.port, free + 1, source="127.0.0.2") as others:
                assert ended(first[1])
                assert not any(map(is_closed, [*first[2:], newcomer, *others]))
        assert site.get().status_code == 200


_MEGABYTE = 1_000_000


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["silent", "slow", "encrypted"])
def test_five_thousand_clients_take_less_than_the_smallest_memory_limit(
    tmp_path: Path, kind: str
) -> None:
    allow_many_files()
    program = "from tests.exporters.test_web_limits import serve; serve()"
    with (
        subprocess.Popen(
            [sys.executable, "-c", program],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        ) as process,
        ExitStack() as stack,
    ):
        stack.callback(process.kill)
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        trust = trusting(tmp_path / "authority.crt")
        scraper = stack.enter_context(httpx.Client(verify=trust, trust_env=False, timeout=PATIENCE))
        for number in range(5_000):
            client = socket.create_connection(("127.0.0.1", int(address.rsplit(":", 1)[1])), 60)
            if kind == "slow":
                client.sendall(_CLIENT_HELLO)
            elif kind == "encrypted":
                client = trust.wrap_socket(client, server_hostname="127.0.0.1")
            stack.enter_context(client)
            if number % 500 == 0:
                assert scraper.get(address + "/metrics").status_code == 200
        assert psutil.Process(process.pid).memory_info().rss < 300 * _MEGABYTE


def serve() -> None:
    """Serve with TLS from the working folder, print the address, and wait to be killed."""
    Authority(Path()).issue("server")
    with guarded(Path("web.yml"), _TLS) as site:
        print(site.server.address, flush=True)
        threading.Event().wait()


def is_closed(client: socket.socket, within: int = 0) -> bool:
    """Whether the server closes a connection within so many milliseconds."""
    poll = select.poll()
    poll.register(client, select.POLLIN)
    return bool(poll.poll(within))


def allow_many_files() -> None:
    """Both ends of each connection are files."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 10_000), hard))


def test_clients_that_never_read_delay_no_scrape() -> None:
    with greedy() as server, clogged(port_of(server), 100):
        assert WEB.get(server.address).status_code == 200


def test_five_hundred_scrapes_at_once_are_answered(tmp_path: Path) -> None:
    scrape = b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    with guarded(tmp_path / "web.yml") as site, connections(site.port, 500, scrape) as clients:
        assert site.get().status_code == 200
        assert {client.recv(12) for client in clients} == {b"HTTP/1.1 200"}


class Busy:
    """Snapshots that nobody who has asked gets before `go`; those who ask after `open` get them."""

    def __init__(self) -> None:
        self.open, self.go = threading.Event(), threading.Event()

    def current(self) -> None:
        if not self.open.is_set():
            self.go.wait(60)


def test_requests_for_the_page_delay_no_probe_and_no_scrape_and_too_many_get_503() -> None:
    busy, more = Busy(), 10
    app = application(busy.current, PrometheusExporter(version="1").exposition)

    async def answers() -> list[list[int]]:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            pages = [
                asyncio.create_task(client.get("/", params={"variant": str(number)}))
                for number in range(MOST_REQUESTS + more)
            ]
            refused = [await first for first in islice(asyncio.as_completed(pages), more)]
            busy.open.set()
            probes = [await client.get(path) for path in ("/-/healthy", "/-/ready", "/metrics")]
            busy.go.set()
            rest = await asyncio.gather(*pages)
        return [[answer.status_code for answer in some] for some in (refused, probes, rest)]

    refused, probes, every = asyncio.run(answers())
    assert refused == [503] * more
    assert probes == [200, 503, 200]  # not ready before the first snapshot
    assert sorted(every) == [200] * MOST_REQUESTS + [503] * more


@pytest.mark.parametrize(
    ("patience", "opening", "answer"),
    [
        (0.2, b"", b""),
        (0.2, b"GET /metrics HTTP/1.1\r\nHos", b""),
        (0.2, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", b"HTTP/1.1 200"),
        (CLIENT_SECONDS, b"GET / HTTP/1.1\r\nHost: x\r\nX-Long: " + b"x" * 20_000, b"HTTP/1.1 400"),
        (CLIENT_SECONDS, _ENDLESS, b"HTTP/1.1 413"),
    ],
)
def test_an_endless_request_is_closed(
    tmp_path: Path, patience: float, opening: bytes, answer: bytes
) -> None:
    with (
        guarded(tmp_path / "web.yml", patience=patience) as site,
        connections(site.port, 1, opening) as (client,),
    ):
        assert not answer or client.recv(1000).startswith(answer)
        assert ended(client)
        assert site.get().status_code == 200


def test_a_slow_request_gets_no_more_time(tmp_path: Path) -> None:
    with (
        guarded(tmp_path / "web.yml", patience=0.5) as site,
        connections(site.port, 1, b"GET / HTTP/1.1\r\n") as (client,),
    ):
        client.settimeout(0.02)
        for _ in range(3_000):
            try:
                client.sendall(b"a: b\r\n")
                assert client.recv(100) == b""
            except TimeoutError:
                continue
            except ConnectionError:
                pass
            break
        else:
            pytest.fail("the connection goes on for ever")


def test_two_requests_at_once_are_answered_in_turn(tmp_path: Path) -> None:
    requested = b"GET /-/ready HTTP/1.1\r\nHost: x\r\n\r\nGET /no HTTP/1.0\r\n\r\n"
    with guarded(tmp_path / "web.yml") as site, connections(site.port, 1, requested) as (client,):
        answer = b"".join(iter(lambda: client.recv(65_536), b""))
    assert answer.startswith(b"HTTP/1.1 200")
    assert answer.count(b"HTTP/1.1 404") == 1


@pytest.mark.parametrize("content", [b"x", iter([b"x" * 600] * 2)], ids=["whole", "chunked"])
def test_a_request_with_a_body_is_rejected(
    tmp_path: Path, content: bytes | Iterator[bytes]
) -> None:
    with guarded(tmp_path / "web.yml") as site:
        refused = site.ask("POST", "/metrics", content=content)
        assert site.ask("POST", "/metrics", content=b"").status_code == 405
    assert (refused.status_code, refused.headers["connection"]) == (413, "close")
    assert "Requests must not have a body" in refused.text


def test_a_server_stops_with_hanging_clients(secure: Guarded) -> None:
    with (
        connections(secure.port, 5),
        connections(secure.port, 5, _CLIENT_HELLO) as hanging,
        secure.server,
    ):
        pass
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", secure.port), timeout=60.0)
    assert len(hanging) == 5


_ASKED = b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n"


def greedy(patience: float = CLIENT_SECONDS) -> Server:
    """Sends more than any buffer holds."""
    routes = [
        Route("/large", lambda _: Response(bytes(_LARGE))),
        Route("/", lambda _: Response()),
    ]
    return Server(Starlette(routes=routes), "127.0.0.1:0", patience=patience)


@contextmanager
def clogged(port: int, count: int) -> Iterator[list[socket.socket]]:
    """Connections that send a request, and receive only the beginning of the response."""
    with connections(port, count, b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n") as made:
        for connection in made:
            assert connection.recv(12) == b"HTTP/1.1 200"
        yield made


def test_a_response_that_is_not_received_is_dropped() -> None:
    with greedy(0.2) as server, clogged(port_of(server), 1) as (client,):
        deadline = time.monotonic() + 60
        while server._uvicorn.server_state.connections and time.monotonic() < deadline:
            time.sleep(0.02)
        taken = sum(map(len, iter(lambda: client.recv(65_536), b"")))
    assert taken < _LARGE


def test_a_server_stops_with_unreceived_responses(caplog: pytest.LogCaptureFixture) -> None:
    with greedy() as server, clogged(port_of(server), 2):
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

    def server(self, patience: float = CLIENT_SECONDS) -> Server:
        routes = [Route("/slow", self.answer)]
        return Server(Starlette(routes=routes), "127.0.0.1:0", patience=patience)


def test_a_client_that_waits_for_a_slow_answer_gets_it() -> None:
    slow = Slow()
    with slow.server(0.05) as server, connections(port_of(server), 2) as (idle, patient):
        patient.sendall(_ASKED)
        assert slow.asked.wait(60)
        assert ended(idle)  # several checks later
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
    with slow.server() as server:
        with connections(port_of(server), 1, broken) as (client,):
            assert client.recv(12) == b"HTTP/1.1 400"
            assert ended(client)
        slow.go.set()
        with connections(port_of(server), 1, _ASKED) as (client,):
            assert client.recv(12) == b"HTTP/1.1 200"
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []
