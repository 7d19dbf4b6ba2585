"""Prefix, addresses, host names and warnings."""

from __future__ import annotations

import re
import socket
from pathlib import Path

import httpx
import pytest

from streameval.errors import AddressInUseError
from tests.certificates import Authority
from tests.exporters.guarded import Guarded, guarded, hashed
from tests.ports import WEB

TLS = "tls_server_config: { cert_file: server.crt, key_file: server.key }\n"


def test_all_paths_have_the_prefix(tmp_path: Path) -> None:
    with guarded(tmp_path / "web.yml", prefix="/eval/web") as site:
        for path in ("/", "/metrics", "/api/v1/metrics", "/-/healthy", "/static/page.css"):
            assert site.get(f"/eval/web{path}").status_code == 200
            if path != "/":
                assert site.get(path).status_code == 404
        assert site.ask("POST", "/eval/web/-/reload").status_code == 200


@pytest.mark.parametrize("path", ["/", "/eval"])
def test_a_request_without_the_prefix_is_redirected_to_the_page(tmp_path: Path, path: str) -> None:
    with guarded(tmp_path / "web.yml", prefix="/eval") as site:
        answer = site.get(path)
        assert (answer.status_code, answer.headers["location"]) == (302, "/eval/")


def test_everything_that_the_page_needs_is_found_under_the_prefix(tmp_path: Path) -> None:
    with guarded(tmp_path / "web.yml", prefix="/eval") as site:
        page = site.get("/eval/").text
        links = [each for each in re.findall(r'(?:href|src)="([^"]*)"', page) if each[:1] != "#"]
        assert links
        for link in links:
            target = str(httpx.URL(f"{site.server.address}/eval/").join(link))
            answer = site.get(target.removeprefix(site.server.address))
            assert answer.status_code == 200, link


def test_several_addresses_answer_alike(tmp_path: Path) -> None:
    listen = ["127.0.0.1:0", "127.0.0.2:0", "127.0.0.1:0"]
    with guarded(tmp_path / "web.yml", listen=listen) as site:
        addresses = site.server.addresses
        assert len(set(addresses)) == 3
        for each in addresses:
            assert WEB.get(f"{each}/metrics").status_code == 200


def test_if_one_address_is_in_use_none_is_bound(tmp_path: Path) -> None:
    with guarded(tmp_path / "web.yml") as site:
        busy = f"127.0.0.1:{site.port}"
        free = Guarded(tmp_path / "other.yml")
        free.server.stop()
        listen = [f"127.0.0.1:{free.port}", busy]
        with pytest.raises(AddressInUseError, match=busy):
            Guarded(tmp_path / "third.yml", listen=listen)
        with guarded(tmp_path / "fourth.yml", listen=listen[:1]) as other:
            assert other.get().status_code == 200


@pytest.mark.parametrize(
    ("listen", "text", "danger"),
    [
        ("127.0.0.1:0", "", None),
        (["127.0.0.1:0", "127.0.0.2:0"], "", None),
        ("0.0.0.0:0", "", "neither TLS nor a password"),
        (["127.0.0.1:0", "0.0.0.0:0"], "", "neither TLS nor a password"),
        ("0.0.0.0:0", f"basic_auth_users: {{ ana: {hashed('x')} }}", "can be intercepted"),
        ("0.0.0.0:0", TLS, None),
    ],
    ids=["loopback", "twice loopback", "all", "loopback and all", "users", "encrypted"],
)
def test_an_exposed_server_has_a_warning(
    tmp_path: Path, listen: str | list[str], text: str, danger: str | None
) -> None:
    Authority(tmp_path).issue("server")
    site = Guarded(tmp_path / "web.yml", text, listen=listen)
    site.server.stop()
    found = site.server.danger
    assert found is None if danger is None else danger in str(found)


OWN = ("127.0.0.1:9877", "[::1]:9877", "10.1.2.3", "localhost:9877", "LOCALHOST", "eval.localhost")
CONFIGURED = ("eval.example:443", "streameval-0.pods.example")
FOREIGN = ("evil.example", "xeval.example", "pods.example", "eval.example.evil", "1.2.3.4.evil")


@pytest.mark.parametrize("path", ["/", "/metrics", "/-/healthy"])
def test_without_users_only_names_of_this_server_are_accepted(tmp_path: Path, path: str) -> None:
    with guarded(tmp_path / "web.yml", hosts=["eval.example", "*.pods.example"]) as site:
        for host in (*OWN, socket.gethostname(), *CONFIGURED):
            assert site.get(path, headers={"Host": host}).status_code == 200, host
        for host in FOREIGN:
            answer = site.get(path, headers={"Host": host})
            assert answer.status_code == 421, host
            assert answer.text.startswith(f"'{host}' is not a name of this server; add it to all")


def test_with_users_any_host_name_is_accepted(tmp_path: Path) -> None:
    text = f"basic_auth_users: {{ ana: {hashed('x')} }}"
    with guarded(tmp_path / "web.yml", text, hosts=[]) as site:
        assert site.get(headers={"Host": "other.example"}, auth=("ana", "x")).status_code == 200


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:1"])
def test_a_page_of_another_site_does_not_reload(tmp_path: Path, origin: str) -> None:
    with guarded(tmp_path / "web.yml") as site:
        refused = site.ask("POST", "/-/reload", headers={"Origin": origin})
        own = site.ask("POST", "/-/reload", headers={"Origin": site.server.address})
    assert (refused.status_code, own.status_code) == (403, 200)
    assert refused.text == f"Forbidden: a page from {origin!r} must not reload this daemon.\n"
