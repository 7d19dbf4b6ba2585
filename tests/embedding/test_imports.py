"""What a program pays for that imports the package and counts: which modules, and no clock."""

from __future__ import annotations

import subprocess
import sys

FIRST_EVENT = """
import streameval
accumulator = streameval.Accumulator("ndcg@10")
accumulator.update(["a", "b"], ["b"])
"""

NEEDED = {
    "accumulator": "accumulator blocks doubts formulas guard inputs intake plan table",
    "catalogue": (
        "companions context conventions cumulative_gain grammar items lookup metric reading "
        "signature summary"
    ),
    "events": (
        "batch digests errors event extras forks ids listing per_item printable ragged rules times"
    ),
    "inference": "days",
    "metrics": "ndcg",
    "statistics": (
        "arrays distributions exact hitrows hits intervals kernel kernel._match kernel.interface "
        "lists matching options relation statistic vocabulary"
    ),
}

SLOW = {"ast", "difflib", "hashlib", "inspect", "json", "pkgutil"}
"""Modules of Python that are for a mistake, or a save."""


def _modules(program: str) -> set[str]:
    command = [sys.executable, "-I", "-c", f"{program}\nimport sys\nprint(*sys.modules)"]
    return {*subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()}


def test_a_first_event_imports_the_modules_that_count_it_and_no_others() -> None:
    expected = {f"streameval.{room}" for room in NEEDED} | {"streameval"}
    expected |= {f"streameval.{room}.{name}" for room in NEEDED for name in NEEDED[room].split()}
    modules = _modules(FIRST_EVENT)
    assert {name for name in modules if name.partition(".")[0] == "streameval"} == expected
    assert (modules - _modules("import numpy, msgspec")) & SLOW == set()


def test_analyses_and_what_reads_files_are_imported_when_named() -> None:
    before = _modules("import streameval")
    after = _modules("import streameval\nstreameval.gap, streameval.evaluate")
    late = {"streameval.analyses.gaps.statistics", "streameval.evaluation.evaluation"}
    assert late & before == set()
    assert late <= after
