"""Output for terminals of any width, and for pipes."""

from __future__ import annotations

import codecs
import csv
import io
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from rich.console import Console, RenderableType
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from streameval.evaluation.offline.surroundings import Surroundings
from streameval.evaluation.shell.errors import report

_PLAIN_WIDTH = 200


def render(content: RenderableType) -> str:
    """The content as text for standard output.

    Colours appear on terminals only; box lines only if the encoding has them.
    """
    written = io.BytesIO()
    text = io.TextIOWrapper(written, sys.stdout.encoding, "backslashreplace", newline="")
    terminal = sys.stdout.isatty()
    width = None if terminal else _PLAIN_WIDTH
    console = Console(file=text, force_terminal=terminal, width=width)
    console.print(content)
    text.flush()
    lines = (line.rstrip() for line in written.getvalue().decode(text.encoding).splitlines())
    return "".join(f"{line}\n" for line in lines)


def csv_text(heads: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """CSV; floats as the shortest text that reads back equal, None as an empty cell."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(heads)
    writer.writerows(
        [json.dumps(cell) if isinstance(cell, bool | float) else cell for cell in row]
        for row in rows
    )
    return text.getvalue()


def json_text(value: object, indent: int | None = None) -> str:
    """JSON; characters outside the encoding of standard output are escaped."""
    escaped = codecs.lookup(sys.stdout.encoding).name != "utf-8"
    return json.dumps(value, indent=indent, ensure_ascii=escaped)


def quantity(count: int, noun: str) -> str:
    """A number with its noun.

    Example:
        >>> quantity(1, "record"), quantity(2_000, "record")
        ('1 record', '2,000 records')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


@contextmanager
def progress(total: int | None) -> Iterator[Callable[[int, int], None]]:
    """A progress line on standard error, if that is a terminal.

    `total`: bytes of the files, None if unknown.

    Yields:
        A callback that takes the bytes read and the events counted so far.
    """
    columns = (
        BarColumn(),
        DownloadColumn(),
        TextColumn("{task.fields[events]:,} events"),
        TextColumn("{task.fields[rate]:,.0f}/s"),
        TimeRemainingColumn(),
    )
    console = progress_console()
    with Progress(*columns, console=console, disable=console is None, transient=True) as shown:
        task = shown.add_task("", total=total, events=0, rate=0.0)

        def update(size: int, events: int) -> None:
            elapsed = shown.tasks[0].elapsed or 0.0
            rate = events / elapsed if elapsed else 0.0
            shown.update(task, completed=size, events=events, rate=rate)

        yield update


def progress_console() -> Console | None:
    """A console on standard error if that is a terminal, else None."""
    return Console(stderr=True) if sys.stderr.isatty() else None


SURROUNDINGS: Final = Surroundings(report, progress)
"""The terminal: doubts are lines on standard error, progress is a bar there."""
