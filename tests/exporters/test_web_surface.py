"""Headers, prefix, addresses and what is said of them."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streameval.errors import AddressInUseError, ConfigError
from streameval.exporters.web.rate import Bucket, bucket
from streameval.exporters.web.webconfig import RateLimit
from tests.exporters.certificates import Authority
from tests.exporters.guarded import Guarded, guarded, hashed, trusting

HEADERS = """
http_server_config:
  http2: true
  headers:
    Strict-Transport-Security: max-age=31536000
    X-Frame-Options: deny
    X-Content-Type-Options: nosniff
    X-XSS-Protection:
    Content-Security-Policy: default-src 'none'
"""
TLS = "tls_server_config: { cert_file: server.crt, key_file: server.key }\n"


def test_configured_headers_are_added_and_ours_stay(tmp_path: Path) -> None:
    with guarded(tmp_path / "web.yml", HEADERS) as site:
        for path in ("/", "/metrics", "/nothing"):
            headers = site.get(path).headers
            assert headers["x-frame-options"] == "deny"
            assert headers.get_list("x-content-type-options") == ["nosniff"]
            ours, theirs = headers.get_list("content-security-policy")
            assert ours.startswith("default-src 'self';")
            assert theirs == "default-src 'none'"
            assert "x-xss-protection" not in headers


def test_a_browser_is_told_of_https_over_https_only(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    authority.issue("server")
    with guarded(tmp_path / "web.yml", HEADERS) as site:
        assert "strict-transport-security" not in site.get().headers
        site.reload(TLS + HEADERS)
        told = site.get(verify=trusting(authority.file)).headers
        assert told["strict-transport-security"] == "max-age=31536000"


@pytest.mark.parametrize("proxy", [{"X-Forwarded-Proto": "https"}, {"Forwarded": "proto=https"}])
def test_a_client_cannot_say_that_it_came_encrypted(tmp_path: Path, proxy: dict[str, str]) -> None:
    with guarded(tmp_path / "web.yml", HEADERS) as site:
        assert "strict-transport-security" not in site.get(headers=proxy).headers


def test_all_paths_begin_with_the_prefix(tmp_path: Path) -> None:
    with guarded(tmp_path / "web.yml", prefix="/eval/web") as site:
        for path in ("/", "/metrics", "/api/v1/metrics", "/-/healthy", "/static/page.css"):
            assert site.get(f"/eval/web{path}").status_code == 200
            if path != "/":
                assert site.get(path).status_code == 404
        assert site.ask("POST", "/eval/web/-/reload").status_code == 200


@pytest.mark.parametrize("path", ["/", "/eval"])
def test_whoever_leaves_out_the_prefix_is_shown_the_page(tmp_path: Path, path: str) -> None:
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
            assert httpx.get(f"{each}/metrics", trust_env=False).status_code == 200


def test_where_one_address_is_taken_none_is(tmp_path: Path) -> None:
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
        ("0.0.0.0:0", f"basic_auth_users: {{ ana: {hashed('x')} }}", "passwords can be read"),
        ("0.0.0.0:0", TLS, None),
    ],
    ids=["loopback", "twice loopback", "all", "loopback and all", "users", "encrypted"],
)
def test_it_is_known_whether_others_may_read(
    tmp_path: Path, listen: str | list[str], text: str, danger: str | None
) -> None:
    Authority(tmp_path).issue("server")
    site = Guarded(tmp_path / "web.yml", text, listen=listen)
    site.server.stop()
    found = site.server.danger
    assert found is None if danger is None else danger in str(found)


@given(
    interval=st.floats(0.01, 100),
    burst=st.integers(1, 20),
    steps=st.lists(st.floats(0, 50), min_size=1, max_size=60),
)
def test_never_more_pass_than_burst_and_time_allow(
    interval: float, burst: int, steps: list[float]
) -> None:
    clock = 0.0
    made = Bucket(interval, burst, lambda: clock)
    passed = 0
    for step in steps:
        clock += step
        passed += made.allows()
        assert passed <= burst + clock / interval + 1e-6
    assert passed >= 1


@pytest.mark.parametrize(
    ("text", "seconds"), [("1s", 1.0), ("100ms", 0.1), ("1m30s", 90.0), ("1.5h", 5400.0)]
)
def test_an_interval_is_written_as_in_go(text: str, seconds: float) -> None:
    clock = [0.0]
    made = bucket("web.yml", RateLimit(interval=text, burst=1), lambda: clock[0])
    assert made is not None
    assert made.allows()
    clock[0] = seconds * 0.99
    assert not made.allows()
    clock[0] = seconds * 1.001
    assert made.allows()


@pytest.mark.parametrize("text", ["", "1", "s", "-1s", "1 s", "1y", "1s!"])
def test_what_is_no_interval_is_said(text: str) -> None:
    with pytest.raises(ConfigError, match=r"rate_limit\.interval: found .* give a duration"):
        bucket("web.yml", RateLimit(interval=text, burst=1), lambda: 0.0)
