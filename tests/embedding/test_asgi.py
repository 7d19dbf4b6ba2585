from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, MutableMapping
from typing import Any
from urllib.parse import urljoin

import httpx
import pytest
from playwright.sync_api import Browser, Locator, Page, expect
from starlette.applications import Starlette

from streameval import Accumulator
from streameval.exporters.asgi import _Latest, app
from streameval.exporters.embedded import AccumulatorSnapshots
from streameval.exporters.web import Server
from tests.browser.conftest import browser
from tests.browser.site import heard, requests_of
from tests.embedding.examples import lists, samples

__all__ = ["browser"]


class Service:
    """A service with the evaluation mounted under a path."""

    def __init__(self) -> None:
        self.variants = {name: Accumulator("ndcg@10", "ctr") for name in ("control", "treatment")}
        api = Starlette()
        api.mount(
            "/shop/evaluation", app(self.variants, "variant", source="the shop", first_exposure=0)
        )
        self.server = Server(api, "127.0.0.1:0")
        self.client = httpx.Client(timeout=60, trust_env=False)

    @property
    def address(self) -> str:
        return f"{self.server.address}/shop/evaluation"

    def get(self, path: str, **headers: str) -> httpx.Response:
        return self.client.get(urljoin(f"{self.address}/", path), headers=headers)


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    service = Service()
    for number, accumulator in enumerate(service.variants.values()):
        for shown_and_clicked in lists(100, number):
            accumulator.update(*shown_and_clicked)
    with service.server, service.client:
        yield service


def test_the_mount_path_redirects_to_the_page(service: Service) -> None:
    answer = service.client.get(service.address, follow_redirects=True)
    assert str(answer.url) == f"{service.address}/"
    assert '<h1 id="source">the shop</h1>' in answer.text
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'self'; base-uri 'none'")


def test_all_requests_of_the_page_are_below_its_path(service: Service) -> None:
    page = service.get("").text
    links = set(re.findall(r'(?:href|src)="([^"#]+)"', page))
    assert {"static/page.js", "static/page.css", "metrics", "api/v1/metrics"} <= links
    assert {service.get(link).status_code for link in links} == {200}


def test_the_page_without_scripts_has_the_values(service: Service) -> None:
    value = service.variants["control"].read("ndcg@10").value
    assert f'value="{value!r}"' in service.get("").text


def test_the_api_has_the_values_with_every_digit(service: Service) -> None:
    document = service.get("api/v1/metrics").json()
    values = {
        (reading["metric"], reading["labels"]["variant"]): reading["value"]
        for reading in document["metrics"]
    }
    assert values == {
        (metric, variant): accumulator.read(metric).value
        for metric in ("ndcg@10", "ctr")
        for variant, accumulator in service.variants.items()
    }
    assert document["state"] == {"ready": True, "word": "Ready", "why": "reading."}


def test_metrics_are_those_of_a_collector(service: Service) -> None:
    answer = service.get("metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    exported = samples(service.get("metrics").text)
    count = service.variants["control"].read("ctr").count
    assert exported["streameval_ctr_count{variant=control}"] == count
    assert set(exported) == {
        f"streameval_{name}_{part}{{{labels}variant={variant}}}"
        for name, labels in (("ndcg", "k=10,"), ("ctr", ""))
        for part in ("sum", "count")
        for variant in service.variants
    }


def test_health_checks_answer(service: Service) -> None:
    assert service.get("-/healthy").status_code == 200
    assert service.get("-/ready").text.startswith("Ready: reading. The snapshot is ")


def test_frequent_requests_read_once_a_second() -> None:
    accumulator, now = Accumulator("ctr"), [100.0]
    shown = _Latest(AccumulatorSnapshots(accumulator, (), "a test"), lambda: now[0])
    first = shown.current()
    accumulator.update(["a"], ["a"])
    now[0] += 0.9
    assert shown.current() is first
    now[0] += 0.2
    second = shown.current()
    assert [snapshot.series[0].reading.count for snapshot in (first, second)] == [0, 1]
    assert [column.values[0] for column in second.past.seen][1:] == [1.0]


def test_a_query_that_is_not_utf_8_is_answered() -> None:
    """Servers pass on the bytes that a client sends."""
    answers: list[MutableMapping[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request"}

    async def send(message: MutableMapping[str, Any]) -> None:
        answers.append(message)

    scope: dict[str, Any] = {
        "type": "http",
        "method": "GET",
        "path": "/",
        "query_string": b"k=\xff",
    }
    scope |= {"headers": [], "client": None, "http_version": "1.1"}
    asyncio.run(app(Accumulator("ctr"), source="a test")(scope, receive, send))
    assert answers[0]["status"] == 200


@pytest.mark.nightly
@pytest.mark.browser
def test_the_page_moves_in_a_browser_under_its_path(service: Service, browser: Browser) -> None:
    page = browser.new_page()
    console, requests = heard(page), requests_of(page)
    page.goto(f"{service.address}/")
    expect(_shown(page, service)).to_be_visible()
    service.variants["control"].update(["x"], ["x"])
    expect(_shown(page, service)).to_be_visible()
    assert console == []
    assert all(url.startswith(f"{service.address}/") for url in requests)


def _shown(page: Page, service: Service) -> Locator:
    """The element in which the page's script shows the current value."""
    value = service.variants["control"].read("ndcg@10").value
    return page.locator(f'#live data[value="{value!r}"]').first
