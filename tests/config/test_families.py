"""Families of series: their metrics, names and settings; the depth that a saved state keeps."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streameval.checkpoints.restore import other_settings
from streameval.config import Config, load
from streameval.config.pipeline import with_saved_depth
from streameval.config.tables import MetricOptions, WindowsOptions
from streameval.decoding.fields import EventFields
from streameval.engine.analysis import CountedFamily
from streameval.engine.windows.times import (
    HOUR,
    SECOND,
    DurationError,
    Windowing,
    duration_of,
    span_text,
)
from streameval.sources.settings import SimulatorOptions

_MINUTE = 60 * SECOND
_ALL = WindowsOptions(spans=["24h", "5m", "1h"])


def _config(*tables: MetricOptions, **changed: Any) -> Config:
    usual: dict[str, Any] = {
        "metrics": ["ctr", "ndcg@10"],
        "labels": ["variant", "model"],
        "segments": ["country"],
        "windows": _ALL,
    }
    return Config(source=SimulatorOptions(), metric=list(tables), **(usual | changed))


def _summary(group: CountedFamily) -> tuple[str, tuple[str, ...], list[str], list[str]]:
    metrics = [metric.text for metric in group.metrics]
    return group.name, group.dimensions, metrics, [span_text(span) for span in group.spans]


def test_a_metric_with_fewer_labels_and_windows_has_a_separate_family() -> None:
    coverage = MetricOptions(name="distinct_items@10", labels=["model"], windows=["1d"])
    assert [_summary(group) for group in _config(coverage).families()] == [
        ("labels", ("variant", "model"), ["ctr", "ndcg@10"], ["5m", "1h", "24h"]),
        ("labels(model)[24h]", ("model",), ["distinct_items@10"], ["24h"]),
        ("country", ("variant", "model", "country"), ["ctr", "ndcg@10"], ["5m", "1h", "24h"]),
        ("country(model)[24h]", ("model", "country"), ["distinct_items@10"], ["24h"]),
    ]


def test_a_metric_may_have_no_label_no_window_and_no_segment() -> None:
    alone = MetricOptions(name="mrr", labels=[], windows=[], segments=[])
    assert [_summary(group) for group in _config(alone, metrics=[], segments=[]).families()] == [
        ("labels()[]", (), ["mrr"], [])
    ]


def test_a_table_that_repeats_the_defaults_changes_nothing() -> None:
    same = MetricOptions(
        name="mrr", labels=["model", "variant"], windows=["60m", "5m", "24h"], segments=["country"]
    )
    names = [(group.name, len(group.metrics)) for group in _config(same).families()]
    assert names == [("labels", 3), ("country", 3)]


def test_names_do_not_depend_on_the_order_in_the_file() -> None:
    tables = [
        MetricOptions(name="mrr", labels=["variant", "model"], windows=["1h", "5m"]),
        MetricOptions(name="map", labels=["model"], segments=[]),
        MetricOptions(name="f1@5", labels=["model"], windows=["5m", "1h"]),
    ]
    families = {
        tuple(group.name for group in _config(*order, metrics=["ctr"]).families())
        for order in itertools.permutations(tables)
    }
    assert len(families) == 1


@given(st.sets(st.sampled_from(["variant", "model"])), st.sets(st.sampled_from(["5m", "1h"])))
def test_every_metric_is_in_one_family_without_a_segment(
    labels: set[str], windows: set[str]
) -> None:
    table = MetricOptions(name="mrr", labels=sorted(labels), windows=sorted(windows))
    groups = _config(table).families()
    alone = [metric.text for group in groups if group.segment is None for metric in group.metrics]
    assert sorted(alone) == ["ctr", "mrr", "ndcg@10"]
    assert len({group.name for group in groups}) == len(groups)


def test_all_families_keep_the_same_ranks() -> None:
    deep = MetricOptions(name="recall@50", labels=[])
    families = _config(deep, metrics=["hits@5"]).accumulators()
    assert {family_.table.plan.limits.depth for _, family_ in families} == {50}


def test_windows_are_as_configured_in_ascending_order() -> None:
    windows = WindowsOptions(spans=["24h", "5m"], lateness="90s", pane="10s")
    times = _config(windows=windows).windowing()
    assert times == Windowing(
        pane=10 * SECOND,
        spans=(5 * _MINUTE, 24 * HOUR),
        lateness=90 * SECOND,
        names=((24 * HOUR, "24h"), (5 * _MINUTE, "5m")),
    )
    assert _config(windows=None).windowing().spans == ()


def test_settings_of_a_state_are_those_that_affect_counts() -> None:
    config = _config()
    settings = config.settings()
    assert msgspec.json.decode(msgspec.json.encode(settings)) == settings
    for same in (
        _config(MetricOptions(name="mrr@5", labels=[])),
        _config(windows=WindowsOptions(spans=["1h"], lateness="1h"), label_cap=3, max_series=9),
    ):
        assert same.settings() == settings | {"depth": same.counted_depth()}
    for other in (
        _config(labels=["model", "variant"]),
        _config(segments=[]),
        _config(windows=WindowsOptions(spans=["1h"], pane="5m")),
        _config(depth=11, metrics=["ndcg@10"]),
        _config(max_items=7),
        _config(event=EventFields(ids="integer")),
        _config(event=EventFields(format="avro")),
    ):
        assert other.settings() != settings
    # Checkpoints from before there were formats go on.
    assert "format" not in settings["event"]


@pytest.mark.parametrize("text", ["0s", "1s", "90s", "5m", "1h", "24h", "36h", "100h"])
def test_a_duration_is_read_and_written_alike(text: str) -> None:
    length = duration_of(text)
    assert duration_of(span_text(length)) == length


@pytest.mark.parametrize("text", ["", "5", "m", "-5m", "5 m", "1.5h", "5m ", "٣s", "5M", "1h30m"])
def test_an_invalid_duration_is_rejected(text: str) -> None:
    with pytest.raises(DurationError, match=r"give a whole number and s, m, h or d"):
        duration_of(text)


def test_a_table_of_one_metric_is_enough(tmp_path: Path) -> None:
    file = tmp_path / "streameval.toml"
    file.write_text('[source]\ntype = "simulator"\n[[metric]]\nname = "mrr"\n')
    config = load(file)
    assert [metric.text for metric in config.accumulator().metrics] == ["mrr"]


@pytest.mark.parametrize(
    ("old", "new", "depth"),
    [
        (["ndcg@20"], ["ndcg@10"], 20),
        (["ndcg@20"], ["ndcg@20", "mrr@5"], 20),
        (["mrr"], ["ndcg@10"], None),
        (["ndcg@20"], ["item_coverage@50"], 20),
        (["mrr"], ["item_coverage@50"], None),
    ],
)
def test_a_sufficient_saved_depth_is_kept(old: list[str], new: list[str], depth: int) -> None:
    saved = _config(metrics=old, catalog=100).settings()
    now = with_saved_depth(_config(metrics=new, catalog=100), saved)
    assert now.counted_depth() == depth
    assert other_settings(now.settings(), saved) is None


@pytest.mark.parametrize(
    ("new", "depth"), [(["ndcg@10"], None), (["mrr"], None), (["ndcg@2"], 2), (["ndcg@2"], 9)]
)
def test_an_insufficient_saved_depth_is_rejected_with_a_remedy(
    new: list[str], depth: int | None
) -> None:
    saved = _config(metrics=["ndcg@5"]).settings()
    now = with_saved_depth(_config(metrics=new, depth=depth), saved)
    problem = str(other_settings(now.settings(), saved))
    assert "depth: 5 → " in problem
    assert "(it can be kept with depth = 5 and no cut-off beyond that)" in problem
