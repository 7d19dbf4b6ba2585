"""The command line: one module per command."""

from __future__ import annotations

from typing import NoReturn


def main() -> NoReturn:
    """Run one command and end the process."""
    from streameval.cli.app import main as program  # noqa: PLC0415  worker processes need no app

    program()
