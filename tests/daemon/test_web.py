"""TLS, users, addresses and prefix of the real daemon, also after their file has changed."""

from __future__ import annotations

import re
import resource
import socket
import ssl
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from tests.certificates import Authority
from tests.cli.program import run, write_file
from tests.daemon.running import Running, running
from tests.effort import PATIENCE
from tests.exporters.guarded import trusting, users
from tests.exposition import at, samples_of
from tests.ports import WEB, free_port

CONFIG = """
metrics = ["ctr@10"]
[source]
type = "simulator"
events_per_second = 100
[web]
listen = "127.0.0.1:0"
"""


def web(**passwords: str) -> str:
    tls = "tls_server_config: { cert_file: server.crt, key_file: server.key }\n"
    return tls + users(**passwords)


class Client:
    """Queries a daemon with TLS as a user."""

    def __init__(self, daemon: Running, trust: ssl.SSLContext, *user: str) -> None:
        assert daemon.address.startswith("https://")
        self._address = daemon.address
        self._user = httpx.BasicAuth(*user) if user else None
        self._trust = trust

    def get(self, path: str) -> httpx.Response:
        with httpx.Client(verify=self._trust, trust_env=False, timeout=PATIENCE) as client:
            return client.get(f"{self._address}{path}", auth=self._user)

    def ask(self, path: str) -> int:
        return self.get(path).status_code

    def reloaded(self) -> bool:
        """Whether the last reload succeeded, according to its metrics."""
        return at(samples_of(self.get("/metrics").text), "web_config_last_reload_successful") == 1


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    made = Authority(tmp_path)
    made.issue("server")
    return made


def test_users_and_certificates_are_read_anew_and_a_bad_file_keeps_the_old(
    tmp_path: Path, authority: Authority
) -> None:
    file = write_file(tmp_path / "web.yml", web(ana="first"))
    config = CONFIG.replace(":0", f":{free_port()}") + 'config_file = "web.yml"\n'
    with running(config, tmp_path) as daemon:
        trust = trusting(authority.file)
        first, second = Client(daemon, trust, "ana", "first"), Client(daemon, trust, "ana", "next")
        daemon.until(lambda: first.ask("/-/ready") == 200)
        assert Client(daemon, trust).ask("/metrics") == 401

        file.write_text(web(ana="next"))
        assert (first.ask("/metrics"), second.ask("/metrics")) == (401, 200)
        daemon.until(lambda: daemon.logged("web_config_reloaded"))

        certificate = (tmp_path / "server.crt").read_text()
        (tmp_path / "server.crt").write_text("no certificate")
        daemon.until(lambda: not second.reloaded())
        (line,) = daemon.logged("web_config_refused")
        assert "the file has no PEM certificate" in line

        file.write_text("")
        (tmp_path / "server.crt").write_text(certificate)
        assert second.ask("/metrics") == 200
        assert "tls_server_config: the key was removed" in daemon.logged("web_config_refused")[-1]

        file.write_text(web(ana="next"))
        renewed = Authority(tmp_path, "renewed")
        renewed.issue("server")
        assert Client(daemon, trusting(renewed.file), "ana", "next").ask("/metrics") == 200
        with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            second.ask("/metrics")

        again = Client(daemon, trusting(renewed.file), "ana", "next")
        daemon.until(again.reloaded)
        assert daemon.stop() == 0


def test_the_command_line_stands_above_the_file(tmp_path: Path, authority: Authority) -> None:
    (tmp_path / "web.yml").write_text(web(ana="x"))
    options = [
        *("--listen", "127.0.0.1:0", "--listen", "127.0.0.2:0"),
        *("--web.config.file", str(tmp_path / "web.yml")),
        *("--web.route-prefix", "/eval"),
    ]
    with running(CONFIG, tmp_path, *options) as daemon:
        addresses = re.findall(r"https://127\.0\.0\.[12]:\d+/eval", daemon.logged("started")[0])
        assert len(addresses) == 2
        with httpx.Client(
            verify=trusting(authority.file), trust_env=False, auth=("ana", "x"), timeout=PATIENCE
        ) as client:
            for address in addresses:
                assert client.get(f"{address}/-/healthy").status_code == 200
        assert daemon.stop() == 0


def test_a_host_that_is_not_configured_is_rejected(tmp_path: Path) -> None:
    config = CONFIG.replace('"127.0.0.1:0"', '"localhost:0"') + 'allowed_hosts = ["eval.example"]\n'
    with running(config, tmp_path) as daemon:
        names = ("localhost", "127.0.0.1", "eval.example:80", "evil.example")
        answers = [WEB.get(f"{daemon.address}/metrics", headers={"Host": name}) for name in names]
        assert [answer.status_code for answer in answers] == [200, 200, 200, 421]
        assert daemon.stop() == 0


def test_an_exposed_address_is_logged_once(tmp_path: Path) -> None:
    with running(CONFIG, tmp_path, "--listen", "0.0.0.0:0") as daemon:
        daemon.until(lambda: daemon.get("/-/ready").status_code == 200)
        assert daemon.stop() == 0
    (line,) = daemon.logged("exposed")
    assert " level=warning " in line


def test_scrapes_are_answered_again_after_no_more_files_could_be_opened(tmp_path: Path) -> None:
    def refusals() -> int:
        return sum("Too many open files" in line for line in daemon.log)

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, hard))
    with running(CONFIG, tmp_path) as daemon:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        daemon.until(lambda: daemon.get("/-/ready").status_code == 200)
        # It has raised the limit.
        assert resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE)[0] != 512
        resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE, (64, 64))
        port = int(daemon.address.rsplit(":", 1)[1])
        with ExitStack() as crowd:
            for _ in range(70):
                crowd.enter_context(socket.create_connection(("127.0.0.1", port), timeout=PATIENCE))
            daemon.until(refusals)
        assert daemon.get("/metrics").status_code == 200
        assert daemon.stop() == 0
    # Accepting fails again each second.
    assert 0 < refusals() < 20


def test_evaluate_does_not_read_the_web_configuration_file(tmp_path: Path) -> None:
    file = write_file(tmp_path / "streameval.toml", CONFIG + 'config_file = "not-here.yml"\n')
    events = tmp_path / "events.ndjson"
    events.write_text('{"recommendations": ["a"], "interactions": ["a"]}\n')
    done = run("evaluate", str(events), "--config", str(file))
    assert done.returncode == 0, done.stderr


def test_check_prints_addresses_and_users(tmp_path: Path, authority: Authority) -> None:
    (tmp_path / "web.yml").write_text(web(ana="x", bob="y"))
    assert authority.file.exists()
    file = tmp_path / "streameval.toml"
    more = 'config_file = "web.yml"\nroute_prefix = "/eval"\n'
    file.write_text(CONFIG.replace('"127.0.0.1:0"', '["127.0.0.1:0", "127.0.0.2:0"]') + more)
    done = run("check", str(file), "--connect")
    assert done.returncode == 0
    assert (
        "serves     https://127.0.0.1:0/eval/, https://127.0.0.2:0/eval/ with /eval/metrics and "
        "/eval/api/v1/metrics for 2 users\n" in done.stdout
    )
    assert "http://" not in done.stdout
