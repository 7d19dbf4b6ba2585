"""A table for people, whatever draws it: a terminal, the page, a notebook, LaTeX."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Generic, Literal, NamedTuple, TypeVar

T = TypeVar("T")


def _nothing(_row: object) -> str:
    return ""


def _no_more(_row: object) -> Sequence[tuple[str, str]]:
    return ()


class ForestPlot(NamedTuple):
    """A value with its bounds on a scale that all rows share.

    Attributes:
        value: None where there is none, as are the bounds.
        ends: both ends of the scale; a bound beyond is cut there.
        words: the same for readers who do not see it.

    Example:
        >>> ForestPlot(0.5, 0.0, 3.0, ends=(-1.0, 1.0), words="").position(3.0)
        100.0
    """

    value: float | None
    low: float | None
    high: float | None
    ends: tuple[float, float]
    words: str

    def position(self, number: float) -> float:
        """Position of a number on the axis: from -100 at the left end to 100 at the right one."""
        left, right = self.ends
        if left == right:
            return 0.0
        return max(-100.0, min(100.0, 200.0 * (number - left) / (right - left) - 100.0))

    def holds(self, number: float) -> bool:
        """True if a number is on the scale."""
        return self.ends[0] <= number <= self.ends[1]


class TextColumn(NamedTuple, Generic[T]):
    """A column, which says how its cells are made from rows.

    Attributes:
        name: its head.
        text: of a row.
        align: "right" for numbers.
        tone: of a row: "better", "worse", "open" for another verdict, or "" for plain text.
        aside: of a row: what follows the text with less weight.
        more: of a row: sentences with their tones, shown below the text where there is room.
        plot: of a row, drawn above the text where that is possible.
        is_data: whether the name is a text of the user, which is never capitalised.
    """

    name: str
    text: Callable[[T], str]
    align: Literal["left", "right"] = "left"
    tone: Callable[[T], str] = _nothing
    aside: Callable[[T], str] = _nothing
    more: Callable[[T], Sequence[tuple[str, str]]] = _no_more
    plot: Callable[[T], ForestPlot] | None = None
    is_data: bool = False

    @property
    def is_long(self) -> bool:
        """True if its cells have sentences."""
        return self.more is not _no_more


class TextTable(NamedTuple, Generic[T]):
    """Rows of any kind, with the columns that show them.

    `group`: of a row; adjacent rows of one group have its name above them where there is room.

    Example:
        >>> table = TextTable([TextColumn("metric", str), TextColumn("name", str.upper)], ["mrr"])
        >>> table.names, table.texts
        (['metric', 'name'], [['mrr', 'MRR']])
    """

    columns: Sequence[TextColumn[T]]
    rows: Sequence[T]
    title: str = ""
    group: Callable[[T], str] | None = None

    def groups(self) -> Iterator[tuple[str, list[T]]]:
        """The name of each group with its rows, which are adjacent; one without a name if none."""
        for name, rows in groupby(self.rows, self.group or _nothing):
            yield name, list(rows)

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
