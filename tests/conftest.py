"""What tests of several folders share."""

from __future__ import annotations

import pytest

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


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes longest comes first, so that nothing is waited for in the end."""
    items.sort(key=lambda item: "/chaos/" not in item.path.as_posix())
