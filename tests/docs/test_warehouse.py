"""The page about warehouses runs on DuckDB, if it is installed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from tests.house.checkout import ROOT

PAGE = ROOT / "docs" / "how-to" / "warehouse-and-bi.md"


@pytest.mark.nightly
@pytest.mark.filterwarnings("default")
def test_rows_of_duckdb_are_replaced_by_a_second_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("duckdb")
    section = PAGE.read_text(encoding="utf-8").partition("\n## DuckDB\n")[2].partition("\n## ")[0]
    match = re.search(r"^ {4}import(?:.|\n)*", section, re.MULTILINE)
    assert match is not None
    code = compile(dedent(match[0]), str(PAGE), "exec")
    monkeypatch.chdir(tmp_path)
    lists = [("2026-01-05", []), ("2026-01-05", ["a"]), ("2026-01-06", ["b"]), ("2026-01-12", [])]
    events = [
        {
            "ts": f"{day}T12:00:00Z",
            "variant": "a",
            "recommendations": ["a", "b"],
            "interactions": clicks,
        }
        for day, clicks in lists
    ]
    (tmp_path / "events.ndjson").write_text("\n".join(map(json.dumps, events)))
    names: dict[str, Any] = {}
    for _ in range(2):
        exec(code, names)
        weeks = [(str(week)[:10], variant, ctr) for week, variant, ctr in names["weeks"]]
        assert weeks == [("2026-01-05", "a", pytest.approx(2 / 6)), ("2026-01-12", "a", 0)]
        assert names["warehouse"].sql("select count(*) from readings").fetchall() == [(6,)]
        names.pop("warehouse").close()
