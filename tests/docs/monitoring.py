"""Rules and dashboards of the configuration of compose.yaml, as its commands make them."""

from __future__ import annotations

from pathlib import Path

from streameval.config import load
from streameval.monitoring.dashboards import dashboards_of
from streameval.monitoring.grafana import grafana_json
from streameval.monitoring.objectives import objective_of
from streameval.monitoring.rules import RuleOptions, rules_of
from tests.house.checkout import ROOT

DEPLOY = ROOT / "deploy"
RUNBOOK = "docs/runbook.md"
OBJECTIVES = ("valid=99.5%", "fresh=99.9%", "lag=99%")


def files() -> dict[Path, str]:
    """Path -> text."""
    config = load(DEPLOY / "compose" / "streameval.toml")
    objectives = [objective_of(text, reads_kafka=True) for text in OBJECTIVES]
    rules = rules_of(config, RuleOptions(objectives=objectives, runbook=RUNBOOK))
    boards = {
        DEPLOY / "grafana" / f"{board.name}.json": grafana_json(board, RUNBOOK)
        for board in dashboards_of(config)
    }
    return {DEPLOY / "prometheus" / "rules.yml": rules, **boards}
