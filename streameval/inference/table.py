"""A table for people, whatever draws it: a terminal, the page, a notebook, LaTeX."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, Literal, NamedTuple, TypeVar

T = TypeVar("T")


def _nothing(_row: object) -> str:
    return ""


class TextColumn(NamedTuple, Generic[T]):
    """A column, which says how its cells are made from rows.

    Attributes:
        name: its head.
        text: of a row.
        align: "right" for numbers.
        tone: of a row: "better", "worse", or anything else for none.
        aside: of a row: what follows the text with less weight.
    """

    name: str
    text: Callable[[T], str]
    align: Literal["left", "right"] = "left"
    tone: Callable[[T], str] = _nothing
    aside: Callable[[T], str] = _nothing


class TextTable(NamedTuple, Generic[T]):
    """Rows of any kind, with the columns that show them.

    Example:
        >>> table = TextTable([TextColumn("metric", str), TextColumn("name", str.upper)], ["mrr"])
        >>> table.names, table.texts
        (['metric', 'name'], [['mrr', 'MRR']])
    """

    columns: Sequence[TextColumn[T]]
    rows: Sequence[T]
    title: str = ""

    @property
    def names(self) -> list[str]:
        """The heads of the columns."""
        return [column.name for column in self.columns]

    @property
    def texts(self) -> list[list[str]]:
        """The text of every cell, by row."""
        return [
            [f"{column.text(row)}{column.aside(row)}" for column in self.columns]
            for row in self.rows
        ]
