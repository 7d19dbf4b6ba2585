"""Means over users in a daemon: lifetime, windows, several partitions, restarts, Prometheus."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from streameval import Accumulator, Intervals
from streameval.accumulator.kinds import user_sums
from streameval.config.config import Config
from streameval.config.pipeline import new_ingest
from streameval.config.tables import WindowsOptions
from streameval.decoding.fields import EventFields
from streameval.engine.capture import ingest_snapshot
from streameval.engine.ingest import Ingest
from streameval.events.records import Partition
from streameval.exporters.families import MetricFamilies
from streameval.sources.settings import SimulatorOptions
from tests.batches import batch_of, content_of
from tests.effort import sampled
from tests.strategies import event_of

TEXTS = ["ndcg@1", "ndcg(per=user)@1", "ndcg(per=user,statistic=zeros)@1"]
START = 1_700_000_000 // 3600 * 3600
HOURS = 30


def config(*, intervals: bool = True, windows: bool = True) -> Config:
    return Config(
        metrics=TEXTS,
        source=SimulatorOptions(),
        labels=["country"],
        windows=WindowsOptions(spans=["1h", "24h"]) if windows else None,
        event=EventFields(time="ts", time_unit="s", user="user"),
        intervals=Intervals() if intervals else None,
    )


def events(users: int = 60, count: int = 900) -> list[dict[str, object]]:
    draw = np.random.default_rng(4)
    return [
        {
            "recommendations": ["a"],
            "interactions": ["a" if draw.random() < 0.3 + (user % 5) / 10 else "b"],
            "ts": START + int(index * HOURS * 3600 / count),
            "user": f"u{user}",
            "country": "de" if user % 3 else "nl",
        }
        for index, user in enumerate(draw.integers(0, users, count).tolist())
    ]


def ingested(config: Config, rows: list[dict[str, object]], partitions: int = 2) -> Ingest:
    ingest = new_ingest(config)
    for number in range(partitions):
        values = [msgspec.json.encode(row) for row in rows[number::partitions]]
        ingest.apply(batch_of(Partition("events", number), values, 0))
    return ingest


def read(ingest: Ingest) -> dict[tuple[str, str, str], tuple[float, int, bool]]:
    snapshot = ingest_snapshot(ingest, labels=["country"], now=START + HOURS * 3600.0)
    return {
        (line.reading.metric, line.labels[0], line.window): (
            line.reading.value,
            line.reading.count,
            line.reading.estimated,
        )
        for line in snapshot.series
    }


def by_accumulator(rows: list[dict[str, object]]) -> Accumulator:
    accumulator = Accumulator(*TEXTS)
    accumulator.update_many(
        event_of(row["recommendations"], row["interactions"], user=row["user"])  # type: ignore[arg-type]  # as written above
        for row in rows
    )
    return accumulator


@pytest.mark.parametrize(
    ("intervals", "windows"), [(True, True), (False, True), (False, False), (True, False)]
)
def test_the_lifetime_equals_an_accumulator_with_and_without_intervals(
    *, intervals: bool, windows: bool
) -> None:
    rows = events()
    readings = read(ingested(config(intervals=intervals, windows=windows), rows))
    for country in ("de", "nl"):
        expected = by_accumulator([row for row in rows if row["country"] == country])
        for text in TEXTS:
            reading = expected.read(text)
            kept = readings[text, country, "lifetime"]
            assert kept == (reading.value, reading.count, False), (text, country)


def test_windows_have_the_users_of_their_span() -> None:
    rows = events()
    readings = read(ingested(config(), rows))
    end = max(int(str(row["ts"])) for row in rows)
    for span, hours in (("1h", 1), ("24h", 24)):
        size = 60 if hours < 2 else 3600
        first = (end - hours * 3600) // size * size
        inside = [row for row in rows if int(str(row["ts"])) >= first and row["country"] == "de"]
        expected = by_accumulator(inside)
        for text in TEXTS[1:]:
            reading = expected.read(text)
            assert readings[text, "de", span] == (reading.value, reading.count, False), (text, span)


def test_a_pane_above_its_cap_is_estimated_and_the_lifetime_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(user_sums, "PANE_USERS", 8)
    rows = events()
    readings = read(ingested(config(), rows))
    assert readings[TEXTS[1], "de", "24h"][2]
    exact = by_accumulator([row for row in rows if row["country"] == "de"]).read(TEXTS[1])
    assert readings[TEXTS[1], "de", "lifetime"] == (exact.value, exact.count, False)


@pytest.mark.parametrize("most", sampled([16, 16_384], 2))
def test_a_restart_and_another_split_keep_every_value(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(user_sums, "MOST_USERS", most)
    rows = events()
    ingest = ingested(config(), rows, 1)
    partition = Partition("events", 0)
    parts = content_of(ingest.sections(partition))
    restored = new_ingest(config())
    restored.restore(partition, ingest.positions, parts)
    again = content_of(restored.sections(partition))
    assert again == parts
    assert read(restored) == read(ingest)
    lifetime = {key: value for key, value in read(ingest).items() if key[2] == "lifetime"}
    split = read(ingested(config(), rows, 3))
    assert {key: split[key] for key in lifetime} == lifetime
    assert lifetime[TEXTS[1], "de", "lifetime"][2] == (most == 16)


def test_a_state_without_sums_by_user_counts_them_from_now_on() -> None:
    rows, partition = events(), Partition("events", 0)
    before = msgspec.structs.replace(config(), metrics=TEXTS[:1])
    ingest = ingested(before, rows[:600], 1)
    parts = content_of(ingest.sections(partition))
    later = new_ingest(config())
    later.restore(partition, ingest.positions, parts)
    values = [msgspec.json.encode(row) for row in rows[600:]]
    later.apply(batch_of(partition, values, 600))
    snapshot = ingest_snapshot(later, labels=["country"], now=START + HOURS * 3600.0)
    since = {
        line.reading.metric: line.since
        for line in snapshot.series
        if line.window == "lifetime" and line.labels == ("de",)
    }
    assert since["ndcg@1"] is None
    assert (since[TEXTS[1]] or 0.0) > START
    expected = by_accumulator([row for row in rows[600:] if row["country"] == "de"])
    reading = read(later)[TEXTS[1], "de", "lifetime"]
    assert reading[0] == expected.read(TEXTS[1]).value


def test_prometheus_has_no_sum_and_no_count_per_user() -> None:
    snapshot = ingest_snapshot(
        ingested(config(), events(400, 4_000)), labels=["country"], now=START + HOURS * 3600.0
    )
    families = MetricFamilies(lambda: 0.0, 0.0).families(snapshot)
    samples = [sample for family in families for sample in family.samples]
    names = {sample.name for sample in samples}
    assert {name for name in names if "per_user" in name} == {
        "streameval_ndcg_per_user_window_mean",
        "streameval_ndcg_per_user_window_support",
        "streameval_ndcg_per_user_window_low",
        "streameval_ndcg_per_user_window_high",
        "streameval_ndcg_per_user_zeros",
    }
    assert "streameval_ndcg_sum" in names
    assert not [sample for sample in samples if "per" in sample.labels]
