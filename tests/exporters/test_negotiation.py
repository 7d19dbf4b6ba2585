"""What /metrics and the API answer by `Accept` and `Accept-Encoding`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest
from prometheus_client import Metric, openmetrics
from prometheus_client.openmetrics import parser as openmetrics_parser
from prometheus_client.parser import text_string_to_metric_families

from streameval import Accumulator
from streameval.exporters.asgi import app
from streameval.exporters.web import Server
from tests.exporters.guarded import Guarded, guarded
from tests.exporters.pictures import busy_health, mean, picture, property_of_all, windowed
from tests.ports import WEB

PROMETHEUS = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)
"""The header of a Prometheus server."""

CHANGING = ("process_", "streameval_snapshot_age_seconds")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    with guarded(tmp_path_factory.mktemp("web") / "web.yml") as site:
        odd = 'a "quoted"\\ value\nin two lines'
        site.snapshot = picture(
            *(windowed(mean("ndcg@10", (odd,), 1.5, 4), window) for window in ("5m", "lifetime")),
            property_of_all("item_coverage@10", ("b",), 0.5),
            windows=("5m",),
            state=busy_health(),
        )
        yield site


@pytest.mark.parametrize("path", ["/metrics", "/", "/api/v1/metrics"])
@pytest.mark.parametrize(
    ("accepted", "packed"),
    [
        ("gzip", True),
        ("br;q=1.0, GZIP;q=0.8, *;q=0.1", True),
        ("gzip; q=0.000, identity", False),
        ("x-gzipped", False),
    ],
)
def test_an_answer_is_compressed_where_that_is_accepted(
    site: Guarded, path: str, accepted: str, *, packed: bool
) -> None:
    answer = site.get(path, headers={"Accept-Encoding": accepted})
    assert answer.headers.get("content-encoding") == ("gzip" if packed else None)
    assert "Accept-Encoding" in answer.headers["vary"]
    assert answer.content.startswith((b"#", b"<!DOCTYPE html>", b"{"))


def test_openmetrics_has_the_samples_of_the_text_format(site: Guarded) -> None:
    text = site.get("/metrics", headers={"Accept": "text/plain"})
    other = site.get("/metrics", headers={"Accept": PROMETHEUS})
    assert text.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert other.headers["content-type"] == openmetrics.exposition.CONTENT_TYPE_LATEST
    assert other.text.endswith("\n# EOF\n")
    families = list(_openmetrics(other.text))
    assert _samples(families) == _samples(text_string_to_metric_families(text.text))
    kinds = {family.name: family.type for family in families}
    assert kinds["streameval_ndcg"] == "summary"
    assert kinds["streameval_events_consumed"] == "counter"
    assert kinds["streameval_item_coverage"] == "gauge"


@pytest.mark.parametrize(
    "accept",
    [
        "",
        "*/*",
        "text/html,application/xhtml+xml,*/*;q=0.8",
        "text/plain;version=0.0.4",
    ],
)
def test_who_does_not_ask_for_openmetrics_gets_the_text_format(site: Guarded, accept: str) -> None:
    answer = site.get("/metrics", headers={"Accept": accept})
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"


def test_accumulators_of_a_service_are_negotiated_too() -> None:
    accumulator = Accumulator("ndcg@10")
    accumulator.update(["a"], ["a"])
    with Server(app(accumulator, first_exposure=0), "127.0.0.1:0") as server:
        headers = {"Accept": PROMETHEUS, "Accept-Encoding": "gzip"}
        answer = WEB.get(f"{server.address}/metrics", headers=headers)
    assert answer.headers["content-encoding"] == "gzip"
    samples = _samples(_openmetrics(answer.text))
    assert samples["streameval_ndcg_sum", (("k", "10"),)] == 1.0


def _openmetrics(text: str) -> Iterator[Metric]:
    yield from openmetrics_parser.text_string_to_metric_families(text)  # type: ignore[no-untyped-call]  # the client's


def _samples(families: Iterable[Metric]) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
        if not sample.name.startswith(CHANGING)
    }
