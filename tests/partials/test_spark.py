"""Spark gives the bits of one process for any partitioning."""

from __future__ import annotations

import doctest
import json
import os
import random
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from streameval import Intervals
from streameval.catalogue.items import Popularity
from streameval.evaluation import spark as spark_module
from streameval.evaluation.partials import merged, partials
from streameval.evaluation.slice_counts import Cell
from streameval.evaluation.spark import evaluate
from streameval.events.errors import InvalidEventError, MetricError, UsageError
from streameval.join.tables import joined
from tests.cli.program import run
from tests.cli.test_backfill import BEFORE, BY, BackfilledLog
from tests.cli.test_backfill import METRICS as CONFIGURED
from tests.cli.test_backfill import events as history
from tests.join.worlds import world
from tests.partials.test_partials import (
    INTERVALS,
    METRICS,
    SCHEMA,
    counted,
    events,
    states,
    table,
)

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(1200),
    # Spark warns about properties of the machine.
    pytest.mark.filterwarnings("default"),
]

ROWS = events(150)


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java")
    # What tests/run gives the broker's Java is not for this one.
    # What runs for seconds is compiled once, and by few threads.
    os.environ["JDK_JAVA_OPTIONS"] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    # Otherwise workers run the first python3 of the path, which may lack the packages.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").appName("streameval")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "3",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.session.timeZone": "UTC",
    }.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


def frame(spark: Any, rows: pa.Table | None = None) -> Any:
    return spark.createDataFrame(table(ROWS) if rows is None else rows)


def evaluated(given: Any, **options: Any) -> Any:
    usual: dict[str, Any] = {"by": ["variant", "pro"], "every": "1h", "intervals": INTERVALS}
    return evaluate(given, *METRICS, **(usual | options))


EXPECTED = states(merged(counted(table(ROWS))))


@pytest.mark.parametrize(
    "split",
    [
        (1,),
        (4, "users"),
        *(pytest.param(split, marks=pytest.mark.nightly) for split in ((4,), (13,), (13, "users"))),
    ],
    ids=str,
)
def test_any_partitioning_gives_the_bits_of_one_process(spark: Any, split: Sequence[Any]) -> None:
    assert states(evaluated(frame(spark).repartition(*split)).accumulators()) == EXPECTED


@pytest.mark.nightly
def test_executors_read_the_key_of_users_at_its_place(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("uGm7XkQ2vT9sLb4RzYc1WnPdZq8HfKe5rJx0")
    key = f"${{file:{tmp_path / 'key'}}}"
    of_spark = states(evaluated(frame(spark).repartition(3), user_key=key).accumulators())
    assert of_spark == states(merged(counted(table(ROWS), user_key=key))) != EXPECTED


def test_the_examples_of_the_module_run(spark: Any) -> None:
    tests = doctest.DocTestFinder().find(spark_module, globs=vars(spark_module))
    runner = doctest.DocTestRunner()
    for test in tests:
        test.globs |= {"spark": spark}
        runner.run(test)
    assert (runner.failures, runner.tries > 10) == (0, True)


class Case(NamedTuple):
    """What is counted: a table, metrics, and the inputs of both sides."""

    rows: pa.Table
    metrics: Sequence[str]
    by: Sequence[str]
    inputs: Mapping[str, Any] = {}


def _with_shadows() -> Case:
    """The rows are lists already: those not shown have the one that was shown instead."""
    columns = ["recommendations", "interactions", "users"]
    lists = []
    for row in ROWS:
        ranked = {name: row[name] for name in columns} | {"ranker": "shown", "shown_instead": None}
        items = row["recommendations"]
        shadow = {"recommendations": items[::2], "ranker": "new", "shown_instead": items}
        lists += [ranked, ranked | shadow]
    schema = pa.schema([SCHEMA.field(name) for name in columns])
    schema = schema.append(pa.field("ranker", pa.string()))
    schema = schema.append(pa.field("shown_instead", SCHEMA.field("recommendations").type))
    return Case(pa.Table.from_pylist(lists, schema), ["ctr", "overlap"], ["ranker"])


def _with_chances(kind: Any) -> Case:
    """Of each item, in the log and of a policy; some lists have none."""
    draw = random.Random(3)
    rows = [
        row
        | {
            "per_item": {
                name: [draw.uniform(0.01, 1) for _ in row["recommendations"]]
                for name in ("propensity", "target")
            }
            if draw.random() > 0.1
            else None
        }
        for row in ROWS
    ]
    judged = pa.Table.from_pylist(rows, SCHEMA.append(pa.field("per_item", kind)))
    metrics = ("ips", "snips", "snips(slots=cascade)@2", "importance_weight")
    return Case(judged, metrics, ["variant"])


NUMBERS = pa.list_(pa.float64())
CASES = {
    "shadow rankers": _with_shadows(),
    "a map of values": _with_chances(pa.map_(pa.string(), NUMBERS)),
    "a struct of values": _with_chances(pa.struct({"propensity": NUMBERS, "target": NUMBERS})),
    "a catalogue": Case(
        table(ROWS),
        ["item_coverage@3", "tail_percentage@3"],
        ["pro"],
        {
            "catalog": [f"i{index}" for index in range(9)],
            "popularity": Popularity({f"i{index}": index + 1 for index in range(12)}),
        },
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_every_column_and_input_reaches_the_executors(spark: Any, name: str) -> None:
    case = CASES[name]
    options: dict[str, Any] = {"by": case.by, "intervals": INTERVALS, **case.inputs}
    there = evaluate(frame(spark, case.rows).repartition(4), *case.metrics, **options)
    here = merged(partials([case.rows], *case.metrics, **options), **case.inputs)
    assert states(there.accumulators()) == states(here)
    assert len(here) > 1


@pytest.mark.parametrize("partitions", [4, pytest.param(13, marks=pytest.mark.nightly)])
def test_it_merges_into_the_state_of_a_daemon(spark: Any, tmp_path: Path, partitions: int) -> None:
    world = BackfilledLog(tmp_path)
    inputs = frame(spark, history(world.records[:BEFORE])).repartition(partitions, "users")
    options: dict[str, Any] = {"catalog": 1200, "intervals": Intervals(groups=64)}
    counted = evaluate(inputs, *CONFIGURED, by=BY, every="1h", **options)
    counted.partials.write.parquet(str(tmp_path / "spark"))
    for name, backfill in (("of-spark", tmp_path / "spark"), ("of-one", world.backfill)):
        assert world.merged(backfill, into=name).returncode == 0
    exported = [run("state", "export", tmp_path / name).stdout for name in ("of-spark", "of-one")]
    assert exported[0] == exported[1] != ""


@pytest.mark.nightly
def test_records_of_a_topic_are_a_frame(spark: Any) -> None:
    functions: Any = pytest.importorskip("pyspark.sql.functions")
    rows = [row for row in ROWS if row["variant"] is not None]
    names = ("recommendations", "interactions", "variant")
    values = [json.dumps({name: row[name] for name in names}).encode() for row in rows]
    topic = spark.createDataFrame([(value,) for value in (*values, b"no JSON")], "value binary")
    fields = "recommendations array<string>, interactions array<string>, variant string"
    record = functions.from_json(functions.col("value").cast("string"), fields)
    inputs = topic.select(record.alias("event")).select("event.*")
    inputs = inputs.where("recommendations is not null and interactions is not null")
    evaluation = evaluate(inputs, "ndcg@3", "ctr", by=["variant"])
    expected = merged(partials([table(rows)], "ndcg@3", "ctr", by=["variant"]))
    assert states(evaluation.accumulators()) == states(expected)


def test_it_collects_to_rows_of_labels_metric_and_value(spark: Any) -> None:
    rows = evaluated(frame(spark), every=None, by=["variant"]).collect()
    alone = merged(counted(table(ROWS), every=None, by=["variant"]))
    assert len(rows) == len(METRICS) * len(alone)
    for row in rows:
        reading = alone[Cell(row.labels, None)].read(row.metric)
        assert row.start is None
        assert (row.reading.value, row.reading.count) == (reading.value, reading.count)
        assert row.reading.interval == reading.interval


@pytest.mark.nightly
def test_a_redelivered_batch_changes_nothing(spark: Any, tmp_path: Path) -> None:
    def count(batch: Any, number: int) -> None:
        folder = str(tmp_path / "partials" / f"batch={number}")
        evaluated(batch).partials.write.mode("overwrite").parquet(folder)

    for number, begin in enumerate(range(0, len(ROWS), 200)):
        batch = frame(spark, table(ROWS[begin : begin + 200]))
        for _ in range(1 + (number == 1)):
            count(batch, number)
    rows_left = spark.read.parquet(str(tmp_path / "partials"))
    assert states(merged(row.asDict() for row in rows_left.collect())) == EXPECTED


def test_errors_are_raised_before_anything_runs(spark: Any) -> None:
    with pytest.raises(InvalidEventError, match="no column 'campaign'; its columns: recomm"):
        evaluated(frame(spark), by=["campaign"])
    with pytest.raises(MetricError):
        evaluate(frame(spark), "ndgc@10")
    with pytest.raises(MetricError, match="catalog"):
        evaluate(frame(spark), "item_coverage@2")


@pytest.mark.parametrize("seed", [3, pytest.param(4, marks=pytest.mark.nightly)])
def test_a_join_gives_the_bits_and_refuses_the_columns_of_one_process(
    spark: Any, seed: int
) -> None:
    of = world(seed, 60)
    rule, metrics = of.attribution, ("ndcg@2", "value_per_list", "hit_rate(type=click)@2")
    lists = joined(of.impression_table, of.interaction_table, rule).lists
    inputs = spark.createDataFrame(of.impression_table), spark.createDataFrame(of.interaction_table)
    options: Any = {"by": ["variant"], "every": "1m"}
    evaluation = evaluate(*inputs, *metrics, attribution=rule, buckets=40, **options)
    assert states(evaluation.accumulators()) == states(
        merged(partials([lists], *metrics, **options))
    )
    key = "user" if rule.key == "user_item" else "request_id"
    with pytest.raises(InvalidEventError, match="bigint in interactions"):
        evaluate(
            inputs[0],
            inputs[1].withColumn(key, inputs[1][key].cast("bigint")),
            "mrr",
            attribution=rule,
        )
    for name in (key, "item"):
        with pytest.raises(InvalidEventError, match=f"interactions have no column '{name}'"):
            evaluate(inputs[0], inputs[1].drop(name), "mrr", attribution=rule)
    with pytest.raises(UsageError, match="give that of interactions"):
        evaluate(inputs[0], "mrr", attribution=rule)
    with pytest.raises(UsageError, match="buckets=0: give 1 or more"):
        evaluate(*inputs, "mrr", attribution=rule, buckets=0)
