"""Gains of both signs: worked values, which every way in gives."""

from __future__ import annotations

import json
import math
import pickle
import random
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace
from prometheus_client import CollectorRegistry, generate_latest
from pyarrow import feather

from streameval import Accumulator, Columns, Intervals, evaluate
from streameval.attribution import Attribution
from streameval.events import Event
from streameval.events.errors import SuspiciousEventsWarning
from streameval.prometheus import Collector
from tests.cli.program import run
from tests.contract.metric_cases import stream
from tests.present import present

Gains: TypeAlias = Mapping[str, float]


class Lists(NamedTuple):
    """Lists shown, with the gain of each item of each; {} without interactions."""

    shown: Sequence[str]
    gains: Sequence[Gains]

    def columns(self) -> dict[str, Any]:
        """A row for each list, with lists of ids and gains."""
        return {
            "recommendations": [[*items] for items in self.shown],
            "interactions": [[*of_list] for of_list in self.gains],
            "gains": [[*map(float, of_list.values())] for of_list in self.gains],
        }

    def rows(self) -> tuple[list[tuple[str, str, int]], list[tuple[str, str, float]]]:
        """A row for each item shown, and for each with a gain, with the user of its list."""
        shown = [
            (f"u{row}", item, len(items) - at)
            for row, items in enumerate(self.shown)
            for at, item in enumerate(items)
        ]
        truth = [
            (f"u{row}", item, gain)
            for row, of_list in enumerate(self.gains)
            for item, gain in of_list.items()
        ]
        return shown, truth


_FOUR: Final = Lists(["xy"] * 4, [{"x": 300}, {"x": -300}, {}, {}])
CASES: Final[Sequence[tuple[Lists, Mapping[str, float]]]] = [
    (
        _FOUR,
        {
            "value_per_list": 0.0,
            "value_per_list(cap=100)": -50.0,
            "value_per_list(relevant=positive)": 75.0,
            "value_per_list(min_gain=1)": 75.0,
            "hit_rate": 0.25,
            "ctr": 0.125,
        },
    ),
    (Lists(["xy"], [{"x": 30, "y": -50}]), {"value_per_list": -20.0, "value_per_list@1": 30.0}),
    (Lists(["x"], [{"x": 10, "z": -99}]), {"value_per_list": 10.0}),
    (
        Lists(["abc"], [{"a": -2, "b": 0, "c": 1}]),
        {
            "trec:ndcg": 0.5,
            "trec:map": 1 / 3,
            "dcg": 0.5,
            "dcg(relevant=all)": -1.5,
            "bpref": 0.0,
            "judged": 1.0,
        },
    ),
    (Lists(["xy", "xy"], [{"x": 300}, {}]), {"value_per_list": 150.0}),
]
"""Lists and the values of metrics, worked by hand."""

Way: TypeAlias = Callable[[Lists, Sequence[str], Path], Mapping[str, Any]]


def _counted(count: Callable[[Accumulator, Lists], object]) -> Way:
    def way(lists: Lists, metrics: Sequence[str], _: Path) -> Mapping[str, Any]:
        accumulator = Accumulator(*metrics)
        count(accumulator, lists)
        return accumulator.compute()

    return way


def _one_by_one(accumulator: Accumulator, lists: Lists) -> None:
    for items, gains in zip(lists.shown, lists.gains, strict=True):
        accumulator.update([*items], gains)


def _merged(accumulator: Accumulator, lists: Lists) -> None:
    for row in range(len(lists.shown)):
        part = Accumulator(*(metric.text for metric in accumulator.metrics))
        _one_by_one(part, Lists(lists.shown[row : row + 1], lists.gains[row : row + 1]))
        accumulator.merge(pickle.loads(pickle.dumps(part)))  # our own bytes


def _file(write: Callable[[Lists, Path], Path], **options: Any) -> Way:
    def way(lists: Lists, metrics: Sequence[str], folder: Path) -> Mapping[str, Any]:
        return evaluate(write(lists, folder), *metrics, **options)

    return way


def _json(interactions: Callable[[Gains], Mapping[str, Any]]) -> Way:
    def write(lists: Lists, folder: Path) -> Path:
        path = folder / "events.ndjson"
        with path.open("w") as file:
            for items, gains in zip(lists.shown, lists.gains, strict=True):
                record = {"recommendations": [*items], **interactions(gains)}
                file.write(f"{json.dumps(record)}\n")
        return path

    return _file(write)


def _engine(lists: Lists, metrics: Sequence[str], folder: Path) -> Mapping[str, Any]:
    """As a daemon with windows counts; a record a minute."""
    with (folder / "log.ndjson").open("w") as file:
        for row, (items, gains) in enumerate(zip(lists.shown, lists.gains, strict=True)):
            ts = 1_790_000_000 + 60 * row
            record = {"ts": ts, "recommendations": [*items], "interactions": gains}
            file.write(f"{json.dumps(record)}\n")
    config = folder / "windows.toml"
    config.write_text('[event]\ntime = "ts"\ntime_unit = "s"\n[windows]\nspans = ["1h"]\n')
    return evaluate(folder / "log.ndjson", *metrics, config=config)


def _csv(lists: Lists, folder: Path) -> Path:
    columns = {name: [*map(json.dumps, rows)] for name, rows in lists.columns().items()}
    pd.DataFrame(columns).to_csv(folder / "events.csv", index=False)
    return folder / "events.csv"


def _parquet(lists: Lists, folder: Path) -> Path:
    pq.write_table(pa.table(lists.columns()), folder / "events.parquet")
    return folder / "events.parquet"


def _feather(lists: Lists, folder: Path) -> Path:
    feather.write_feather(pa.table(lists.columns()), folder / "events.feather")
    return folder / "events.feather"


def _frames(lists: Lists) -> tuple[pd.DataFrame, pd.DataFrame]:
    shown, truth = lists.rows()
    return (
        pd.DataFrame(shown, columns=["user", "item", "score"]),
        pd.DataFrame(truth, columns=["user", "item", "rating"]),
    )


def _pair(lists: Lists, metrics: Sequence[str], _: Path) -> Mapping[str, Any]:
    return evaluate(*_frames(lists), *metrics)


def _csv_pair(lists: Lists, metrics: Sequence[str], folder: Path) -> Mapping[str, Any]:
    for name, frame in zip(("recs.csv", "truth.csv"), _frames(lists), strict=True):
        frame.to_csv(folder / name, index=False)
    return evaluate(folder / "recs.csv", folder / "truth.csv", *metrics)


def _trec(lists: Lists, metrics: Sequence[str], folder: Path) -> Mapping[str, Any]:
    shown, truth = lists.rows()
    run = [f"{user} Q0 {item} 0 {score} mine" for user, item, score in shown]
    qrels = [f"{user} 0 {item} {gain:.0f}" for user, item, gain in truth]
    # A topic without a line is in no mean.
    qrels += [f"u{row} 0 other 0" for row, gains in enumerate(lists.gains) if not gains]
    (folder / "run.txt").write_text("\n".join(run) + "\n")
    (folder / "qrels.txt").write_text("\n".join(qrels) + "\n")
    return evaluate(folder / "run.txt", folder / "qrels.txt", *metrics)


def _mappings(lists: Lists, metrics: Sequence[str], _: Path) -> Mapping[str, Any]:
    shown = {f"u{row}": [*items] for row, items in enumerate(lists.shown)}
    truth = {f"u{row}": gains for row, gains in enumerate(lists.gains)}
    return evaluate(shown, truth, *metrics)


def _matrix(lists: Lists, metrics: Sequence[str], _: Path) -> Mapping[str, Any]:
    """A score for each item; those that were not shown have none."""
    items = sorted({item for of_list in (*lists.shown, *lists.gains) for item in of_list})
    scores = np.full((len(lists.shown), len(items)), -math.inf)
    for row, of_list in enumerate(lists.shown):
        for at, item in enumerate(of_list):
            scores[row, items.index(item)] = -at
    truth = [{items.index(item): gain for item, gain in row.items()} for row in lists.gains]
    return evaluate(scores, truth, *metrics)


WAYS: Final[Mapping[str, Way]] = {
    "update": _counted(_one_by_one),
    "update_many": _counted(lambda acc, lists: acc.update_many(
        [[*items] for items in lists.shown], lists.gains
    )),
    "events": _counted(lambda acc, lists: acc.update_many(
        [Event(recommendations=[*items], interactions=gains)
         for items, gains in zip(lists.shown, lists.gains, strict=True)]
    )),
    "columns": _counted(lambda acc, lists: acc.update_many(Columns(**lists.columns()))),
    "arrow": _counted(lambda acc, lists: acc.update_many(pa.table(lists.columns()))),
    "merge and pickle": _counted(_merged),
    "json: id to gain": _json(lambda gains: {"interactions": gains}),
    "json: objects": _json(lambda gains: {
        "interactions": [{"id": item, "gain": gain} for item, gain in gains.items()]
    }),
    "json: gains beside ids": _json(lambda gains: {
        "interactions": [*gains], "gains": [*gains.values()]
    }),
    "json in windows": _engine,
    "csv": _file(_csv),
    "parquet": _file(_parquet),
    "feather": _file(_feather),
    "frame": lambda lists, metrics, _: evaluate(pd.DataFrame(lists.columns()), *metrics),
    "frames of rows": _pair,
    "csv of rows": _csv_pair,
    "trec": _trec,
    "mappings": _mappings,
    "matrix": _matrix,
}  # fmt: skip
"""Every way in."""


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.filterwarnings("ignore::streameval.events.errors.SuspiciousEventsWarning")
def test_every_way_in_gives_the_worked_values(way: Way, tmp_path: Path) -> None:
    for number, (lists, expected) in enumerate(CASES):
        folder = tmp_path / str(number)
        folder.mkdir()
        readings = way(lists, [*expected], folder)
        result = {text: readings[text].value for text in expected}
        assert result == pytest.approx(expected), lists


_ONE: Final[Mapping[str, Sequence[float]]] = {
    "propensity": [0.5],
    "target": [0.75],
    "predicted": [0.5],
    "expected": [0.25],
}


def _policy(items: str, gains: Gains, **per_item: Sequence[float]) -> Event:
    return Event(recommendations=[*items], interactions=gains, per_item=per_item)


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([_policy("a", {"a": -2}, **_ONE)], {"ips": -3.0, "snips": -2.0, "dr": -3.5}),
        (
            [_policy("a", {"a": -1}, propensity=[0.5], target=[target]) for target in (0.1, 0.9)]
            * 5,
            {"snips": -1.0},
        ),
        (
            [_policy("a", {"a": gain}, **_ONE) for gain in (1, -1)],
            {"ips": 0.0, "snips": 0.0, "dr": -0.5},
        ),
        (
            [_policy("ab", {"a": 1, "b": -1}, propensity=[0.5] * 2, target=[0.75, 0.25])],
            {
                "ips": 1.0,
                "ips(slots=cascade)": 0.75,
                "ips(slots=list)": 0.0,
                "ips(clip=1)": 0.5,
            },
        ),
        ([_policy("a", {"a": -1})], {"reward_limit": math.nan}),
    ],
)
def test_estimates_of_a_policy_subtract_losses(
    events: Sequence[Event], expected: Mapping[str, float]
) -> None:
    accumulator = Accumulator(*expected)
    accumulator.update_many(events)
    result = {text: accumulator.read(text).value for text in expected}
    assert result == pytest.approx(expected, nan_ok=True)


def test_a_value_is_its_positive_part_minus_its_negative_part() -> None:
    events, turned = list[Event](), list[Event]()
    for event in stream(400, seed=11):
        gains = event.interactions if isinstance(event.interactions, Mapping) else {}
        # Larger ones would hide the others.
        small = {item: gain for item, gain in gains.items() if abs(gain) < 10}
        events.append(replace(event, interactions=small))
        turned.append(replace(event, interactions={item: -small[item] for item in small}))
    for k in ("", "@1", "@5"):
        signed, positive = f"value_per_list{k}", f"value_per_list(relevant=positive){k}"
        counts = [Accumulator(signed, positive) for _ in range(2)]
        for count, of in zip(counts, (events, turned), strict=True):
            count.update_many(of)
        gained, lost = (count.read(positive).value for count in counts)
        assert lost > 0
        assert counts[0].read(signed).value == pytest.approx(gained - lost, rel=1e-12)


def _feedback(lists: int) -> list[Event]:
    """Likes and dislikes of two items; showing b four times of five has the value 0.36."""
    draw, liked, target = random.Random(5), {"a": 0.4, "b": 0.75}, {"a": 0.2, "b": 0.8}
    events = []
    for _ in range(lists):
        item = draw.choice("ab")
        gain = 1 if draw.random() < liked[item] else -1
        chances = {"propensity": [0.5], "target": [target[item]]}
        user = f"u{draw.randrange(2_000)}"
        events.append(replace(_policy(item, {item: gain}, **chances), user=user))
    return events


def test_the_interval_of_likes_and_dislikes_holds_the_truth() -> None:
    texts = ("ips(least=0.5)", "snips(least=0.5)", "ips")
    accumulator = Accumulator(*texts, intervals=Intervals())
    accumulator.update_many(_feedback(20_000))
    for text in texts[:2]:
        bounds = present(accumulator.read(text).interval)
        assert bounds.low < 0.36 < bounds.high < bounds.low + 0.15
    assert "gains outside 0 to 1" in str(accumulator.read("ips").no_interval)


def test_a_loss_has_an_interval_and_a_balance_needs_many_users() -> None:
    draw = random.Random(3)
    for gains, bounded in (((5, -9), True), ((1, -1), True), ((0,) * 2_000 + (1, -1), False)):
        accumulator = Accumulator("value_per_list", intervals=Intervals())
        for row in range(4_000):
            accumulator.update(["a"], {"a": draw.choice(gains)}, user=f"u{row}")
        reading = accumulator.read("value_per_list")
        assert (reading.interval is not None) == bounded, reading
        if reading.interval is not None:
            assert reading.interval.low < sum(gains) / len(gains) < reading.interval.high


def test_a_value_that_may_fall_is_a_gauge() -> None:
    accumulator, registry = Accumulator("value_per_list", "ctr"), CollectorRegistry()
    registry.register(Collector(accumulator))
    read = []
    for gain in (30, -50):
        accumulator.update(["a"], {"a": gain})
        read.append(generate_latest(registry).decode())
    assert "# TYPE streameval_value_per_list gauge\nstreameval_value_per_list 30.0\n" in read[0]
    assert "\nstreameval_value_per_list -10.0\n" in read[1]
    assert "streameval_value_per_list_sum" not in read[1]


_SALES: Final[Sequence[tuple[str, Sequence[tuple[str, int]]]]] = (
    ("xy", [("x", 30), ("x", -30)]),
    ("xy", [("x", 50), ("x", -20)]),
    ("xy", [("x", -40)]),
    ("xy", []),
)
"""Four lists, of which two have a sale and its refund."""

_JOIN: Final = """
metrics = ["value_per_list", "hit_rate"]
[source]
type = "files"
paths = ["lists.ndjson", "acts.ndjson"]
[event]
time = "ts"
time_unit = "s"
[attribution]
impressions = "lists.ndjson"
window = "1m"
combine = "HOW"
[[attribution.interactions]]
source = "acts.ndjson"
gain = "gain"
"""


def _sold(form: str, folder: Path) -> tuple[Any, ...]:
    """The sales in a form that `evaluate` reads."""
    recommended = [[*items] for items, _ in _SALES]
    interactions = [[item for item, _ in sales] for _, sales in _SALES]
    gains = [[float(gain) for _, gain in sales] for _, sales in _SALES]
    columns = {"recommendations": recommended, "interactions": interactions, "gains": gains}
    if form == "frames of rows":
        rows = [
            (f"u{n}", item, 9 - at)
            for n, of in enumerate(recommended)
            for at, item in enumerate(of)
        ]
        truth = [(f"u{n}", *sale) for n, (_, sales) in enumerate(_SALES) for sale in sales]
        return (
            pd.DataFrame(rows, columns=["user", "item", "score"]),
            pd.DataFrame(truth, columns=["user", "item", "rating"]),
        )
    if form == "frame":
        return (pd.DataFrame(columns),)
    lines = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    if form == "json objects":
        lines = [
            {"recommendations": items, "interactions": [{"id": i, "gain": g} for i, g in sales]}
            for items, (_, sales) in zip(recommended, _SALES, strict=True)
        ]
    (folder / "sales.ndjson").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return (folder / "sales.ndjson",)


@pytest.mark.filterwarnings("ignore:users in both files")
@pytest.mark.parametrize("form", ["json", "json objects", "frame", "frames of rows"])
def test_a_refund_takes_back_its_sale_if_gains_are_summed(form: str, tmp_path: Path) -> None:
    inputs, metrics = _sold(form, tmp_path), ("value_per_list", "hit_rate")
    with pytest.warns(SuspiciousEventsWarning, match="below 0 for one item: 2; the largest gain"):
        largest = evaluate(*inputs, *metrics)
    assert [largest[text].value for text in metrics] == [10.0, 0.5]
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "lists with gains above and below 0")
        net = evaluate(*inputs, *metrics, combine="sum")
    assert [net[text].value for text in metrics] == [-2.5, 0.25]


def test_a_join_sums_sales_and_refunds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lists, interactions = list[Any](), list[Any]()
    for row, (items, sales) in enumerate(_SALES):
        common = {"request_id": f"r{row}", "ts": 1_790_000_000 + row}
        lists.append({**common, "recommendations": [*items]})
        interactions += [{**common, "item": item, "gain": gain} for item, gain in sales]
    for name, records in (("lists", lists), ("acts", interactions)):
        Path(f"{name}.ndjson").write_text("".join(f"{json.dumps(each)}\n" for each in records))
    for how, expected in (("max", [10.0, 0.5]), ("sum", [-2.5, 0.25])):
        # The option goes first.
        for written, option in ((how, ()), ("max", ("--combine", how))):
            Path("join.toml").write_text(_JOIN.replace("HOW", written))
            done = run("evaluate", "--config", "join.toml", "--format", "json", *option)
            assert [reading["value"] for reading in json.loads(done.stdout)] == expected
            assert ("for one item: 2; the largest" in done.stderr) == (how == "max")
            assert "changes nothing" not in done.stderr
    Path("join.toml").write_text(
        Path("join.toml").read_text().replace("[attri", 'combine = "sum"\n[attri', 1)
    )
    done = run("check", "join.toml")
    assert "event.combine: lists have no interactions of their own; give it in" in done.stderr


def test_what_leaves_losses_out_says_so() -> None:
    lists = [{"a": 2.0, "b": -1.0}, {"a": -3.0}, {"b": 1.0}]
    for metric, said in (("dcg", True), ("value_per_list", False), ("ndcg", False)):
        accumulator = Accumulator(metric)
        accumulator.update_many([["a", "b"]] * 3, lists)
        message = "2 of 4 gains are below 0: dcg leaves them out, value_per_list subtracts them"
        assert accumulator.advice() == (message if said else None)


def test_a_type_that_no_interaction_has_is_said(tmp_path: Path) -> None:
    record = {"recommendations": ["a"], "interactions": [{"id": "a", "type": "Purchase"}]}
    log, config = tmp_path / "log.ndjson", tmp_path / "types.toml"
    log.write_text(f"{json.dumps(record)}\n" * 30)
    config.write_text('metrics = ["hit_rate"]\n[event]\ntypes = { purchase = 10 }\n')
    for processes in ("1", "2"):
        done = run(
            "evaluate", tmp_path / "log.ndjson", "--config", config, "--processes", processes
        )
        assert "types under [event] name 'purchase', which no interaction has" in done.stderr
        assert "the most frequent types are 'Purchase' (30)" in done.stderr
    config.write_text('metrics = ["hit_rate"]\n[event]\ntypes = { Purchase = 10 }\n')
    assert not run("evaluate", log, "--config", config).stderr


def test_a_join_of_tables_sums_sales_and_refunds() -> None:
    start = 1_700_000_000_000_000
    impressions = pa.table(
        {
            "request_id": [f"r{row}" for row in range(len(_SALES))],
            "recommendations": [[*items] for items, _ in _SALES],
            "times": [*range(start, start + len(_SALES))],
        }
    )
    sales = [(f"r{row}", *sale, start + row) for row, (_, of) in enumerate(_SALES) for sale in of]
    names = ("request_id", "item", "gain", "times")
    interactions = pa.table(dict(zip(names, map(list, zip(*sales, strict=True)), strict=True)))
    metrics = ("value_per_list", "hit_rate")
    with pytest.warns(SuspiciousEventsWarning, match="below 0 for one item: 2; the largest gain"):
        largest = evaluate(*metrics, impressions=impressions, interactions=interactions)
    net = evaluate(
        *metrics,
        impressions=impressions,
        interactions=interactions,
        attribution=Attribution(combine="sum"),
    )
    assert [largest[text].value for text in metrics] == [10.0, 0.5]
    assert [net[text].value for text in metrics] == [-2.5, 0.25]
