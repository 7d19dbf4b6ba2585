"""One Prometheus with a day behind it and the deployed rules, for the whole run."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.house.checkout import ROOT
from tests.prometheus.history import write_history
from tests.prometheus.server import Prometheus, program, running

_RULES = ROOT / "deploy" / "prometheus"
_CONFIGURATION = """
global: {evaluation_interval: 1s}
rule_files: [metrics.yml, pipeline.yml]
"""


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
        (found,) = self.server.data("query", query=query, time=str(self.moment))["result"]
        return float(found["value"][1])


@pytest.fixture(scope="session")
def remembering(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Remembering]:
    """Made-up traffic of a day, in which the treatment loses; alerts fire without waiting."""
    program("prometheus")
    folder = tmp_path_factory.mktemp("remembering")
    for name in ("metrics.yml", "pipeline.yml"):
        _write_hasty(_RULES / name, folder / name)
    end = int(time.time())
    write_history(folder, end)
    with running(folder, _CONFIGURATION) as server:
        fires = 'ALERTS{alertname="StreamevalMetricDropped",alertstate="firing",metric="ndcg"}'
        assert server.settled(f"count({fires})", 1) == 1
        alerts = [each["labels"] for each in server.data("alerts")["alerts"]]
        yield Remembering(server, end, time.time(), alerts)


def _write_hasty(rules: Path, copy: Path) -> None:
    """Rules that are evaluated each second and alert at once; promtool tries the real ones."""
    text = rules.read_text(encoding="utf-8")
    text = re.sub(r"^( +interval): \w+$", r"\1: 1s", text, flags=re.MULTILINE)
    text = re.sub(r"^ +for: \w+\n", "", text, flags=re.MULTILINE)
    copy.write_text(text, encoding="utf-8")
