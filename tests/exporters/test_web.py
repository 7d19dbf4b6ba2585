from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from streameval.errors import AddressInUseError
from streameval.exporters.prometheus import PrometheusExporter
from streameval.exporters.web import Server, application, try_address
from tests.effort import every_case
from tests.exporters.guarded import Guarded, guarded
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


def test_the_exposition_has_its_content_type(site: Guarded) -> None:
    kind = site.get("/metrics").headers["content-type"]
    assert kind == "text/plain; version=0.0.4; charset=utf-8"


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


def test_ready_has_the_age_of_the_snapshot(site: Guarded) -> None:
    site.snapshot = msgspec.structs.replace(picture(), taken_at=time.time() - 7_260)
    assert site.get("/-/ready").text.endswith(" The snapshot is 2 h 1 min old.\n")


def test_later_trouble_is_shown_and_leaves_the_daemon_ready(site: Guarded) -> None:
    site.snapshot = picture(state=health(trouble="10,000 lists and no hit."))
    assert site.get("/-/ready").text.startswith("Warning: 10,000 lists and no hit.")
    assert "10,000 lists and no hit." in site.get("/").text
    assert site.get("/api/v1/metrics").json()["health"]["trouble"] == "10,000 lists and no hit."
    assert site.get("/-/ready").status_code == 200


def test_the_api_gives_every_bit_of_a_value(site: Guarded) -> None:
    values = [0.1 + 0.2, 1 / 3, 5e-324, 1.7976931348623157e308, 2.0**-30]
    found = (property_of_all("item_coverage@10", (str(value),), value) for value in values)
    site.snapshot = picture(*found)
    given = [each["value"] for each in site.get("/api/v1/metrics").json()["metrics"]]
    assert struct.pack("<5d", *given) == struct.pack("<5d", *values)


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
    }
    assert (second["value"], second["count"]) == (None, 0)


def test_the_page_escapes_text_of_the_stream(site: Guarded) -> None:
    nasty = '<script>alert("x")</script>'
    site.snapshot = picture(
        *(mean("ndcg@10", (f"{nasty}{number}",), 1, 2) for number in range(6)),
        mean("mrr", (nasty,), 1, 2),
        label_names=["<b>"],
        state=health(trouble=nasty),
    )
    text = site.get("/").text
    assert "<script>" not in text
    assert "<b>" not in text
    assert "&lt;script&gt;alert(&quot;x&quot;)&lt;/script&gt;" in text


def test_the_page_shows_a_dash_without_evidence(site: Guarded) -> None:
    site.snapshot = picture(mean("ndcg@10", ("a",), 0.0, 0))
    assert "\N{EN DASH}</span>" in site.get("/").text
    assert "nan" not in site.get("/").text


def test_the_page_shows_when_the_process_started(site: Guarded) -> None:
    site.snapshot = picture()
    assert "Started 2025-10-09 08:53:20 UTC" in site.get("/").text


@every_case("path", ["/", "/metrics", "/nothing", "/static/page.js"])
def test_the_content_security_policy_forbids_other_origins(site: Guarded, path: str) -> None:
    answer = site.get(path)
    assert answer.headers["content-security-policy"].startswith("default-src 'self';")
    assert answer.headers["x-content-type-options"] == "nosniff"


@every_case("path", ["/nothing", "/static/nothing", "/static/../page.py"])
def test_an_unknown_path_has_a_sentence(site: Guarded, path: str) -> None:
    answer = site.get(path)
    assert answer.status_code == 404
    assert "try /, /metrics," in answer.text


def test_a_method_other_than_get_has_a_sentence(site: Guarded) -> None:
    answer = WEB.post(site.server.address + "/metrics")
    assert answer.status_code == 405
    assert sorted(answer.headers["allow"].split(", ")) == ["GET", "HEAD"]
    assert answer.text == "Method not allowed; use GET.\n"


@pytest.mark.parametrize("take", [try_address, lambda listen: Server(_empty(), listen)])
def test_an_address_in_use_is_named(site: Guarded, take: Callable[[str], object]) -> None:
    busy = site.server.address.removeprefix("http://")
    with pytest.raises(AddressInUseError, match=r"cannot listen on 127\.0\.0\.1:\d+: address al"):
        take(busy)


def test_an_unknown_host_is_named() -> None:
    with pytest.raises(AddressInUseError, match="cannot listen on"):
        try_address("no.such.host.invalid:0")


@pytest.mark.skipif(not _has_ipv6(), reason="this machine has no IPv6 address ::1")
def test_an_ipv6_address_is_in_brackets() -> None:
    with Server(_empty(), "[::1]:0") as server:
        assert server.address.startswith("http://[::1]:")
        answer = WEB.get(f"{server.address}/-/healthy")
        assert answer.status_code == 200


def test_a_stopped_server_releases_its_address(site: Guarded) -> None:
    address = site.server.address.removeprefix("http://")
    site.server.stop()
    assert try_address(address) == site.server.address


def test_a_server_that_never_started_releases_its_address() -> None:
    server = Server(_empty(), "127.0.0.1:0")
    server.stop()
    assert try_address(server.address.removeprefix("http://")) == server.address


def _empty() -> Starlette:
    return application(lambda: None, PrometheusExporter(version="1").exposition)


def test_the_page_marks_an_estimate(site: Guarded) -> None:
    sure = windowed(property_of_all("gini", ("a",), 0.5, estimated=True, low=0.25, high=0.75), "5m")
    unsure = property_of_all("gini", ("a",), 0.5, estimated=True)
    site.snapshot = picture(sure, unsure, windows=["5m"])
    text = site.get("/").text
    assert "<small>estimated, between 0.2500 and 0.7500</small>" in text
    assert "<small>estimated, without bounds</small>" in text
    assert "Estimated above max_items." in site.get("/metrics").text
