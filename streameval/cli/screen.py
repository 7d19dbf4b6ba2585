"""What is written for a person: to the width of a terminal, and whole where there is none."""

from __future__ import annotations

import io
import sys

from rich.console import Console, RenderableType

_PLAIN_WIDTH = 160


def printed(content: RenderableType) -> str:
    """The content as text for standard output.

    Colours are only where that is a terminal, and lines of boxes only where it can show them.
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


def progress_console() -> Console | None:
    """Where progress is shown: standard error, if it is a terminal."""
    return Console(stderr=True) if sys.stderr.isatty() else None
