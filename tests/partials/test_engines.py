"""One log through the daemon and through every engine: the same bytes of state."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple, TypeAlias

import pyarrow as pa
import pytest
from pyarrow import parquet

from streameval import Accumulator, evaluate
from streameval.attribution import Attribution, joined
from streameval.config import load
from streameval.config.states import store_at
from streameval.config.store_reader import StoreReader
from streameval.engine.capture import lifetimes_of
from streameval.partials import merged, partials, stored
from streameval.testing.broker import Broker
from tests.daemon.running import running
from tests.effort import PATIENCE
from tests.join.test_daemon import ended
from tests.kafka.topics import published
from tests.processes import finished

ROOT: Final = Path(__file__).parents[2]
METRICS: Final = ("ndcg@2", "ctr", "value_per_list", "hit_rate(type=purchase)@2")
RULE: Final = Attribution(key="user_item", window="30m", types={"click": 1, "purchase": 10})
START: Final = 1_700_000_000_000_000

States: TypeAlias = dict[tuple[str, ...], Any]

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(3_600)]


class Log(NamedTuple):
    """A log of on-time records, as JSON lines and as files of tables in another order."""

    shown: list[bytes]
    clicks: list[bytes]
    shown_file: Path
    clicks_file: Path


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Log:
    random, folder, time = Random(1), tmp_path_factory.mktemp("log"), START
    impressions: list[dict[str, Any]] = []
    clicks: list[dict[str, Any]] = []
    for number in range(3_000):
        time += random.randrange(1_000, 2_000_000, 1_000)
        row: dict[str, Any] = {
            "request_id": f"r{number}",
            "user": f"u{random.randrange(300)}",
            "variant": random.choice("xy"),
            "times": time,
            "recommendations": [f"i{item}" for item in random.sample(range(200), 5)],
        }
        impressions.append(row)
        items: list[str] = row["recommendations"]
        clicks += [
            {
                "user": row["user"],
                "item": random.choice([*items, "other"]),
                "times": time + random.randrange(0, 1_900_000_000, 1_000),
                "type": random.choice(["click", "purchase", "view"]),
                "event_id": f"e{random.randrange(50)}",
            }
            for _ in range(random.randrange(3))
        ]
        # Copies, some of which differ.
        impressions += [{**row, "times": time + 1_000, "variant": "x"}] * (random.random() < 0.1)
        clicks += clicks[-1:] * (random.random() < 0.1)
    lines = list[list[bytes]]()
    for name, rows in (("shown", impressions), ("clicks", clicks)):
        rows.sort(key=lambda each: each["times"])
        lines.append([json.dumps(row).encode() for row in rows])
        table = pa.Table.from_pylist(random.sample(rows, len(rows)))
        parquet.write_table(table, folder / f"{name}.parquet", row_group_size=700)
    return Log(lines[0], lines[1], folder / "shown.parquet", folder / "clicks.parquet")


CONFIG: Final = f"""
metrics = {json.dumps(METRICS)}
labels = ["variant"]
source = {{{{ type = "kafka", topics = ["{{shown}}", "{{clicks}}"], group = "{{shown}}", \
kafka = {{{{ bootstrap_servers = "{{address}}" }}}} }}}}
event = {{{{ time = "times", time_unit = "us" }}}}
state = {{{{ path = "{{store}}", interval = "1s" }}}}
web = {{{{ listen = "127.0.0.1:0" }}}}
[attribution]
impressions = "{{shown}}"
key = "user_item"
request_id = "request_id"
window = "30m"
idle_timeout = "1s"
interactions = [{{{{ source = "{{clicks}}", event_id = "event_id", \
types = {{{{ click = 1, purchase = 10 }}}} }}}}]
"""


def by_daemon(log: Log, folder: Path, broker: Broker) -> States:
    logs = {"shown": log.shown, "clicks": log.clicks}
    topics = {name: published(broker, lines, "user") for name, lines in logs.items()}
    config = CONFIG.format(**topics, address=broker.bootstrap_servers, store=folder / "state")
    with running(config, folder) as daemon:
        daemon.until(lambda: ended(daemon, len(log.shown) + len(log.clicks)))
        assert daemon.stop() == 0
    reader = StoreReader(store_at(str(folder / "state")), load(folder / "streameval.toml"))
    reader.refresh()
    (family,) = lifetimes_of(reader.ingest, ["variant"])
    states: States = {}
    for cell, labels in family.labels.items():
        counted = Accumulator(*METRICS)
        counted.adopt(b"".join(family.table.dump([cell])))
        states[labels] = counted.state_dict()
    return states


def by_evaluate(log: Log, _: Path, __: Broker) -> States:
    evaluation = evaluate(
        METRICS,
        impressions=log.shown_file,
        interactions=log.clicks_file,
        attribution=RULE,
        by="variant",
        intervals=None,
        processes=2,
    )
    return {(name,): evaluation.accumulator(variant=name).state_dict() for name in "xy"}


def by_spark(log: Log, folder: Path, _: Broker) -> States:
    program = f"""
from pyspark.sql import SparkSession
from streameval.attribution import Attribution
from streameval.partials import arrow_table
from streameval.spark import evaluate
spark = SparkSession.builder.master("local[2]").getOrCreate()
both = [spark.read.parquet(path) for path in {[str(log.shown_file), str(log.clicks_file)]}]
rule = Attribution(key="user_item", window="30m", types={{"click": 1, "purchase": 10}})
found = evaluate(*both, *{METRICS}, by=["variant"], attribution=rule, buckets=20)
found.partials.write.parquet({str(folder / "counted")!r})
"""
    return _counted([sys.executable, "-W", "ignore", "-c", program], folder)


def _by_example(name: str) -> Callable[[Log, Path, Broker], States]:
    def run(log: Log, folder: Path, _: Broker) -> States:
        path, python = ROOT / "docs" / "examples" / f"{name}.py", folder / "venv/bin/python"
        (needs,) = re.findall(r"# dependencies = \[(.*)\]", path.read_text(encoding="utf-8"))
        packages = [
            re.sub("^streameval", str(ROOT), needed) for needed in re.findall(r'"(.+?)"', needs)
        ]
        uv = [sys.executable, "-m", "uv"]
        # Their pins of pyarrow may be older than what streameval asks for.
        other = folder / "overrides.txt"
        other.write_text("pyarrow>=16\n")
        for command in (
            [*uv, "venv", "--python", sys.executable, str(folder / "venv")],
            [*uv, "pip", "install", "--python", str(python), "--override", str(other), *packages],
        ):
            subprocess.run(command, check=True, capture_output=True)
        if name == "join_beam":
            module = ROOT / "streameval/evaluation/beam.py"
            assert finished([python, "-m", "doctest", module], cwd=folder).returncode == 0
        counted = folder / "counted"
        return _counted([python, path, log.shown_file, log.clicks_file, counted], folder)

    return run


def _counted(command: Iterable[Any], folder: Path) -> States:
    done = finished(list(command), cwd=folder, timeout=15 * PATIENCE)
    assert done.returncode == 0, done.stderr
    return states(stored(folder / "counted"))


def states(rows: Any) -> States:
    return {cell.labels: counted.state_dict() for cell, counted in merged(rows).items()}


ENGINES: Final[Mapping[str, Callable[[Log, Path, Broker], States]]] = {
    "The daemon": by_daemon,
    "`evaluate`": by_evaluate,
    "Spark": by_spark,
    "Beam": _by_example("join_beam"),
    "Ray Data": _by_example("join_ray"),
    "Dask": _by_example("join_dask"),
    "Flink": _by_example("join_flink"),
}


@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_counts_a_log_to_the_bytes_of_one_process(
    engine: str, log: Log, tmp_path: Path, broker: Broker
) -> None:
    tables = parquet.read_table(log.shown_file), parquet.read_table(log.clicks_file)
    total = joined(*tables, RULE)
    assert min(total.counts[0].duplicate, total.counts[1].duplicate, total.counts[1].orphan) > 100
    expected = states(partials([total.lists], *METRICS, by=["variant"]))
    assert ENGINES[engine](log, tmp_path, broker) == expected


def test_the_table_of_the_page_names_the_engines() -> None:
    page = (ROOT / "docs/how-to/distribute.md").read_text(encoding="utf-8")
    table = page.partition("## Beyond one machine\n")[2].partition("\n## ")[0]
    rows = [line.split("|")[2].strip() for line in table.splitlines() if line.startswith("|")]
    assert sorted(rows[2:]) == sorted(ENGINES)
