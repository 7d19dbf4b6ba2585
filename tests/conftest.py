"""What tests of several folders share."""

from __future__ import annotations

import gc
import signal
from collections.abc import Generator
from typing import Any

import pytest
from _pytest.doctest import DoctestModule

import tests.effort  # noqa: F401  loads the profile of Hypothesis
from tests.kafka.secured import _secured, _session_broker, broker, client, safe
from tests.prometheus.remembering import remembering
from tests.real_parts import pytest_report_header, pytest_runtest_makereport

__all__ = [
    "_secured",
    "_session_broker",
    "broker",
    "client",
    "pytest_report_header",
    "pytest_runtest_makereport",
    "remembering",
    "safe",
]

_BROKERS = {
    "kafka joined": ("tests/chaos/", "tests/join/", "tests/contract/", "tests/dead_letters/"),
    "kafka": ("tests/kafka/",),
    "kafka daemons": ("tests/",),
}
"""Groups of about equal length, each with a broker of its own, by the folders of their tests."""

_FIRST = (
    *_BROKERS,
    "tests/docs/",
    "browser",
    "tests/partials/",
    "tests/contract/",
    "tests/simulation/",
    "prometheus",
    "tests/house/",
    "tests/kernel/",
    "tests/conformance/",
    "tests/statistics/",
    "tests/columnar/",
    "tests/engine/",
    "tests/crashes/",
    "tests/daemon/",
    "tests/cli/",
    "tests/embedding/",
    "tests/join/",
)
"""Groups that take longest, or the beginnings of their names; all others come after them."""


def pytest_configure() -> None:
    """Interrupts are heeded, though a shell starts what is in its background without."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is imported and collected stays; looking for garbage in it takes a tenth of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_collect_file() -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Examples in docstrings are those of the package; to look for some in tests takes long."""
    return [collector for collector in (yield) if not isinstance(collector, DoctestModule)]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Say which tests run in one process, and begin with what takes longest."""
    for item in items:
        if "_session_broker" in getattr(item, "fixturenames", ()):
            item.add_marker("kafka")
    groups = {item: _group(item) for item in items}
    items.sort(key=lambda item: (_turn(groups[item]), _process_group(item, groups[item])))
    for item, group in groups.items():
        item.add_marker(pytest.mark.xdist_group(group))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node: Any, ids: list[str]) -> None:
    """Without its groups a run still passes, but each process starts a broker and a browser."""
    if node.config.getoption("dist") == "loadgroup" and not all("@" in test_id for test_id in ids):
        pytest.exit("This pytest-xdist sees no groups of this pytest; see pyproject.toml.", 4)


def _process_group(item: pytest.Item, group: str) -> str:
    """Browsers of two packages must not take turns: Playwright's loop begins once for each."""
    return item.path.parent.as_posix() if group == "browser" else ""


def _group(item: pytest.Item) -> str:
    """A real part is started once in the process whose tests need it; else a file is a group.

    A test may name its group itself.
    """
    marker = item.get_closest_marker("xdist_group")
    if marker is not None:
        return str(marker.args[0])
    path = item.path.relative_to(item.config.rootpath).as_posix()
    if item.get_closest_marker("kafka"):
        return next(name for name, folders in _BROKERS.items() if path.startswith(folders))
    parts = ("browser", "prometheus")
    return next((part for part in parts if item.get_closest_marker(part)), path)


def _turn(group: str) -> int:
    turns = (turn for turn, first in enumerate(_FIRST) if group.startswith(first))
    return next(turns, len(_FIRST))
