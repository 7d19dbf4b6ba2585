"""Output for terminals of any width, and for pipes."""

from __future__ import annotations

import codecs
import csv
import io
import json
import re
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, redirect_stdout
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn
from rich.progress import TextColumn as ProgressText
from rich.segment import Segment
from rich.table import Table as Grid
from rich.text import Text

from streameval.evaluation.arguments import Note, Surroundings, for_command
from streameval.evaluation.shell.exits import output, report
from streameval.events.printable import printable, printable_json
from streameval.inference.text_table import T, TextColumn, TextTable

_DEFAULT_WIDTH = 200


def draw_text(*parts: RenderableType | TextTable[Any]) -> str:
    """Lines, tables and the like as text for standard output.

    Text of records and states is escaped, whatever a part quotes of it. Colours appear on
    terminals only; box lines only if the encoding has them.

    `parts`: of these, a `str` is a line, which is not wrapped.
    """
    return "".join(
        f"{printable(part)}\n" if isinstance(part, str) else _draw(part) for part in parts
    )


_COLOURS: Final = {"better": "green", "worse": "red"}


def grid(table: TextTable[T], width: int) -> RenderableType:
    """A table; a list for each row where it does not fit into so many characters."""
    widths = [_least_width(column, table.rows) for column in table.columns]
    room = width - 1 - sum(column_width + 3 for column_width in widths)
    if room < 0:
        return _lists(table)
    drawn = Grid(header_style="bold", title=table.title or None, title_justify="left")
    for column, least in zip(table.columns, widths, strict=True):
        name = printable(column.name)
        cells = [name, *(_cell(column, row).plain for row in table.rows)]
        more = min(room, max(map(cell_len, cells)) - least)
        room -= more
        head = Text(name)
        drawn.add_column(head, overflow="fold", justify=column.align, width=least + more)
    for row in table.rows:
        drawn.add_row(*(_cell(column, row) for column in table.columns))
    return drawn


def _lists(table: TextTable[T]) -> RenderableType:
    """The subject of each row, and a line for each other column that has a text."""
    drawn = Grid.grid(padding=(0, 2), collapse_padding=True)
    drawn.title, drawn.title_justify, drawn.title_style = table.title or None, "left", "italic"
    first, *others = table.columns
    # Verdicts first: they are what a reader looks for.
    others.sort(key=lambda column: all(not column.tone(row) for row in table.rows))
    for row in table.rows:
        drawn.add_row(Text.assemble(_cell(first, row), style="bold"))
        for column in others:
            if text := _cell(column, row):
                drawn.add_row(Text.assemble("  ", (printable(column.name), "dim")), text)
    return drawn


def _least_width(column: TextColumn[T], rows: Iterable[T]) -> int:
    """Characters that a column needs: for its longest word, and for numbers whole."""
    cells = [_cell(column, row).plain for row in rows]
    words = printable(column.name).split() + (
        cells if column.align == "right" else " ".join(cells).split()
    )
    return max(map(cell_len, words), default=0)


def _cell(column: TextColumn[T], row: T) -> Text:
    text = (printable(column.text(row)), _COLOURS.get(column.tone(row), ""))
    return Text.assemble(text, (printable(column.aside(row)), "dim"))


def _draw(content: RenderableType | TextTable[Any]) -> str:
    written = io.BytesIO()
    text = io.TextIOWrapper(written, sys.stdout.encoding, "backslashreplace", newline="")
    terminal = sys.stdout.isatty()
    width = None if terminal else _DEFAULT_WIDTH
    # Markup and codes of emoji in a name are part of the name.
    console = Console(file=text, force_terminal=terminal, width=width, markup=False, emoji=False)
    if isinstance(content, TextTable):
        content = grid(content, console.width)
    console.print(_Printable(content))
    text.flush()
    lines = (line.rstrip() for line in written.getvalue().decode(text.encoding).splitlines())
    return "".join(f"{line}\n" for line in lines)


class _Printable(NamedTuple):
    """A part whose text is escaped after it is laid out, before it has colours."""

    content: RenderableType

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        for text, style, control in console.render(self.content, options):
            yield Segment("\n".join(map(printable, text.split("\n"))), style, control)


def _csv_text(records: Iterable[Mapping[str, object]]) -> str:
    """CSV of records with the same keys; lists, which do not fit a cell, are left out.

    Floats are the shortest text that reads back equal, None is an empty cell. A text that a
    spreadsheet would compute has an apostrophe before it: the author of a label value must not
    choose what the reader of a report runs. JSON has each text as it is. Text is escaped on a
    terminal only, since programs read CSV.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for index, record in enumerate(records):
        cells = {key: value for key, value in record.items() if not isinstance(value, list | tuple)}
        if index == 0:
            writer.writerow(map(_csv_cell, cells))
        writer.writerow(map(_csv_cell, cells.values()))
    return text.getvalue()


_COMPUTED: Final = re.compile(r"\s*[=+\-@|\uff1d\uff0b\uff0d\uff20]|[\t\r]")
"""Beginning of a cell that spreadsheets compute; LibreOffice and Excel skip blanks before it, and
in some languages take full-width characters for the plain ones."""


def _csv_cell(value: object) -> object:
    if isinstance(value, bool | float):
        return json.dumps(value)
    if not isinstance(value, str):
        return value
    if _COMPUTED.match(value):
        try:
            float(value)
        except ValueError:
            value = f"'{value}"
    return printable(value) if sys.stdout.isatty() else value


class Forms(NamedTuple):
    """A result in the formats of --format; each is made when it is written.

    `csv`: none for a result that is not a table. `others`: name of a format -> its text.
    """

    table: Callable[[], Iterable[RenderableType | TextTable[Any]]]
    json: Callable[[], object]
    csv: Callable[[], Iterable[Mapping[str, object]]] = tuple
    others: Mapping[str, Callable[[], str]] = MappingProxyType({})

    def write(self, name: str, to: Path | None = None) -> None:
        """Write one of them to standard output, or to a file."""
        texts: Mapping[str, Callable[[], str]] = {
            "table": lambda: draw_text(*self.table()),
            "json": lambda: f"{_json_text(self.json())}\n",
            "csv": lambda: _csv_text(self.csv()),
            **self.others,
        }
        with nullcontext() if to is None else _in_file(to), output():
            sys.stdout.write(texts[name]())


@contextmanager
def _in_file(path: Path) -> Iterator[None]:
    """A file instead of standard output, also for what depends on it, such as colours."""
    with path.open("w", encoding="utf-8", newline="") as file, redirect_stdout(file):
        yield


def _json_text(value: object) -> str:
    """JSON; escaped is what standard output cannot encode, or what controls a terminal."""
    escaped = codecs.lookup(sys.stdout.encoding).name != "utf-8"
    return printable_json(json.dumps(value, indent=1, ensure_ascii=escaped))


def command_text() -> dict[str, str]:
    """Time and command of a report."""
    now = datetime.now(UTC)
    command = shlex.join(["streameval", *sys.argv[1:]])
    return {"date": f"{now:%Y-%m-%d %H:%M} UTC", "command": command}


def quantity(count: int, noun: str) -> str:
    """A number with its noun.

    Example:
        >>> quantity(1, "record"), quantity(2_000, "record")
        ('1 record', '2,000 records')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


@contextmanager
def progress(total: int | None) -> Iterator[Callable[[int, int], None]]:
    """A progress line on standard error if that is a terminal, else a line a minute.

    `total`: bytes of the files, None if unknown.

    Yields:
        A callback that takes the bytes read and the events counted so far.
    """
    columns = (
        BarColumn(),
        DownloadColumn(),
        ProgressText("{task.fields[events]:,} events"),
        ProgressText("{task.fields[rate]:,.0f}/s"),
        TimeRemainingColumn(),
    )
    console = progress_console()
    if console is None:
        yield MinuteLines(total)
        return
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=total, events=0, rate=0.0)

        def update(size: int, events: int) -> None:
            elapsed = bar.tasks[0].elapsed or 0.0
            rate = events / elapsed if elapsed else 0.0
            bar.update(task, completed=size, events=events, rate=rate)

        yield update


class MinuteLines:
    """Progress as lines on standard error, at most one a minute.

    `total`: bytes of the files, None if unknown. `clock`: monotonic, seconds.
    """

    def __init__(self, total: int | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._total, self._clock, self._reported_at = total, clock, clock()

    def __call__(self, size: int, events: int) -> None:
        """Say how far it is, if a minute has passed since the last line."""
        now = self._clock()
        if now - self._reported_at >= 60.0:
            self._reported_at = now
            share = f" ({size / self._total:.0%})" if self._total else ""
            report(f"{size / 1e6:,.1f} MB read{share}, {events:,} events")


def progress_console() -> Console | None:
    """A console on standard error if that is a terminal, else None."""
    return Console(stderr=True) if sys.stderr.isatty() else None


def note(warning: Note | str) -> None:
    """Write a warning to standard error, with the options of the command line."""
    report(for_command(warning))


SURROUNDINGS: Final = Surroundings(note, progress)
"""The terminal: warnings are lines on standard error, progress is a bar there."""
