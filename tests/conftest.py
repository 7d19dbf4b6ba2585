"""What tests of several folders share."""

from __future__ import annotations

import pytest

import tests.effort  # noqa: F401  loads the profile of Hypothesis
from tests.kafka.broker_fixture import _session_broker, broker
from tests.prometheus.remembering import remembering
from tests.real_parts import pytest_report_header, pytest_runtest_makereport

__all__ = [
    "_session_broker",
    "broker",
    "pytest_report_header",
    "pytest_runtest_makereport",
    "remembering",
]


_LONGEST = (
    "chaos/test_scenarios.py",
    "chaos/test_a_day.py",
    "kafka/test_group.py",
    "durability/test_machine.py",
    "kafka/test_broker.py",
    "contract/test_metrics.py",
    "daemon/",
    "browser/",
    "attribution/",
    "chaos/",
    "kafka/",
    "letters/",
    "contract/",
    "cli/",
    "prometheus/",
    "columnar/",
    "statistics/",
    "pipeline/",
)


def _turn(item: pytest.Item) -> int:
    """Where in the order of the longest a test comes; after all of them if it is not there."""
    path = item.path.as_posix()
    found = (turn for turn, part in enumerate(_LONGEST) if f"/tests/{part}" in path)
    return next(found, len(_LONGEST))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes longest comes first, so that nothing is waited for in the end."""
    items.sort(key=_turn)
