"""A table that does not fit beside itself is a list for each row, and nothing of it is cut."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from streameval.analyses.experiments.words import comparison_table
from streameval.evaluation.shell.terminal import grid
from streameval.inference.text_table import TextColumn, TextTable
from tests.exporters.experiments import report


def _drawn(table: TextTable[Any], width: int) -> list[str]:
    text = io.StringIO()
    Console(file=text, width=width).print(grid(table, width))
    return [line.rstrip() for line in text.getvalue().splitlines()]


@pytest.mark.parametrize("width", [66, 80])
def test_a_narrow_terminal_shows_every_cell_whole(width: int) -> None:
    rows = report().rows
    table = comparison_table(rows)
    lines = _drawn(table, width)
    assert max(map(len, lines)) <= width
    first, *others = table.columns
    expected = []
    for row in rows:
        texts = {column.name: column.text(row) for column in others}
        verdict = texts.pop("verdict")
        expected += [first.text(row), f"verdict {verdict}"]
        expected += [f"{name} {text}" for name, text in texts.items()]
    assert [" ".join(line.split()) for line in lines] == expected


def test_a_table_that_fits_has_a_line_for_each_row_and_whole_numbers() -> None:
    columns: list[TextColumn[object]] = [
        TextColumn("metric", lambda _: "a-name-in-one-word"),
        TextColumn("value", lambda _: "1,000 of 2,000", "right"),
        TextColumn("what it is", lambda _: "words that may stand on several lines"),
    ]
    lines = _drawn(TextTable(columns, [None]), 55)
    assert max(map(len, lines)) <= 55
    cells = [[cell.strip() for cell in line.split("│")] for line in lines if "│" in line]
    assert cells[0][1:3] == ["a-name-in-one-word", "1,000 of 2,000"]
    assert " ".join(row[3] for row in cells) == "words that may stand on several lines"
