"""Shared fixtures of the tests of /metrics."""

from __future__ import annotations

import pytest

from streameval.exporters.prometheus import PrometheusExporter
from tests.exporters.pictures import Hands


@pytest.fixture
def hands() -> Hands:
    return Hands()


@pytest.fixture
def exporter(hands: Hands) -> PrometheusExporter:
    """An exporter without `first_exposure`."""
    return PrometheusExporter(version="1.2.3", kafka=True, clock=hands, first_exposure=0)
