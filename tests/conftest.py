"""What tests of several folders share."""

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
