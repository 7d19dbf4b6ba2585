"""A served snapshot, and what is to be seen of it."""

from __future__ import annotations

from typing import Any

import msgspec
from playwright.sync_api import Locator, Page

from streameval.engine.snapshot import FamilyHistory, PaneMeans, Snapshot, ValueHistory
from streameval.exporters.prometheus import PrometheusExporter
from streameval.exporters.web import Server, application
from tests.exporters.pictures import health, mean, partition, picture, property_of_all, windowed
from tests.ports import WEB

MINUTE = 60_000_000
_VALUES = "nodes => nodes.map(node => node.value)"


class Site:
    """A server whose snapshot the test sets."""

    def __init__(self) -> None:
        self.snapshot: Snapshot | None = moment(1)
        app = application(lambda: self.snapshot, PrometheusExporter(version="1").exposition)
        self.server = Server(app, "127.0.0.1:0")

    @property
    def address(self) -> str:
        return f"{self.server.address}/"

    def metrics(self) -> list[dict[str, Any]]:
        answer = WEB.get(f"{self.address}api/v1/metrics").json()
        metrics: list[dict[str, Any]] = answer["metrics"]
        return metrics

    def expected(self, **wanted: object) -> list[float]:
        """Every value and count that the API has of these, sorted."""
        return numbers(self.metrics(), **wanted)


def numbers(entries: list[dict[str, Any]], **wanted: object) -> list[float]:
    selected = [entry for entry in entries if wanted.items() <= entry.items()]
    both = [entry[name] for entry in selected for name in ("value", "count")]
    return sorted(number for number in both if number is not None)


def values(page: Page, where: str = "#live") -> list[float]:
    """Every value and count of the metrics, as the page has them, to the last digit."""
    texts = page.eval_on_selector_all(f"{where} .card data", _VALUES)
    return sorted(float(text) for text in texts)


def heard(page: Page) -> list[str]:
    """What the page says on its console, errors included, from now on."""
    messages: list[str] = []
    page.on("console", lambda message: messages.append(message.text))
    page.on("pageerror", lambda error: messages.append(str(error)))
    return messages


def requests_of(page: Page) -> list[str]:
    """The addresses of its requests from now on."""
    urls: list[str] = []
    page.on("request", lambda request: urls.append(request.url))
    return urls


def records_read(page: Page) -> Locator:
    return page.locator(".totals dd").first


def moment(version: int) -> Snapshot:
    """Slices by two labels, a metric with many of them, and one without a value."""
    slices = [(variant, campaign) for variant in ("a<b>", "b") for campaign in ("men", "women")]
    series = [
        mean("ndcg@10", label, version * (1 / 3 + number), version * 7)
        for number, label in enumerate(slices)
    ]
    series += [mean("ctr", (f"v{number}", "all"), version, 900) for number in range(6)]
    series += [property_of_all("item_coverage@10", slices[0], float("nan"))]
    parts = (partition(0, version * 5, 99, 1_760_000_000.0), partition(1, 3, None))
    state = health(consumed=version * 8, invalid={"not_json": 1}, partitions=parts)
    return picture(*series, version=version, label_names=("variant", "campaign"), state=state)


def with_windows(version: int) -> Snapshot:
    """Two variants in two windows, of a segment too, with kept panes."""
    series = [
        windowed(
            mean(text, (variant, *country), version * (9.0 + number), 900 * version), window, family
        )
        for family, country in enumerate([(), ("nl",)])
        for text in ("ndcg@10", "ndcg@5", "ctr")
        for number, variant in enumerate(("control", "treatment"))
        for window in ("5m", "24h", "lifetime")
    ]
    parts = (partition(0, version * 5, 99, 1_760_000_000.0),)
    snapshot = picture(
        *series,
        version=version,
        windows=("5m", "24h"),
        segments=("country",),
        state=health(consumed=version * 8, partitions=parts),
    )
    return msgspec.structs.replace(snapshot, past=_past(version))


def panes(*means: float) -> Snapshot:
    """One variant with a mean for each minute."""
    kept = tuple(
        PaneMeans(index * MINUTE, MINUTE, {("a",): [(level * 10, 10)]})
        for index, level in enumerate(means)
    )
    past = FamilyHistory(("ndcg@10",), kept, 0, {})
    snapshot = picture(mean("ndcg@10", ("a",), sum(means), len(means)))
    return msgspec.structs.replace(
        snapshot, past=ValueHistory(clock=len(means) * MINUTE, families=(past,))
    )


def _past(version: int) -> ValueHistory:
    texts = ("ndcg@10", "ndcg@5", "ctr")
    rows: dict[tuple[str, ...], list[tuple[float, int]]] = {
        (variant,): [(1.0 + version / 10 + number, 90)] * len(texts)
        for number, variant in enumerate(("control", "treatment"))
    }
    start = 1_760_000_000_000_000 // MINUTE * MINUTE
    panes = tuple(PaneMeans(start - ago * MINUTE, MINUTE, rows) for ago in range(6, -1, -1))
    spans = {"5m": 5 * MINUTE, "24h": 1440 * MINUTE}
    history = FamilyHistory(texts, panes, start - 1500 * MINUTE, spans)
    return ValueHistory(clock=start + MINUTE // 2, families=(history, FamilyHistory()))
