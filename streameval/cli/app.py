"""The program `streameval`: its commands, and its exit status."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from types import MappingProxyType
from typing import Annotated, Any, Final, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from streameval.cli.ending import (
    DONE,
    FAILED,
    OutputError,
    abandon,
    prepare_streams,
    sentence,
    status_of,
    tell,
)
from streameval.errors import StreamevalError

COMMANDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "demo": "Watch three variants on simulated traffic, and which differences are real.",
        "run": "Run the daemon: read the source, count, and serve the values over HTTP.",
        "check": "Check a configuration, and print what `run` would do with it.",
        "evaluate": "Evaluate files, with the same bits as the daemon on the same events.",
        "compare": "Compare variants: is treatment better than control, and is it real?",
        "simulate": "Write simulated events: one JSON object a line, on standard output.",
        "publish": "Publish the lines of files to a Kafka topic, keyed by user.",
        "metrics": "List all metrics, or document one of them.",
        "explain": "Explain how one request or user was counted, or why it was not.",
        "skip": "Skip one record at which the daemon stops because counting it fails.",
        "state": "Inspect, verify, export and merge stores of checkpoints ([state] path).",
        "dlq": "Show dead letters, and replay their records after a fix.",
    }
)
"""Each command, a module of this package, with the first line of its help."""


class _Commands(TyperGroup):
    """Imports the module of a command only when that command is called."""

    def __init__(self, **settings: Any) -> None:
        stubs = {name: TyperCommand(name, help=line) for name, line in COMMANDS.items()}
        super().__init__(**{**settings, "commands": stubs})

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that was called, in place of its stub in the list of commands."""
        name, stub, rest = super().resolve_command(ctx, args)
        return name, stub if name is None else _loaded(name), rest


def _loaded(name: str) -> Any:
    command = getattr(import_module(f"streameval.cli.{name}"), name)
    if isinstance(command, typer.Typer):
        return typer.main.get_group(command)
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False, **_SETTINGS)
    alone.command(name)(command)
    return typer.main.get_command(alone)


_SETTINGS: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "rich_markup_mode": "markdown",
        "context_settings": {"help_option_names": ["-h", "--help"]},
    }
)

app = typer.Typer(
    name="streameval",
    cls=_Commands,
    add_completion=False,
    pretty_exceptions_enable=False,
    epilog="First time here? Run `streameval demo`.",
    **_SETTINGS,
)


def _version(wanted: bool) -> None:  # noqa: FBT001  typer hands it over by position
    if wanted:
        from importlib.metadata import version  # noqa: PLC0415  slow, and rarely asked for

        typer.echo(f"streameval {version('streameval')}")
        raise typer.Exit


@app.callback()
def program(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Online evaluation of recommender systems, from a stream of recommendations and interactions.

    Live traffic (Kafka in, Prometheus and a page out) and files give the same values.
    """
    del version


def main() -> NoReturn:
    """Run one command and end the process: 0 done, 1 failed while running, 2 wrongly called."""
    # Users' own metrics are modules in the working folder; last, so that they hide nothing.
    sys.path.append("")
    prepare_streams()
    sys.exit(status(sys.argv[1:]))


def status(arguments: Sequence[str]) -> int:
    """Run one command.

    Args:
        arguments: without the program's name; none print the help.

    Returns:
        The exit status; an error has been printed on standard error, in one line.
    """
    try:
        ended = app(list(arguments) or ["--help"], prog_name="streameval", standalone_mode=False)
    except typer.TyperException as error:
        tell(sentence(error))
        return error.exit_code
    except StreamevalError as error:
        tell(str(error))
        return status_of(error)
    except OSError as error:
        if error.filename is not None:
            tell(f"{error.filename}: {(error.strerror or str(error)).lower()}; check the path.")
        else:
            abandon()
            tell(str(OutputError(error)))
        return FAILED
    return ended if isinstance(ended, int) else DONE
