"""Recipes of docs/how-to/distribute.md run unchanged, if their engine is installed."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from pyarrow import parquet

from streameval.evaluation.partials import merged, partials
from tests.partials.test_partials import events, states, table

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "distribute.md"
ENGINES = {"Ray Data": "ray.data", "Beam": "apache_beam", "DuckDB": "duckdb"}

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.timeout(600),
    # Engines warn about properties of the machine.
    pytest.mark.filterwarnings("default"),
]


def recipe(heading: str) -> str:
    """The indented block under a heading."""
    section = PAGE.read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    match = re.search(r"(?:^ {4}.*\n|^\n)+", section, re.MULTILINE)
    assert match is not None
    return dedent(match[0])


@pytest.mark.parametrize("heading", ENGINES)
def test_a_recipe_gives_the_bits_of_one_process(
    heading: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip(ENGINES[heading], reason=f"needs {ENGINES[heading]}")
    rows = [row for row in events(400) if row["variant"] is not None]
    columns = ["recommendations", "interactions", "variant"]
    (tmp_path / "logs").mkdir()
    for number in range(4):
        part = table(rows[number::4]).select(columns)
        parquet.write_table(part, tmp_path / "logs" / f"{number}.parquet")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(compile(recipe(heading), str(PAGE), "exec"), names)
    expected = merged(partials([table(rows)], "ndcg@2", "ctr", by=["variant"]))
    assert states(names["found"]) == states(expected)
