"""`evaluate` of impressions and interactions in tables: the values and bits of their join."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import csv, parquet

from streameval import evaluate
from streameval.attribution import Attribution, joined, pieces
from streameval.evaluation.arguments import InputError, NoEventsError
from streameval.events.errors import (
    InvalidEventError,
    StreamevalError,
    SuspiciousEventsWarning,
)
from streameval.partials import Cell, merged, partials
from tests.contract.laws import bits
from tests.join.worlds import world

METRICS = ("ndcg@2", "value_per_list", "hit_rate(type=click)@2")

pytestmark = pytest.mark.filterwarnings("ignore::streameval.errors.SuspiciousEventsWarning")


def test_frames_files_and_processes_count_the_lists_of_the_join(tmp_path: Path) -> None:
    of = world(3, 60)
    rule = of.attribution
    total = merged(
        partials([joined(of.impression_table, of.interaction_table, rule).lists], *METRICS)
    )[Cell((), None)]
    shown, clicks = tmp_path / "shown.parquet", tmp_path / "clicks.csv"
    parquet.write_table(of.impression_table, shown, row_group_size=17)
    csv.write_csv(of.interaction_table, clicks)
    for impressions, interactions, processes in (
        (of.impression_table, of.interaction_table, 1),
        (shown, clicks, 1),
        (of.impression_table, clicks, 2),
    ):
        evaluation = evaluate(
            METRICS,
            impressions=impressions,
            interactions=interactions,
            attribution=rule,
            time_unit="us",
            intervals=None,
            processes=processes,
        )
        assert bits(evaluation.accumulator()) == bits(total)
        assert (
            len(evaluation.values(library="pyarrow"))
            == evaluation.outcomes["impressions"]["counted"]
        )
        for side in ("impressions", "interactions"):
            rows, *outcomes = evaluation.outcomes[side].values()
            assert rows == sum(outcomes) == len(getattr(of, side))


CONFIG = """
metrics = ["ndcg@2", "value_per_list", "hit_rate(type=click)@2"]
labels = ["variant"]
[event]
recommendations = "recommendations"
time = "times"
time_unit = "us"
user = "users"
[attribution]
impressions = "shown"
key = "{key}"
request_id = "request_id"
window = "30s"
lateness = "1h"
combine = "sum"
[[attribution.interactions]]
source = "clicks"
event_id = "event_id"
types = {{ click = 1, cart = 3 }}
"""


@pytest.mark.parametrize("key", ["request_id", "user_item"])
def test_a_configuration_joins_tables_as_it_joins_lines(key: str, tmp_path: Path) -> None:
    of = world(5, 60)
    config = tmp_path / "streameval.toml"
    config.write_text(CONFIG.format(key=key))
    for name, rows, table in (
        ("shown", of.impressions, of.impression_table),
        ("clicks", of.interactions, of.interaction_table.rename_columns({"user": "users"})),
    ):
        lines = [
            json.dumps({k: v for k, v in row.items() if v is not None and k != "gain"})
            for row in sorted(rows, key=lambda row: row["times"] or 0)
        ]
        (tmp_path / f"{name}.ndjson").write_text("\n".join(lines))
        (tmp_path / name).mkdir()
        parquet.write_table(table.slice(0, 31), tmp_path / f"{name}/part-0.parquet")
        parquet.write_table(table.slice(31), tmp_path / f"{name}/part-1.parquet")
    lines_found, result = (
        evaluate([tmp_path / f"shown{end}", tmp_path / f"clicks{end}"], config=config)
        for end in (".ndjson", "")
    )
    assert len(result) == 12
    assert {name: repr(reading) for name, reading in result.items()} == {
        name: repr(reading) for name, reading in lines_found.items()
    }
    clicks = of.interaction_table.rename_columns({"user": "users"})
    tables_found = evaluate(impressions=of.impression_table, interactions=clicks, config=config)
    assert bits(tables_found.accumulator(variant="x")) == bits(result.accumulator(variant="x"))
    assert [*tables_found.outcomes] == ["shown", "clicks"]
    with pytest.raises(InputError, match=r"attribution= and .* give one of them"):
        evaluate(
            impressions=of.impression_table,
            interactions=clicks,
            config=config,
            attribution=Attribution(),
        )
    with pytest.raises(InputError, match="joins 'clicks'; give interactions= as a mapping"):
        evaluate(
            impressions=of.impression_table, interactions={"a": clicks, "b": clicks}, config=config
        )
    assert [*result.outcomes.values()] == [*lines_found.outcomes.values()]
    assert all(of["invalid"] > 2 for of in result.outcomes.values())


SHOWN = {"request_id": ["r1"], "recommendations": [["a"]], "times": [0], "user": ["u1"]}
CLICKS = {"request_id": ["r1"], "item": ["a"], "times": [1]}


@pytest.mark.parametrize(
    ("shown", "clicks", "rule", "problem"),
    [
        (SHOWN, {**CLICKS, "item": [7]}, {}, "item ids are text in impressions"),
        (
            SHOWN,
            {**CLICKS, "request_id": [1]},
            {},
            "request_id are text in impressions",
        ),
        (SHOWN, {"request_id": ["r1"], "times": [1]}, {}, "no column 'item'"),
        (SHOWN, CLICKS, {"key": "user_item"}, "no column 'user'"),
        (SHOWN, CLICKS, {"key": "user_item", "per": ["arm"]}, "no column 'arm'"),
        ({**SHOWN, "gains": [[1.0]]}, CLICKS, {}, "have a column 'gains', which the join makes"),
        (SHOWN, CLICKS, {"window": "-5s"}, "window: found '-5s'"),
        (SHOWN, CLICKS, {"types": {"a": float("nan")}}, "types"),
        (SHOWN, {**CLICKS, "gain": ["much"]}, {}, "gain"),
        (SHOWN, {**CLICKS, "times": [0.5]}, {}, "times: double"),
    ],
)
def test_a_join_that_cannot_be_is_refused(
    shown: dict[str, Any], clicks: dict[str, Any], rule: dict[str, Any], problem: str
) -> None:
    with pytest.raises(StreamevalError, match=problem):
        joined(
            pa.table(shown),
            pa.table({"user": ["u1"], **clicks} if "per" in rule else clicks),
            Attribution(**rule),
        )


def test_files_with_other_columns_are_refused_and_with_more_columns_are_read(
    tmp_path: Path,
) -> None:
    first, second = tmp_path / "a.parquet", tmp_path / "b.parquet"
    parquet.write_table(pa.table(SHOWN), first)
    parquet.write_table(pa.table({**SHOWN, "request_id": ["r2"], "arm": ["x"]}), second)
    clicks = pa.table(CLICKS)
    assert evaluate("mrr", impressions=tmp_path, interactions=clicks)["mrr"].value == 0.5
    parquet.write_table(pa.table({**SHOWN, "request_id": [2]}), second)
    with pytest.raises(InvalidEventError, match="tables of impressions have unlike columns"):
        evaluate("mrr", impressions=[first, second], interactions=clicks)


def test_an_error_says_where_a_column_is_named_and_what_rows_need(tmp_path: Path) -> None:
    config = tmp_path / "streameval.toml"
    config.write_text(CONFIG.format(key="user_item"))
    nobody = pa.array([None], pa.string())
    clicks = pa.table({"item": ["a"], "times": [1], "users": ["u1"], "event_id": ["e"]})
    impressions = pa.table({**SHOWN, "variant": ["x"]}).rename_columns({"user": "users"})
    with pytest.raises(InputError, match=r"column 'event_id'.*in \[\[attribution.interactions\]\]"):
        evaluate(
            impressions=impressions, interactions=clicks.drop_columns("event_id"), config=config
        )
    with pytest.raises(InputError, match=r"column 'request_id'.*in \[attribution\]"):
        evaluate(
            impressions=impressions.drop_columns("request_id"), interactions=clicks, config=config
        )
    with pytest.raises(InputError, match=r"column 'user'.*with columns=\{'user': 'NAME'\}"):
        evaluate(
            "mrr",
            impressions=impressions,
            interactions=clicks.drop_columns("users"),
            attribution=Attribution(key="user_item"),
        )
    lost = impressions.set_column(0, "request_id", [nobody])
    text = "1 of 1 rows of impressions are invalid and left out; a row needs request_id, time, rec"
    with pytest.warns(SuspiciousEventsWarning, match=text), pytest.raises(NoEventsError):
        evaluate("mrr", impressions=lost, interactions=pa.table(CLICKS))


def test_seconds_that_are_read_as_microseconds_are_doubted() -> None:
    at = 1_767_225_600
    impressions, clicks = (
        pa.table({**SHOWN, "times": [at]}),
        pa.table({**CLICKS, "times": [at + 3_600]}),
    )
    with pytest.warns(SuspiciousEventsWarning, match="is 'us' the unit of times"):
        evaluate("mrr", impressions=impressions, interactions=clicks)


def test_users_without_lists_and_types_that_no_rule_names_are_told_of_lines_and_tables(
    tmp_path: Path,
) -> None:
    config = tmp_path / "streameval.toml"
    config.write_text(CONFIG.format(key="user_item").replace('event_id = "event_id"\n', ""))
    at = [1_767_225_600_000_000 + 10**6 * row for row in range(60)]
    impressions: list[dict[str, Any]] = [
        {"request_id": f"r{row}", "users": f"u{row}", "recommendations": ["a"], "variant": "x"}
        | {"times": at[row]}
        for row in range(60)
    ]
    clicks: list[dict[str, Any]] = [
        {"users": f"u{row}" if row % 3 else f"c{row}", "times": at[row], "item": "a", "type": kind}
        for row, kind in enumerate(["click", "click", "cart", "click", "clik"] * 12)
    ]
    for name, rows in (("shown", impressions), ("clicks", clicks)):
        (tmp_path / f"{name}.ndjson").write_text("\n".join(map(json.dumps, rows)))
        (tmp_path / name).mkdir()
        parquet.write_table(pa.Table.from_pylist(rows), tmp_path / f"{name}/part.parquet")
    told = []
    for end, processes in ((".ndjson", 1), ("", 1), ("", 2)):
        paths = [tmp_path / f"shown{end}", tmp_path / f"clicks{end}"]
        with pytest.warns(SuspiciousEventsWarning) as warned:
            evaluate(paths, config=config, processes=processes)
        told.append([str(warning.message).partition(": ")[2] for warning in warned])
    assert told[0] == told[1] == told[2]
    login, types = told[0]
    assert login.startswith("16 of 48 interactions are of users who were not shown any list")
    assert types.startswith("these types do not count")
    assert types.endswith('names them: "clik" (12).')


def test_columns_without_values_are_unlike_none() -> None:
    impressions = pa.table({**SHOWN, "request_id": [1], "recommendations": [[7]]})
    clicks = pa.table({"request_id": [1], "item": [7], "times": [1]})
    nothing = pa.table(CLICKS).slice(0, 0)
    nobody = pa.table({**CLICKS, "request_id": pa.nulls(1, pa.string()), "item": [7]})
    for empty in (nothing, nobody):
        result = joined(impressions, empty, Attribution())
        assert (result.counts[0].counted, result.counts[1].invalid) == (1, len(empty))
        assert pieces(empty, "interactions", Attribution(), 2).num_rows == len(empty)
        streams = {"empty": empty, "clicks": clicks}
        both = evaluate("mrr", impressions=impressions, interactions=streams)
        assert (both["mrr"].value, both.outcomes["empty"]["invalid"]) == (1.0, len(empty))
