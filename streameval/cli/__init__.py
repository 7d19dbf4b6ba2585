"""The command line: one file a command."""

from streameval.cli.app import main

__all__ = ["main"]
