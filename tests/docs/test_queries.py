"""Prometheus parses every query in the documents."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.markdown import indented, pages
from tests.prometheus.server import program

pytestmark = pytest.mark.prometheus


def _queries(text: str) -> Iterator[str]:
    """Lines that begin with a query, each with the more indented lines below it."""
    lines = list(indented(text))
    for number, line in enumerate(lines):
        if not line.startswith(" ") and re.match(r"sum |sum\(|rate\(|streameval_", line):
            rest = lines[number + 1 :]
            end = next((i for i, each in enumerate(rest) if not each.startswith(" ")), len(rest))
            yield " ".join([line, *(each.strip() for each in rest[:end])])


def _checked(queries: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    rules = [f"    - record: q{n}\n      expr: '{query}'" for n, query in enumerate(queries)]
    path = folder / "rules.yml"
    path.write_text("\n".join(["groups:\n- name: a\n  rules:", *rules, ""]), encoding="utf-8")
    command = [program("promtool"), "check", "rules", str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_prometheus_parses_every_query(tmp_path: Path) -> None:
    found = [query for page in pages() for query in _queries(page.read_text(encoding="utf-8"))]
    assert len(found) > 5
    done = _checked(found, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
