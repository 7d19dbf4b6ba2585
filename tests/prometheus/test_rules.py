"""The rules and alerts that people copy: tried by promtool, and each explained."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
import yaml

from deploy.prometheus.generate import METRICS, main
from streameval.catalogue import catalogue, parse
from streameval.exporters.names import family_name
from tests.house.checkout import ROOT
from tests.processes import finished
from tests.prometheus.remembering import Remembering
from tests.prometheus.server import program

RULES = ROOT / "deploy" / "prometheus"
FILES = (RULES / "metrics.yml", RULES / "pipeline.yml")
CASES = sorted((Path(__file__).parent / "cases").glob("*.yml"))
PAGE = ROOT / "docs" / "reference" / "prometheus.md"
RUNBOOK = (ROOT / "docs" / "runbook.md").read_text(encoding="utf-8")
_ALERT = re.compile(r"^ +- alert: (\w+)\n((?:(?! +- (?:alert|record):).*\n)*)", re.MULTILINE)
ALERTS = {
    name: body for path in FILES for name, body in _ALERT.findall(path.read_text(encoding="utf-8"))
}
FOUND = ("Gaps", "Changes", "Experiment")
ADVICE = ("**Look:**", "**Causes:**", "**Do:**")


def _promtool(*arguments: str) -> str:
    command = [program("promtool"), *arguments]
    # It ends before it needs its memory back; by default a quarter of its work is to collect.
    environment = {**os.environ, "GOGC": "400"}
    result = finished(command, env=environment)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.mark.prometheus
def test_promtool_accepts_the_rules() -> None:
    accepted = _promtool("check", "rules", "--lint-fatal", *map(str, FILES))
    assert re.findall(r"(\d+) rules found", accepted) == ["98", "36"]


@pytest.mark.prometheus
@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_the_rules_say_what_they_should_of_made_up_traffic(path: Path) -> None:
    assert "SUCCESS" in _promtool("test", "rules", str(path))


@pytest.mark.prometheus
def test_beside_a_reader_replicas_keep_all_but_the_gauges_of_values() -> None:
    _promtool("check", "config", str(RULES / "replicas.yml"))
    replicas, reader = yaml.safe_load((RULES / "replicas.yml").read_text())["scrape_configs"]
    assert [job["job_name"] for job in (replicas, reader)] == ["streameval", "streameval-serve"]
    (rule,) = replicas["metric_relabel_configs"]
    text = PAGE.read_text(encoding="utf-8")
    kinds = dict(re.findall(r"\n- `(streameval_\w+)` \((\w+)", text))
    dropped = {name for name in kinds if re.fullmatch(rule["regex"], name)}
    assert {kinds[name] for name in dropped} == {"gauge"}
    sections = [text.partition(f"\n## {title}\n")[2].partition("\n## ")[0] for title in FOUND]
    assert dropped == set(re.findall(r"\n- `(streameval_\w+)` \(", "".join(sections)))
    for suffix in ("mean", "low", "high", "support"):
        assert re.fullmatch(rule["regex"], f"streameval_ndcg_by_country_window_{suffix}")


def test_every_alert_is_shown_firing_and_silent() -> None:
    fires, silent = set[str](), set[str]()
    for path in CASES:
        cases = yaml.safe_load(path.read_text(encoding="utf-8"))["tests"]
        for asked in (asked for case in cases for asked in case.get("promql_expr_test", ())):
            names = set(re.findall(r'ALERTS\{alertname="(\w+)"', asked["expr"]))
            samples = [sample["labels"] for sample in asked["exp_samples"]]
            if not samples:
                silent |= names
            fires |= {
                name
                for name in names
                for labels in samples
                if f'alertname="{name}"' in labels and 'alertstate="firing"' in labels
            }
    assert (fires, silent) == (set(ALERTS), set(ALERTS))


def test_every_alert_says_what_it_is_and_has_its_section_of_the_runbook() -> None:
    for name, body in ALERTS.items():
        for key in ("severity:", "summary:", "description:"):
            assert key in body, name
        assert f"runbook_url: docs/runbook.md#{name.lower()}\n" in body
        section = RUNBOOK.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
        assert [advice for advice in ADVICE if advice not in section] == [], name


def test_the_rules_ask_for_nothing_that_is_not_exported() -> None:
    exported = set(re.findall(r"\n- `(streameval_\w+)` \(", PAGE.read_text(encoding="utf-8")))
    exported |= {family_name(parse(name)) for name in catalogue()}
    means = {f"streameval_{metric}" for metric in METRICS}
    parts = {f"{name}_{part}" for name in means for part in ("sum", "count")}
    parts |= {f"{name}_window_{part}" for name in means for part in ("mean", "support")}
    parts.add("streameval_overlap_count")
    weight = "streameval_importance_weight"
    parts |= {f"{weight}_{part}" for part in ("window_low", "window_high", "effective_share")}
    asked = {
        name
        for path in FILES
        for name in re.findall(r"(?<![\w:])(streameval_\w+)", path.read_text(encoding="utf-8"))
    }
    assert means <= exported
    assert asked - exported - parts == set()


@pytest.mark.parametrize("name", ["ndcg@10", "recbole:ndcg", "streameval_ctr", ""])
def test_the_generator_refuses_what_is_no_name_in_the_exposition(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["ctr", name])
    told = capsys.readouterr()
    assert (ended.value.code, told.out) == (2, "")
    assert f"error: {name!r}: " in told.err


def test_the_runbook_speaks_of_no_alert_that_is_gone() -> None:
    assert set(re.findall(r"^## (Streameval\w+)$", RUNBOOK, re.MULTILINE)) == set(ALERTS)


@pytest.mark.prometheus
def test_a_loss_fires_in_a_real_prometheus_where_it_happens(remembering: Remembering) -> None:
    dropped = [
        alert for alert in remembering.alerts if alert["alertname"] == "StreamevalMetricCollapsed"
    ]
    assert {alert["variant"] for alert in dropped} == {"treatment"}
    assert {alert["metric"] for alert in dropped} == {"ctr", "hit_rate", "ndcg"}
    assert {alert.get("k") for alert in dropped} == {None, "5", "10"}
    hour = 'series:streameval_mean:rate1h{metric="ndcg",variant="%s"}'
    assert remembering.value(hour % "control") == pytest.approx(0.25)
    assert remembering.value(hour % "treatment") == pytest.approx(0.15)


@pytest.mark.prometheus
def test_nothing_else_is_alarming_in_a_real_prometheus(remembering: Remembering) -> None:
    alerts = {alert["alertname"] for alert in remembering.alerts}
    assert alerts == {
        "StreamevalMetricCollapsed",
        "StreamevalDeadLetters",
        "StreamevalGuardrailBroken",
        "StreamevalMeanWeight",
        "StreamevalQualityWorse",
    }
    worse = [
        alert for alert in remembering.alerts if alert["alertname"] == "StreamevalQualityWorse"
    ]
    assert {alert["variant"] for alert in worse} == {"b"}
    assert {alert["severity"] for alert in worse} == {"warning", "critical"}
