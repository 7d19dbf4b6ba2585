"""One Prometheus with a made-up day behind it and the rules of three configurations."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from streameval.analyses.changes.analysis import CHANGES
from streameval.analyses.experiments.analysis import EXPERIMENTS
from streameval.engine.analysis import Finding
from streameval.engine.snapshot import (
    LIFETIME,
    CheckpointHealth,
    Health,
    Series,
    Snapshot,
    WebConfigHealth,
)
from streameval.exporters.prometheus import PrometheusExporter
from tests.exporters.changing import changes_report
from tests.exporters.estimates import estimates
from tests.exporters.experiments import report
from tests.exporters.pictures import (
    health,
    mean,
    partition,
    picture,
    property_of_all,
    refused_value,
    windowed,
)
from tests.prometheus.configured import rules_text
from tests.prometheus.server import Prometheus, program, running

_CONFIGURATION = """
global: {evaluation_interval: 1s}
rule_files: [plain.yml, experiment.yml, join.yml]
"""
_JOBS = {"plain": "plain", "experiment": "streameval", "join": "join"}
"""Configuration -> the scrape job of its processes."""


class Remembering(NamedTuple):
    """A server, and how it stood once its rules had seen the history.

    Attributes:
        server: answers for any moment.
        end: of the history, seconds since the epoch.
        moment: when the alerts were firing, a little later.
        alerts: labels of each.
    """

    server: Prometheus
    end: int
    moment: float
    alerts: Sequence[Mapping[str, str]]

    def value(self, query: str) -> float:
        """The one value of a query at that moment."""
        (sample,) = self.server.data("query", query=query, time=str(self.moment))["result"]
        return float(sample["value"][1])


@pytest.fixture(scope="session")
def remembering(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Remembering]:
    """Made-up traffic of a day, in which the treatment loses; alerts fire without waiting."""
    program("prometheus")
    folder = tmp_path_factory.mktemp("remembering")
    for name, job in _JOBS.items():
        write_hasty(rules_text(name, job), folder / f"{name}.yml")
    end = int(time.time())
    write_history(folder, end)
    with running(folder, _CONFIGURATION) as server:
        fires = 'ALERTS{alertname="StreamevalMetricCollapsed",alertstate="firing",metric="ndcg"}'
        assert server.settled(f"count({fires})", 1) == 1
        alerts, moment = [alert["labels"] for alert in server.data("alerts")["alerts"]], time.time()
    # To go on with rules each second would take a tenth of a core until the last test.
    with running(folder, "") as server:
        assert server.settled("vector(1)", 1) == 1
        yield Remembering(server, end, moment, alerts)


def write_hasty(text: str, copy: Path) -> None:
    """Rules that are evaluated each second and alert at once; promtool tries the real ones."""
    text = re.sub(r"^( +interval): \w+$", r"\1: 1s", text, flags=re.MULTILINE)
    text = re.sub(r"^ +for: \w+\n", "", text, flags=re.MULTILINE)
    # Its history is a day.
    text = text.replace("offset 1w", "offset 1d")
    copy.write_text(text, encoding="utf-8")


STEP = 120
"""Seconds between two scrapes."""
HOURS = 26
LOSS = 75 * 60
"""Seconds before the end at which the treatment begins to lose."""
_METRICS = ("ctr", "hit_rate@5", "hit_rate@10", "ndcg@10", "recbole:ndcg@10")
_COUNTRIES = ("nl", "de")
_EXPERIMENT = report()
_CHANGES = changes_report()
_LISTS = 200
"""Of one variant, per step and replica."""


def write_history(folder: Path, end: int) -> Path:
    """Blocks of a Prometheus with a day of two replicas.

    The second joins at half time, and is restarted with another release near the end.
    """
    text, blocks = folder / "history.txt", folder / "data"
    with text.open("w", encoding="utf-8") as file:
        steps = HOURS * 3600 // STEP
        release = steps - 90 * 60 // STEP
        file.writelines(_lines(0, "1.0.0", range(steps + 1), end))
        file.writelines(_lines(1, "1.0.0", range(steps // 2, release), end))
        file.writelines(_lines(1, "1.1.0", range(release, steps + 1), end))
        file.writelines(_others(end))
        file.write("# EOF\n")
    command = [program("promtool"), "tsdb", "create-blocks-from", "openmetrics"]
    made = subprocess.run([*command, str(text), str(blocks)], capture_output=True, check=False)
    assert made.returncode == 0, made.stderr
    text.unlink()
    return blocks


def _lines(replica: int, version: str, steps: range, end: int) -> Iterator[str]:
    exporter = PrometheusExporter(version=version, kafka=True, first_exposure=0)
    where = f'job="streameval",instance="replica-{replica}:9877"'
    for step in filter(_is_looked_at, steps):
        moment = end - HOURS * 3600 + step * STEP
        snapshot = exporter.exposition(_snapshot(replica, steps.start, step, end)).decode()
        for line in snapshot.splitlines():
            if not line.startswith("#"):
                yield f"{_placed(line, where)} {moment}\n"


def _others(end: int) -> Iterator[str]:
    """The last hours of two other jobs: few clicks, a weak variant, and one in twenty invalid."""
    named = {
        'ctr_sum{job="plain",instance="1"}': 10,
        'ctr_count{job="plain",instance="1"}': 1000,
        'mae_sum{job="plain",instance="1"}': 1000,
        'mae_count{job="plain",instance="1"}': 1000,
        'events_invalid_total{job="join",instance="1",reason="json"}': 50,
        'events_consumed_total{job="join",instance="1"}': 1000,
    }
    for variant, gained in (("a", 50), ("b", 15)):
        labels = f'{{job="join",instance="1",variant="{variant}",k="10"}}'
        named |= {f"ndcg_sum{labels}": gained, f"ndcg_count{labels}": 100}
    up = [f'build_info{{job="{job}",instance="1",version="1"}}' for job in ("plain", "join")]
    for name, step in (*named.items(), *((name, None) for name in up)):
        for number in range(90):
            value = 1 if step is None else number * step
            yield f"streameval_{name} {value} {end - (89 - number) * STEP}\n"


def _is_looked_at(step: int) -> bool:
    """Only the last hours, and the same of the day before, are scraped often: it takes time."""
    dense = (LOSS + 3600) // STEP
    return step <= dense or step >= HOURS * 3600 // STEP - dense or step % 15 == 0


def _placed(line: str, where: str) -> str:
    head, _, value = line.rpartition(" ")
    name, brace, labels = head.partition("{")
    return f"{name}{{{where},{labels} {value}" if brace else f"{name}{{{where}}} {value}"


def _snapshot(replica: int, start: int, step: int, end: int) -> Snapshot:
    moment, steps = end - HOURS * 3600 + step * STEP, step - start
    lost = max(0, (moment - (end - LOSS)) // STEP)
    series: list[Series] = []
    for text in _METRICS:
        for variant in ("control", "treatment"):
            less = 0.1 * lost if variant == "treatment" else 0.0
            total, count = (0.25 * steps - less) * _LISTS, steps * _LISTS
            for window in ("1h", LIFETIME):
                whole = mean(text, (variant,), total, count)
                series.append(windowed(whole, window))
                for country in _COUNTRIES:
                    part = mean(text, (variant, country), total / 2, count // 2)
                    series.append(windowed(part, window, family=1))
    for variant in ("control", "treatment"):
        coverage = property_of_all("item_coverage@10", (variant,), 0.5)
        series += [windowed(coverage, "1h"), refused_value("capri:recall@5", (variant,))]
        series += estimates((variant,), steps)
        for country in _COUNTRIES:
            series += estimates((variant, country), steps, family=1)
    state = _health(replica, start, step, moment)
    snapshot = picture(*series, segments=["country"], windows=["1h"], version=step, state=state)
    findings = (Finding(EXPERIMENTS, _EXPERIMENT), Finding(CHANGES, _CHANGES))
    return msgspec.structs.replace(snapshot, taken_at=moment, findings=findings)


def _health(replica: int, start: int, step: int, moment: int) -> Health:
    steps, position = step - start, 900 * step
    read = partition(replica, position, position + 40, moment - 3.0, durable=position)
    checkpoint_health = CheckpointHealth(last_success=moment - 5, failures={"store": 0})
    return health(
        consumed=900 * steps,
        invalid={"json": 2 * steps},
        partitions=(read,),
        late=steps,
        future=steps,
        duplicates=steps,
        folded={"labels": 0, "country": 7},
        dead_lettered=2 * steps,
        recoveries={"seek": 1},
        connection_failures={"unreachable": 1},
        checkpoint=checkpoint_health,
        web_config=WebConfigHealth(successful=True, at=moment - 3600),
    )
