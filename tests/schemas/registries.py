"""Two schema registries: a fake one in this process, and a released Apicurio."""

from __future__ import annotations

import base64
import json
import ssl
import subprocess
import tarfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BufferedIOBase
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import httpx
from jgo.maven import MavenContext

from streameval.testing.broker import free_ports, java
from tests.effort import PATIENCE
from tests.ports import WEB

_RELEASE = "3.3.3"


class Reference(NamedTuple):
    """A named reference to a registered schema."""

    name: str
    subject: str
    version: int = 1


def register(
    url: str, subject: str, schema: str, kind: str = "AVRO", references: Sequence[Reference] = ()
) -> int:
    """Register a schema as producers do; returns its id."""
    body: dict[str, Any] = {"schema": schema, "schemaType": kind}
    if references:
        body["references"] = [reference._asdict() for reference in references]
    answer = WEB.post(f"{url}/subjects/{subject}/versions", json=body)
    assert answer.status_code == 200, answer.text
    schema_id: int = answer.json()["id"]
    return schema_id


class SmallRegistry:
    """Answers what a registry of Confluent's API answers; can be away, and ask for a password.

    Attributes:
        status: of every answer; None answers what is asked.
        location: of a redirect, with a status that is one.
        pace: seconds before each byte of an answer, of which there are many.
        user: name and password that it wants; None wants none.
        asked: the paths that were asked for.
    """

    def __init__(self, certificate: tuple[Path, Path] | None = None) -> None:
        self.status: int | None = None
        self.location: str | None = None
        self.pace = 0.0
        self.user: tuple[str, str] | None = None
        self.asked: list[str] = []
        self._schemas: dict[int, dict[str, Any]] = {}
        self._subjects: dict[str, list[int]] = {}
        self._certificate = certificate
        self._port = free_ports(1)[0]
        self._server: ThreadingHTTPServer | None = None

    @property
    def url(self) -> str:
        """The URL, also while it is unavailable."""
        return f"http{'s' if self._certificate else ''}://127.0.0.1:{self._port}"

    def start(self) -> None:
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                path = urlsplit(self.path).path
                registry.asked.append(path)
                self._answer(*registry._read(path))

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                subject = unquote(urlsplit(self.path).path.split("/")[2])
                self._answer(200, registry._register(subject, body))

            def _answer(self, status: int, reply: object) -> None:
                wanted = registry.user
                if wanted is not None:
                    told = self.headers.get("Authorization", "")
                    if told != "Basic " + base64.b64encode(":".join(wanted).encode()).decode():
                        status, reply = 401, {"error_code": 40101, "message": "Unauthorized"}
                content = json.dumps(reply).encode()
                self.send_response(registry.status or status)
                if registry.location is not None:
                    self.send_header("Location", registry.location + self.path)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                _send(self.wfile, content, registry.pace)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", self._port), Handler)
        self._server.daemon_threads = True
        if self._certificate is not None:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(*self._certificate)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self) -> None:
        """Become unavailable; registered schemas stay."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def _register(self, subject: str, body: Mapping[str, Any]) -> dict[str, Any]:
        told = ("schema", "schemaType", "references")
        retained = {name: body[name] for name in told if body.get(name) and body[name] != "AVRO"}
        number = next((n for n, schema in self._schemas.items() if schema == retained), None)
        number = number or len(self._schemas) + 1
        self._schemas[number] = retained
        versions = self._subjects.setdefault(subject, [])
        if number not in versions:
            versions.append(number)
        return {"id": number, "subject": subject, "version": versions.index(number) + 1}

    def _read(self, path: str) -> tuple[int, object]:
        match [unquote(step) for step in path.strip("/").split("/")]:
            case ["schemas", "types"]:
                return 200, ["JSON", "PROTOBUF", "AVRO"]
            case ["schemas", "ids", number]:
                schema = self._schemas.get(int(number))
                missing = {"error_code": 40403, "message": f"Schema {number} not found"}
                return (404, missing) if schema is None else (200, schema)
            case ["subjects", subject, "versions", version]:
                versions = self._subjects.get(subject, [])
                if int(version) > len(versions):
                    return 404, {"error_code": 40402, "message": f"Version {version} not found"}
                selected = versions[int(version) - 1]
                told = {"subject": subject, "version": int(version), "id": selected}
                return 200, told | self._schemas[selected]
        return 404, {"detail": "HTTP 404 Not Found"}


def _send(stream: BufferedIOBase, content: bytes, pace: float) -> None:
    """Send an answer, a byte at a time if there is a pause before each."""
    with suppress(OSError):
        for start in range(len(content)) if pace else ():
            time.sleep(pace)
            stream.write(content[start : start + 1])
        stream.write(b"" if pace else content)


@contextmanager
def small_registry(certificate: tuple[Path, Path] | None = None) -> Iterator[SmallRegistry]:
    registry = SmallRegistry(certificate)
    registry.start()
    try:
        yield registry
    finally:
        registry.stop()


@contextmanager
def apicurio(folder: Path) -> Iterator[str]:
    """Apicurio Registry, from Maven Central on the Java of the tests; its address.

    Args:
        folder: for the program and its log.
    """
    port, management = free_ports(2)
    settings = {
        "quarkus.http.host": "127.0.0.1",
        "quarkus.http.port": port,
        "quarkus.management.host": "127.0.0.1",
        "quarkus.management.port": management,
    }
    flags = ["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    flags += [f"-D{name}={value}" for name, value in settings.items()]
    program = _unpacked(folder)
    url = f"http://127.0.0.1:{port}/apis/ccompat/v7"
    with (folder / "apicurio.log").open("wb") as log:
        process = subprocess.Popen(
            [str(java()), *flags, "-jar", str(program)], stdout=log, stderr=log, cwd=folder
        )
        try:
            _await(url, process)
            yield url
        finally:
            process.kill()
            process.wait()


def _await(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + PATIENCE
    while process.poll() is None and time.monotonic() < deadline:
        try:
            if WEB.get(f"{url}/schemas/types", timeout=5).status_code == 200:
                return
        except httpx.HTTPError:
            pass
        time.sleep(0.2)
    message = f"Apicurio did not answer; it ended with {process.poll()}"
    raise TimeoutError(message)


def _unpacked(folder: Path) -> Path:
    """The program, unpacked there; 160 MB, fetched once and kept by jgo."""
    context = MavenContext()
    release = context.project("io.apicurio", "apicurio-registry-app").at_version(_RELEASE)
    archive = release.artifact(classifier="all", packaging="tar.gz").resolve()
    with tarfile.open(archive) as tar:
        tar.extractall(folder / "apicurio", filter="data")
    return folder / "apicurio" / "quarkus-run.jar"
