"""The command line: one file a command."""

from __future__ import annotations

from typing import NoReturn


def main() -> NoReturn:
    """Run one command, and end the process."""
    from streameval.cli.app import main as program  # noqa: PLC0415  processes that count need none

    program()
