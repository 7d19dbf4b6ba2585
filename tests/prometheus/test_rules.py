"""The rules and alerts that people copy: tried by promtool, and each explained."""

from __future__ import annotations

import os
import re
import shutil
import tomllib
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from streameval.catalogue import parse
from streameval.exporters.names import family_name
from tests.cli.program import run
from tests.house.checkout import ROOT
from tests.processes import finished
from tests.prometheus.configured import FOLDER, OPTIONS, RUNBOOK, rules_text
from tests.prometheus.remembering import Remembering
from tests.prometheus.server import program

DEPLOYED = ROOT / "deploy" / "prometheus"
CASES = sorted((Path(__file__).parent / "cases").glob("*.yml"))
PAGE = ROOT / "docs" / "reference" / "prometheus.md"
SECTIONS = (ROOT / RUNBOOK).read_text(encoding="utf-8")
FOUND = ("Gaps", "Changes", "Experiment")
PARTS: Final = ("sum", "count", "window_mean", "window_low", "window_high", "window_support")
ADVICE = ("**Look:**", "**Causes:**", "**Do:**")


@cache
def _alerts() -> list[dict[str, Any]]:
    """The alerts of all three configurations."""
    groups = [group for name in OPTIONS for group in yaml.safe_load(rules_text(name))["groups"]]
    return [rule for group in groups for rule in group["rules"] if "alert" in rule]


def _names() -> set[str]:
    return {alert["alert"] for alert in _alerts()}


def _promtool(*arguments: str) -> str:
    command = [program("promtool"), *arguments]
    # It ends before it needs its memory back; by default a quarter of its work is to collect.
    environment = {**os.environ, "GOGC": "400"}
    result = finished(command, env=environment)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the rules of each configuration."""
    folder = tmp_path_factory.mktemp("rules")
    for name in OPTIONS:
        (folder / f"{name}.yml").write_text(rules_text(name), encoding="utf-8")
        # The recorded means, which are most of the rules, only cost time where none is asked for.
        groups = yaml.safe_load(rules_text(name))["groups"]
        alerts = [group for group in groups if group["name"] == "streameval-alerts"]
        path = folder / f"{name}-alerts.yml"
        path.write_text(yaml.safe_dump({"groups": alerts}), encoding="utf-8")
        job = rules_text(name, "shop")
        (folder / f"{name}-shop.yml").write_text(job, encoding="utf-8")
    return folder


@pytest.mark.prometheus
def test_promtool_accepts_the_rules(written: Path) -> None:
    rules = [path for path in written.glob("*.yml") if not path.name.startswith("case-")]
    accepted = _promtool("check", "rules", "--lint-fatal", *map(str, rules))
    assert accepted.count("SUCCESS") == 3 * len(OPTIONS)


@pytest.mark.prometheus
@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_the_rules_say_what_they_should_of_made_up_traffic(path: Path, written: Path) -> None:
    copy = written / f"case-{path.stem}.yml"
    shutil.copy(path, copy)
    assert "SUCCESS" in _promtool("test", "rules", str(copy))


def test_a_job_is_named_whatever_letters_it_has() -> None:
    shop, jobs = (rules_text("join", job) for job in ("shop", "JOBS"))
    assert jobs == shop.replace('"shop', '"JOBS')


def test_rules_for_one_job_ask_for_no_series_of_another() -> None:
    everywhere, shop = (rules_text("join", job) for job in (None, "shop"))
    unscoped = r"(?<![\w:#])(?:\w+:)?streameval_[\w:]+(?!\w*\{[^}]*job=)(?![\w:{])"
    texts = [
        "\n".join(
            rule["expr"] for group in yaml.safe_load(text)["groups"] for rule in group["rules"]
        )
        for text in (everywhere, shop)
    ]
    assert re.findall(unscoped, texts[0]) != []
    assert re.findall(unscoped, texts[1]) == []
    assert set(re.findall(r'=~"(a.*?)"', rules_text("join", "a.b"))) == {"a[.]b(-serve)?"}


@pytest.mark.prometheus
def test_beside_a_reader_replicas_keep_all_but_the_gauges_of_values() -> None:
    _promtool("check", "config", str(DEPLOYED / "replicas.yml"))
    replicas, reader = yaml.safe_load((DEPLOYED / "replicas.yml").read_text())["scrape_configs"]
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
    assert (fires, silent) == (_names(), _names())


def test_every_alert_says_what_it_is_and_has_its_section_of_the_runbook() -> None:
    for alert in _alerts():
        name, notes = alert["alert"], alert["annotations"]
        assert {*notes} == {"summary", "description", "runbook_url"}, name
        assert alert["labels"]["severity"] in {"critical", "warning", "info"}
        assert notes["runbook_url"] == f"{RUNBOOK}#{name.lower()}"
        section = SECTIONS.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
        assert [advice for advice in ADVICE if advice not in section] == [], name


@pytest.mark.parametrize("name", OPTIONS)
def test_the_rules_ask_for_nothing_that_is_not_exported(name: str) -> None:
    page = PAGE.read_text(encoding="utf-8")
    exported = set(re.findall(r"\n- `(streameval_\w+)` \(", page))
    metrics = tomllib.loads((FOLDER / f"{name}.toml").read_text(encoding="utf-8"))["metrics"]
    for family in map(family_name, map(parse, [*metrics, "overlap@10"])):
        exported |= {family, *(f"{family}_{part}" for part in PARTS)}
    requested = set(re.findall(r"(?<![\w:])(streameval_\w+)", rules_text(name)))
    assert requested - exported == set()


MISTAKES = {
    ("--below", "ctrr=0.02"): "Did you mean 'ctr'?",
    ("--below", "ndcg@5=0.02"): "Did you mean 'ndcg@10'?",
    ("--below", "ctr"): "give METRIC=VALUE",
    ("--above", "ctr=nan"): "give METRIC=VALUE",
    ("--below", "ctr=0.02", "--for", "15"): "--for: found '15'",
    ("--support", "5"): "--support: no effect without",
    ("--job", 'a"b'): "give a job_name",
    ("--objective", "vaild=99%"): "Did you mean 'valid'?",
    ("--objective", "lag=99%"): "not Kafka",
    ("--objective", "valid:5m=99%"): "has no limit of time",
    ("--objective", "fresh:5=99%"): "found '5'",
    ("--objective", "valid=100%"): "below 100%",
    ("--objective", "valid=99%", "--objective", "valid=98%"): "given twice",
}


@pytest.mark.parametrize("given", MISTAKES, ids=" ".join)
def test_what_the_configuration_does_not_have_is_refused(given: tuple[str, ...]) -> None:
    done = run("rules", FOLDER / "plain.toml", *given)
    assert (done.returncode, done.stdout) == (2, "")
    assert MISTAKES[given] in done.stderr


def test_a_value_of_windows_is_compared_in_one_of_them() -> None:
    arguments = ("rules", FOLDER / "experiment.toml", "--below", "snips(target=near)=0.1")
    assert "give --for one of the windows: 1h." in run(*arguments).stderr
    done = run(*arguments, "--for", "1h")
    assert 'streameval_snips_window_support{target="near",window="1h"}' in done.stdout


def test_the_runbook_speaks_of_no_alert_that_is_gone() -> None:
    assert set(re.findall(r"^## (Streameval\w+)$", SECTIONS, re.MULTILINE)) == _names()


@pytest.mark.prometheus
def test_a_loss_fires_in_a_real_prometheus_where_it_happens(remembering: Remembering) -> None:
    dropped = [
        alert for alert in remembering.alerts if alert["alertname"] == "StreamevalMetricCollapsed"
    ]
    assert {alert["variant"] for alert in dropped} == {"treatment"}
    assert {alert["metric"] for alert in dropped} == {"ctr", "hit_rate", "ndcg", "recbole_ndcg"}
    assert {alert.get("k") for alert in dropped} == {None, "5", "10"}
    hour = 'series:streameval_mean:rate1h{metric="ndcg",variant="%s"}'
    assert remembering.value(hour % "control") == pytest.approx(0.25)
    assert remembering.value(hour % "treatment") == pytest.approx(0.15)


@pytest.mark.prometheus
def test_alerts_of_three_configurations_fire_in_a_real_prometheus(
    remembering: Remembering,
) -> None:
    firing = {(alert["job"], alert["alertname"]) for alert in remembering.alerts}
    assert firing == {
        ("streameval", "StreamevalMetricCollapsed"),
        ("streameval", "StreamevalDeadLetters"),
        ("streameval", "StreamevalGuardrailBroken"),
        ("streameval", "StreamevalMeanWeight"),
        ("streameval", "StreamevalQualityWorse"),
        ("plain", "StreamevalThresholdCrossed"),
        ("join", "StreamevalThresholdCrossed"),
        ("join", "StreamevalErrorBudgetBurning"),
    }
    worse = [
        alert for alert in remembering.alerts if alert["alertname"] == "StreamevalQualityWorse"
    ]
    assert {alert["variant"] for alert in worse} == {"b"}
    assert {alert["severity"] for alert in worse} == {"warning", "critical"}
    burning = {
        (alert["objective"], alert["window"])
        for alert in remembering.alerts
        if alert["alertname"] == "StreamevalErrorBudgetBurning"
    }
    assert burning == {("valid", window) for window in ("6h", "1d", "3d")}
