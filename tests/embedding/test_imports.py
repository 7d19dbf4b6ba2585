"""What a program pays for that imports the package and counts: which modules, and no clock."""

from __future__ import annotations

import subprocess
import sys

FIRST_EVENT = """
import streameval
accumulator = streameval.Accumulator("ndcg@10")
accumulator.update(["a", "b"], ["b"])
"""

ROOMS = {"accumulator", "catalogue", "events", "inference", "metrics", "statistics"}
"""Packages that count, and the module that must be there when memory has run out."""

SLOW = {"ast", "difflib", "hashlib", "inspect", "json", "pkgutil"}
"""Modules of Python that are for a mistake, or a save."""


def _modules(program: str) -> set[str]:
    command = [sys.executable, "-I", "-c", f"{program}\nimport sys\nprint(*sys.modules)"]
    return {*subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()}


def test_a_first_event_imports_the_packages_that_count_it_and_no_other_metric() -> None:
    modules = _modules(FIRST_EVENT)
    ours = {tuple(name.split(".")[1:]) for name in modules if name.startswith("streameval.")}
    assert {name[0] for name in ours} == ROOMS
    assert {name for name in ours if name[0] == "metrics"} == {("metrics",), ("metrics", "ndcg")}
    assert (modules - _modules("import numpy, msgspec")) & SLOW == set()


def test_analyses_and_what_reads_files_are_imported_when_named() -> None:
    before = _modules("import streameval")
    after = _modules("import streameval\nstreameval.gap, streameval.evaluate")
    late = {"streameval.analyses.gaps.statistics", "streameval.evaluation.evaluation"}
    assert late & before == set()
    assert late <= after
