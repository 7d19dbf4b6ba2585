"""The web server: page, health, API, addresses, host names and prefix."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import msgspec
import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from streameval.events.errors import UsageError
from streameval.exporters.prometheus import PrometheusExporter
from streameval.exporters.web import Server, application, try_address
from streameval.statistics.intervals import Interval
from tests.certificates import Authority
from tests.exporters.guarded import Guarded, guarded, hashed
from tests.exporters.pictures import health, mean, picture, property_of_all, windowed
from tests.ports import WEB


def _has_ipv6() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Guarded]:
    with guarded(tmp_path / "web.yml") as site:
        yield site


def test_before_the_first_snapshot_everything_answers(site: Guarded) -> None:
    site.snapshot = None
    assert "No data has been read yet" in site.get("/").text
    assert site.get("/metrics").status_code == 200
    for path in ("metrics", "catalogue", "history?metric=ndcg@10"):
        assert site.get(f"/api/v1/{path}").status_code == 503
    assert site.get("/api/v1/openapi.json").json()["openapi"] == "3.1.0"
    assert site.get("/-/healthy").status_code == 200
    assert site.get("/-/ready").status_code == 503


def test_lifespan_events_are_accepted() -> None:
    with TestClient(_empty()) as client:
        assert client.get("/-/healthy").status_code == 200


def test_a_stalled_loop_is_unhealthy_and_not_ready(site: Guarded) -> None:
    site.snapshot = picture()
    site.turns = False
    assert site.get("/-/healthy").status_code == 503
    assert site.get("/-/ready").status_code == 503


def test_not_ready_has_a_reason(site: Guarded) -> None:
    site.snapshot = picture(state=health(ready=False, trouble="no broker answers at 10.0.0.1."))
    answer = site.get("/-/ready")
    assert answer.status_code == 503
    assert answer.text.startswith("Not ready: no broker answers at 10.0.0.1. The snapshot is ")
    site.snapshot = picture(version=2)
    assert site.get("/-/ready").status_code == 200


def test_the_age_of_the_snapshot_is_said(site: Guarded) -> None:
    site.snapshot = msgspec.structs.replace(picture(), taken_at=time.time() - 7_260)
    assert site.get("/-/ready").text.endswith(" The snapshot is 2 h 1 min old.\n")
    for path in ("/", "/main"):
        assert ", 2 h 1 min old." in site.get(path).text


def test_later_trouble_is_shown_and_leaves_the_daemon_ready(site: Guarded) -> None:
    site.snapshot = picture(state=health(trouble="10,000 lists and no hit."))
    assert site.get("/-/ready").text.startswith("Warning: 10,000 lists and no hit.")
    assert "10,000 lists and no hit." in site.get("/").text
    assert site.get("/api/v1/metrics").json()["health"]["trouble"] == "10,000 lists and no hit."
    assert site.get("/-/ready").status_code == 200


def test_the_api_has_each_reading_with_its_labels_and_null_where_undefined(site: Guarded) -> None:
    site.snapshot = picture(mean("ndcg@10", ("a",), 3.5, 7), mean("ndcg@10", ("b",), 0.0, 0))
    first, second = site.get("/api/v1/metrics").json()["metrics"]
    assert first == {
        "metric": "ndcg@10",
        "labels": {"variant": "a"},
        "segment": None,
        "window": "lifetime",
        "since": None,
        "value": 0.5,
        "count": 7,
        "lists": 7,
        "total": 3.5,
        "estimated": False,
        "low": None,
        "high": None,
        "interval": None,
        "no_interval": None,
        "problem": None,
        "difference": None,
        "weight": None,
        "estimate": False,
        "note": None,
        "verdict": None,
    }
    assert (second["value"], second["count"]) == (None, 0)


def test_the_page_shows_its_start_and_a_dash_without_evidence(site: Guarded) -> None:
    site.snapshot = picture(mean("ndcg@10", ("a",), 0.0, 0))
    dash = '\N{EN DASH}<span class="unseen"> No data yet</span></span>'
    for path in ("/", "/main"):
        assert dash in site.get(path).text
    assert "nan" not in site.get("/").text
    assert "Started 2025-10-09 08:53:20 UTC" in site.get("/").text


@pytest.mark.parametrize("path", ["/", "/metrics", "/nothing", "/static/page.js"])
def test_the_content_security_policy_forbids_other_origins(site: Guarded, path: str) -> None:
    answer = site.get(path)
    assert answer.headers["content-security-policy"].startswith("default-src 'self';")
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_an_unknown_path_and_another_method_have_a_sentence(site: Guarded) -> None:
    for path in ("/nothing", "/static/nothing", "/static/../page.py"):
        answer = site.get(path)
        assert answer.status_code == 404
        assert "try /, /metrics, /api/v1/metrics (described by /docs, " in answer.text
    answer = WEB.post(site.server.address + "/metrics")
    assert (answer.status_code, answer.text) == (405, "Method not allowed; use GET.\n")
    assert sorted(answer.headers["allow"].split(", ")) == ["GET", "HEAD"]


@pytest.mark.parametrize("take", [try_address, lambda listen: Server(_empty(), listen)])
def test_an_address_in_use_is_named(site: Guarded, take: Callable[[str], object]) -> None:
    busy = site.server.address.removeprefix("http://")
    with pytest.raises(UsageError, match=r"cannot listen on 127\.0\.0\.1:\d+: address al"):
        take(busy)


def test_an_unknown_host_is_named() -> None:
    with pytest.raises(UsageError, match="cannot listen on"):
        try_address("no.such.host.invalid:0")


@pytest.mark.skipif(not _has_ipv6(), reason="this machine has no IPv6 address ::1")
def test_an_ipv6_address_is_in_brackets() -> None:
    with Server(_empty(), "[::1]:0") as server:
        assert server.address.startswith("http://[::1]:")
        answer = WEB.get(f"{server.address}/-/healthy")
        assert answer.status_code == 200


@pytest.mark.parametrize("starts", [True, False])
def test_a_stopped_server_releases_its_address(*, starts: bool) -> None:
    server = Server(_empty(), "127.0.0.1:0")
    if starts:
        server.start()
    server.stop()
    assert try_address(server.address.removeprefix("http://")) == server.address


def _empty() -> Starlette:
    return application(lambda: None, PrometheusExporter(version="1").exposition)


def test_the_page_marks_an_estimate(site: Guarded) -> None:
    sure = windowed(property_of_all("gini", ("a",), 0.5, estimated=True, low=0.25, high=0.75), "5m")
    unsure = property_of_all("gini", ("a",), 0.5, estimated=True)
    site.snapshot = picture(sure, unsure, windows=["5m"])
    text = site.get("/").text + site.get("/?window=lifetime").text
    assert "<small>estimated, between 0.2500 and 0.7500</small>" in text
    assert "<small>estimated, without bounds</small>" in text
    assert "Estimated above max_items." in site.get("/metrics").text


TLS = "tls_server_config: { cert_file: server.crt, key_file: server.key }\n"


def test_all_paths_have_the_prefix_and_lead_to_each_other(tmp_path: Path) -> None:
    with guarded(tmp_path / "web.yml", prefix="/eval") as site:
        for path in ("/metrics", "/api/v1/metrics", "/-/healthy", "/static/page.css"):
            assert site.get(f"/eval{path}").status_code == 200
            assert site.get(path).status_code == 404
        for path in ("/", "/eval"):
            answer = site.get(path)
            assert (answer.status_code, answer.headers["location"]) == (302, "/eval/")
        described = site.get("/eval/docs").headers["location"]
        assert described == "/eval/api/v1/openapi.json"
        assert site.get(described).json()["openapi"] == "3.1.0"
        addresses = re.findall(r'(?:href|src)="([^"]*)"', site.get("/eval/").text)
        assert addresses
        for address in addresses:
            target = str(httpx.URL(f"{site.server.address}/eval/").join(address))
            assert site.get(target.removeprefix(site.server.address)).status_code == 200, address


def test_several_addresses_answer_alike(tmp_path: Path) -> None:
    listen = ["127.0.0.1:0", "127.0.0.2:0", "127.0.0.1:0"]
    with guarded(tmp_path / "web.yml", listen=listen) as site:
        addresses = site.server.addresses
        assert len(set(addresses)) == 3
        for address in addresses:
            assert WEB.get(f"{address}/metrics").status_code == 200


def test_if_one_address_is_in_use_none_is_bound(tmp_path: Path) -> None:
    with guarded(tmp_path / "web.yml") as site:
        busy = f"127.0.0.1:{site.port}"
        free = Guarded(tmp_path / "other.yml")
        free.server.stop()
        listen = [f"127.0.0.1:{free.port}", busy]
        with pytest.raises(UsageError, match=busy):
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
    danger_shown = site.server.danger
    assert danger_shown is None if danger is None else danger in str(danger_shown)


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


def test_a_value_has_the_same_words_with_and_without_scripts(site: Guarded) -> None:
    sure = Interval(low=0.1, high=0.4, confidence=0.9995, kind="anytime", groups=64.0)
    series = [
        mean("ndcg@10", (name,), number, 10) for name, number in (("control", 2.0), ("b", 1.0))
    ]
    reading = msgspec.structs.replace(series[0].reading, interval=sure)
    series[0] = msgspec.structs.replace(series[0], reading=reading)
    site.snapshot = picture(*series)
    shown = '<data value="0.2">0.2000</data> <small>99.95 % interval 0.1000 to 0.4000</small>'
    less = "-0.100 (-50.0\N{NO-BREAK SPACE}%)</div>"
    for path in ("/", "/main", "/main?window=lifetime", "/main?view=ndcg@10"):
        text = site.get(path).text
        assert shown in text.replace("\N{NO-BREAK SPACE}", " ")
        assert less in text
