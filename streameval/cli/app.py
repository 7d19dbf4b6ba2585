"""The program `streameval`: its commands and its exit status."""

from __future__ import annotations

import signal
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from types import MappingProxyType
from typing import Annotated, Any, Final, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from streameval.evaluation.options import lines_for_command
from streameval.evaluation.shell.errors import (
    DONE,
    FAILED,
    USAGE_ERROR,
    OutputError,
    discard_output,
    report,
    status_of,
    usage_message,
)
from streameval.events.errors import StreamevalError


class _Command(NamedTuple):
    """A command: its module, which has a function of its name, and the first line of its help."""

    module: str
    help: str


COMMANDS: Final[Mapping[str, _Command]] = MappingProxyType(
    {
        "demo": _Command(
            "streameval.cli.demo",
            "Run a demo: three variants on simulated traffic, with live comparisons.",
        ),
        "run": _Command(
            "streameval.cli.run",
            "Run the daemon: read the source, count, and serve the values over HTTP.",
        ),
        "serve": _Command(
            "streameval.cli.serve",
            "Serve the values of all replicas: read the store that they share, and count nothing.",
        ),
        "check": _Command(
            "streameval.cli.check", "Check a configuration, and print what `run` would do with it."
        ),
        "evaluate": _Command(
            "streameval.evaluation.shell.evaluate",
            "Evaluate files; values equal the daemon's on the same events, bit for bit.",
        ),
        "compare": _Command(
            "streameval.analyses.experiments.command",
            "Compare variants: is treatment better than control, and is it real?",
        ),
        "gaps": _Command(
            "streameval.analyses.gaps.command",
            "Compare the values of a field: which is served worst, and by how much at least?",
        ),
        "changes": _Command(
            "streameval.analyses.changes.command",
            "Find changes: did it get worse, really, and since when?",
        ),
        "plan": _Command(
            "streameval.analyses.experiments.plan_command",
            "Plan an experiment: how many users and days does it take to find a lift?",
        ),
        "simulate": _Command(
            "streameval.cli.simulate",
            "Write simulated events to standard output: one JSON object per line.",
        ),
        "publish": _Command(
            "streameval.cli.publish", "Publish the lines of files to a Kafka topic, keyed by user."
        ),
        "metrics": _Command(
            "streameval.cli.metrics",
            "List all metrics, or describe one of them.",
        ),
        "explain": _Command(
            "streameval.cli.explain",
            "Explain how one request or user was counted, or why it was not.",
        ),
        "state": _Command(
            "streameval.cli.state",
            "Inspect, verify, export and merge stores of checkpoints ([state] path).",
        ),
        "dlq": _Command(
            "streameval.cli.dlq", "Show dead letters, and replay their records after a fix."
        ),
    }
)
"""Name -> command. A module is imported when its command is called."""


class _LazyGroup(TyperGroup):
    """Imports the module of a command only when that command is called."""

    def __init__(self, **settings: Any) -> None:
        stubs = {name: TyperCommand(name, help=known.help) for name, known in COMMANDS.items()}
        super().__init__(**{**settings, "commands": stubs})

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Replace the stub of the called command with the real command."""
        name, stub, rest = super().resolve_command(ctx, args)
        return name, stub if name is None else _loaded(name), rest


def _loaded(name: str) -> Any:
    command = getattr(import_module(COMMANDS[name].module), name)
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
    cls=_LazyGroup,
    pretty_exceptions_enable=False,
    epilog="First time here? Run `streameval demo`.",
    **_SETTINGS,
)


def _version(wanted: bool) -> None:  # noqa: FBT001  typer passes it by position
    if wanted:
        from importlib.metadata import version  # noqa: PLC0415  slow, and rarely needed

        from streameval.statistics.kernel import KERNEL  # noqa: PLC0415  likewise

        typer.echo(f"streameval {version('streameval')} (kernel: {KERNEL})")
        raise typer.Exit


@app.callback()
def program(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Print version and kernel."
        ),
    ] = False,
) -> None:
    """Online evaluation of recommender systems from recommendations and interactions.

    Live traffic (Kafka to Prometheus and a web page) and files give the same values.
    """
    del version


_INTERRUPTED: Final = 128 + signal.SIGINT
"""What typer returns for KeyboardInterrupt, as a shell does."""


def status(arguments: Sequence[str]) -> int:
    """Run one command.

    Args:
        arguments: without the program's name; an empty sequence prints the help.

    Returns:
        The exit status. An error is printed on standard error, in one line; an interrupt in a word.
    """
    try:
        ended = app(list(arguments) or ["--help"], prog_name="streameval", standalone_mode=False)
    except typer.TyperException as error:
        report(usage_message(error))
        return error.exit_code
    except StreamevalError as error:
        report(*lines_for_command(error))
        return status_of(error)
    except ModuleNotFoundError as error:
        if error.name not in sys.stdlib_module_names:
            raise
        report(
            f"the daemon needs Linux or macOS (no module '{error.name}' here); use WSL or a "
            "container. Files are evaluated and compared on any system."
        )
        return USAGE_ERROR
    except OSError as error:
        if error.filename is not None:
            report(f"{error.filename}: {(error.strerror or str(error)).lower()}; check the path.")
        else:
            discard_output()
            report(str(OutputError(error)))
        return FAILED
    if ended == _INTERRUPTED:
        report("interrupted")
    return ended if isinstance(ended, int) else DONE
