from __future__ import annotations

import itertools
import pickle
import subprocess
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Counter, generate_latest

from streameval import Accumulator, metric, metric_at
from streameval.engine.snapshot import Series
from streameval.events.errors import UsageError
from streameval.exporters.asgi import app
from streameval.exporters.embedded import Collector
from streameval.exporters.prometheus import PrometheusExporter
from streameval.statistics.asked import BY_CELL
from tests.contract.test_half_counted import LONG, SHORT, fails_on_long
from tests.embedding.examples import lists, scraped
from tests.exporters.pictures import picture
from tests.prometheus.server import program

METRICS = ("ndcg@10", "recbole:ndcg@5", "ctr", "item_coverage@10", "ndcg(statistic=median)@10")


def _counted(count: int, *metrics: str, seed: int = 0) -> Accumulator:
    accumulator = Accumulator(*(metrics or METRICS), catalog=50)
    for shown_and_clicked in lists(count, seed):
        accumulator.update(*shown_and_clicked)
    return accumulator


@pytest.fixture(autouse=True)
def _scrapes_are_20_seconds_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(time=time.time, monotonic=itertools.count(0.0, 20.0).__next__)
    monkeypatch.setattr("streameval.exporters.embedded.time", clock)


def _named(module: str, name: str, reads: str = "event") -> Callable[..., Any]:
    made: dict[str, Any] = {"__name__": module}
    exec(f"def {name}({reads}): return 1.0", made)
    declared: Callable[..., Any] = metric(bounds=(0, 1), source="our own rule")(made[name])
    return declared


@pytest.mark.parametrize("reads", sorted(BY_CELL.keys() - {"placements"}))
def test_an_own_metric_of_a_slice_is_a_gauge(reads: str) -> None:
    accumulator = Accumulator(_named("shop", "ours", reads))
    accumulator.update(["a"], ["a"], scores=[0.5], user="u")
    registry = _registered(Collector(accumulator, first_exposure=0))
    assert scraped(registry) == {"streameval_shop_ours": 1.0}


def test_two_metrics_with_one_name_in_prometheus_are_refused() -> None:
    """Prometheus would keep one of two equal samples."""
    shop, other = _named("shop.lists", "short"), _named("shop", "lists_short")
    for accumulators in (
        Accumulator(shop, other),
        {"a": Accumulator(shop, "ndcg@5"), "b": Accumulator("ndcg@5", other)},
    ):
        labels = "variant" if isinstance(accumulators, dict) else ()
        for make in (Collector, app):
            with pytest.raises(UsageError, match="are both streameval_shop_lists_short in Prom"):
                make(accumulators, labels)
    alike = Accumulator(shop, metric_at(shop, type="click"), "ndcg@5", "ndcg@10", "recbole:ndcg@5")
    again = pickle.loads(pickle.dumps(Accumulator("ndcg@5", "ndcg(statistic=median)@5")))
    Collector({"a": alike, "b": again}, labels="variant")


def _registered(collector: Collector) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(collector)
    return registry


def _daemons(variants: dict[str, Accumulator]) -> list[str]:
    """The metrics that the daemon's exporter has for the same accumulators."""
    exporter = PrometheusExporter(version="1", first_exposure=0)
    series = [
        Series(metric, (variant,), accumulator.read(metric.text))
        for metric in next(iter(variants.values())).metrics
        for variant, accumulator in variants.items()
    ]
    return _of_metrics(exporter.exposition(picture(*series)).decode())


def _of_metrics(text: str) -> list[str]:
    names = ("ndcg", "recbole", "ctr", "item_coverage")
    return [
        line
        for line in text.splitlines()
        if line.removeprefix("# HELP ")
        .removeprefix("# TYPE ")
        .startswith(tuple(f"streameval_{name}" for name in names))
    ]


def test_it_exports_the_lines_of_the_daemon() -> None:
    variants = {"a": _counted(90), "b": _counted(60, seed=1)}
    registry = _registered(Collector(variants, labels="variant", first_exposure=20))
    exported = _of_metrics(generate_latest(registry).decode())
    assert exported == _daemons(variants)
    assert len(exported) == 5 * 2 + 3 * 4 + 2 * 2


@pytest.mark.prometheus
def test_promtool_accepts_it() -> None:
    registry = _registered(Collector({"a": _counted(9)}, labels="variant"))
    command = [program("promtool"), "check", "metrics"]
    text = generate_latest(registry)
    result = subprocess.run(command, input=text, capture_output=True, check=False)
    assert (result.returncode, result.stdout + result.stderr) == (0, b"")


def test_a_counter_is_0_for_its_first_exposure() -> None:
    accumulator = Accumulator("hit_rate@2")
    # Scrapes are 20 seconds apart here.
    registry = _registered(Collector(accumulator, first_exposure=60))
    accumulator.update(["a", "b"], ["b"])
    name = "streameval_hit_rate_count{k=2}"
    assert [scraped(registry)[name] for _ in range(4)] == [0, 0, 0, 1]


def test_a_counter_starts_with_earlier_counts() -> None:
    variants = {"a": _counted(30, "ctr"), "b": Accumulator("ctr")}
    registry = _registered(Collector(variants, labels="variant", first_exposure=20))
    variants["a"].update(["x"], ["x"])
    variants["b"].update(["x"], ["x"])
    exported = scraped(registry)
    assert exported["streameval_ctr_count{variant=a}"] == 301
    assert exported["streameval_ctr_count{variant=b}"] == 0


def test_restored_counts_start_at_0_and_their_increase_is_exact() -> None:
    accumulator = _counted(30, "hit_rate@1")
    before = accumulator.read("hit_rate@1")
    registry = _registered(Collector(accumulator, restored=True, first_exposure=20))
    accumulator.update(["x"], ["x"])
    name = "streameval_hit_rate_sum{k=1}"
    assert [scraped(registry)[name] for _ in range(2)] == [0, 1]
    assert accumulator.read("hit_rate@1").count == before.count + 1


def test_a_counter_continues_after_a_reset() -> None:
    accumulator = _counted(30, "hit_rate@1")
    registry = _registered(Collector(accumulator, first_exposure=20))
    before = scraped(registry)
    accumulator.reset()
    assert scraped(registry) == before
    accumulator.update(["x"], ["x"])
    after = scraped(registry)
    assert {name: after[name] - before[name] for name in after} == {
        "streameval_hit_rate_count{k=1}": 1,
        "streameval_hit_rate_sum{k=1}": 1,
    }


@pytest.mark.parametrize("restored", [False, True])
def test_a_counter_continues_after_a_reset_that_no_scrape_saw(restored: bool) -> None:  # noqa: FBT001  a case
    accumulator = _counted(3, "hit_rate@1")
    accumulator.reset()
    accumulator.update(["x"], ["x"])
    registry = _registered(Collector(accumulator, restored=restored, first_exposure=0))
    count, total = (f"streameval_hit_rate_{name}{{k=1}}" for name in ("count", "sum"))
    before = scraped(registry)
    for hits in (5, 1, 7):
        accumulator.reset()
        for _ in range(hits):
            accumulator.update(["x"], ["x"])
            accumulator.update(["x"], [])
        after = scraped(registry)
        assert (after[count] - before[count], after[total] - before[total]) == (2 * hits, hits)
        before = after


def test_a_value_without_evidence_has_no_sample() -> None:
    accumulator = Accumulator("item_coverage@10", "ndcg(statistic=median)@10", catalog=50)
    registry = _registered(Collector(accumulator, first_exposure=20))
    assert generate_latest(registry) == b""
    accumulator.update(["a"], [])
    assert list(scraped(registry)) == ["streameval_item_coverage{k=10}"]


def test_a_value_that_a_convention_refuses_is_counted_and_omitted() -> None:
    accumulator = Accumulator("capri:recall@5")
    registry = _registered(Collector(accumulator, first_exposure=20))
    accumulator.update(["a"], [])
    exported = [scraped(registry) for _ in range(2)][1]
    assert exported == {"streameval_readings_undefined{metric=capri:recall@5}": 1}


def test_accumulators_come_and_go_with_the_mapping() -> None:
    variants = {"a": Accumulator("ctr")}
    registry = _registered(Collector(variants, labels="variant", first_exposure=20))
    variants["b"] = _counted(1, "ctr")
    assert scraped(registry)["streameval_ctr_count{variant=b}"] == 0
    assert scraped(registry)["streameval_ctr_count{variant=b}"] == 10
    del variants["a"]
    assert list(scraped(registry)) == [
        "streameval_ctr_sum{variant=b}",
        "streameval_ctr_count{variant=b}",
    ]


def test_slices_may_have_different_metrics_and_several_labels() -> None:
    slices = {("home", "a"): Accumulator("ctr"), ("search", "a"): Accumulator("mrr", "ctr")}
    exported = scraped(_registered(Collector(slices, labels=("place", "variant"))))
    assert set(exported) == {
        f"streameval_{name}_{part}{{place={place},variant=a}}"
        for name, place in (("ctr", "home"), ("ctr", "search"), ("mrr", "search"))
        for part in ("sum", "count")
    }


def test_a_registry_refuses_a_second_one_with_the_same_names() -> None:
    registry = _registered(Collector(Accumulator("ctr"), first_exposure=20))
    Counter("requests", "A counter of the service's own.", registry=registry)
    registry.register(Collector(Accumulator("mrr")))
    with pytest.raises(ValueError, match="Duplicated timeseries"):
        registry.register(Collector(Accumulator("ctr", "hits")))


@pytest.mark.parametrize(
    ("accumulators", "labels"),
    [
        ({"a": Accumulator("ctr")}, ()),
        ({"a": Accumulator("ctr")}, ("variant", "country")),
        ({("a", "nl"): Accumulator("ctr")}, "variant"),
        ({None: Accumulator("ctr")}, "variant"),
        (Accumulator("ctr"), "variant"),
    ],
)
def test_keys_that_do_not_match_the_labels_are_refused(
    accumulators: Accumulator | dict[object, Accumulator], labels: str | tuple[str, ...]
) -> None:
    with pytest.raises(UsageError, match="give labels=, and as key a string"):
        Collector(accumulators, labels)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (([Accumulator("ctr")],), "give one Accumulator, or a mapping"),
        ((None,), "found None; give one Accumulator, or a mapping"),
        (({"a": Accumulator("ctr")}, ""), "labels=''; give the name of each label"),
        (({"a": Accumulator("ctr")}, 5), "labels=5; give the name of each label"),
        ((Accumulator("ctr"), (), "60"), "first_exposure='60'; give seconds, 0 or more"),
        ((Accumulator("ctr"), (), -1), "first_exposure=-1; give seconds, 0 or more"),
    ],
)
def test_an_argument_of_another_type_is_refused_at_once(given: tuple[Any, ...], says: str) -> None:
    accumulators, *rest = given
    named = dict(zip(("labels", "first_exposure"), rest, strict=False))
    for shown in (Collector, app):
        with pytest.raises(UsageError, match=says):
            shown(accumulators, **named)


def test_a_key_that_prometheus_cannot_encode_is_refused_at_once() -> None:
    for key, labels in (("\ud800", "variant"), (("a", "b\udfff"), ("variant", "country"))):
        with pytest.raises(UsageError, match=r"which is not UTF-8; decode it with errors="):
            Collector({key: Accumulator("ctr")}, labels)


def _interrupted() -> Accumulator:
    """An accumulator of which an exception has stopped a change."""
    accumulator = Accumulator("ctr", fails_on_long)
    accumulator.update(*SHORT)
    accumulator.compute()
    accumulator.update(*LONG)
    with pytest.raises(KeyError):
        accumulator.compute()
    return accumulator


@pytest.mark.parametrize(
    ("key", "make", "reason", "says"),
    [
        (("b", "c"), Accumulator, "labels", "('b', 'c') does not match the labels variant"),
        (None, Accumulator, "labels", "the key None does not match the labels variant"),
        (7, Accumulator, "labels", "the key 7 does not match the labels variant"),
        ("\ud800", Accumulator, "labels", "which is not UTF-8"),
        ("b", lambda _: _interrupted(), "half_counted", "it stopped with KeyError('long')"),
        ("b", lambda _: None, "error", "the accumulator of 'b' is not exported"),
    ],
)
def test_an_accumulator_that_cannot_be_shown_hides_no_other(
    caplog: pytest.LogCaptureFixture,
    key: object,
    make: Callable[[str], Accumulator],
    reason: str,
    says: str,
) -> None:
    slices: dict[object, Accumulator] = {"a": Accumulator("ctr")}
    slices["a"].update(["a"], ["a"])
    registry = _registered(Collector(slices, labels="variant", first_exposure=0))
    actual = scraped(registry)
    slices[key] = make("ctr")
    with caplog.at_level("WARNING", "streameval"):
        for _ in range(3):
            assert scraped(registry) == actual | {f"streameval_unexported{{reason={reason}}}": 1.0}
    (record,) = caplog.records
    assert says in record.getMessage()
    del slices[key]
    assert scraped(registry) == actual | {f"streameval_unexported{{reason={reason}}}": 0.0}


def test_a_scrape_does_not_change_the_counts() -> None:
    accumulator, twin = _counted(40), _counted(40)
    registry = _registered(Collector(accumulator, first_exposure=20))
    scraped(registry)
    assert accumulator.state_dict() == twin.state_dict()
