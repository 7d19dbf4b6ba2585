"""The suites that hold for any kernel, with the one in Python where the compiled one is in use."""

from __future__ import annotations

import os
import sys

import pytest

from streameval.statistics.kernel import COMPILED
from tests.effort import PATIENCE
from tests.house.checkout import ROOT
from tests.processes import finished

pytestmark = pytest.mark.compiler

_QUICK = (
    "tests/contract/test_doors.py",
    "tests/contract/test_events_taken.py",
    "tests/contract/test_ids.py",
    "tests/contract/test_law.py",
)
_ALL = (
    *("tests/columnar", "tests/conformance", "tests/contract", "tests/decoding", "tests/join"),
    *("tests/metrics", "tests/statistics", "tests/uncertainty", "tests/windows", "streameval"),
)


# Files and joins end in the same calls as the doors in Python; the law compares the kernels' bits.
_FEW = (
    "not every_text and "
    "not (test_doors and (json or parquet or table or joined or trec or every_module))"
)


def _run_in_python(*suites: str, chosen: str = "") -> None:
    if not COMPILED:
        pytest.skip("the compiled kernel is not here, so that all suites run with the other")
    around = {name: text for name, text in os.environ.items() if not name.startswith("PYTEST_")}
    marks = ("-m", "not nightly and not kafka and not browser and not spark")
    alone = ("-p", "no:cacheprovider", "-p", "no:randomly")
    done = finished(
        [sys.executable, "-m", "pytest", *marks, *alone, "-k", chosen, *suites],
        cwd=ROOT,
        env={**around, "STREAMEVAL_PURE": "1"},
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stdout[-10_000:] + done.stderr
    assert " passed" in done.stdout
    assert "the kernel in use is python" in done.stdout


def test_doors_and_the_law_hold_with_the_kernel_in_python() -> None:
    _run_in_python(*_QUICK, chosen=_FEW)


@pytest.mark.nightly
@pytest.mark.timeout(3_600)
def test_all_suites_of_counting_hold_with_the_kernel_in_python() -> None:
    _run_in_python(*_ALL)
