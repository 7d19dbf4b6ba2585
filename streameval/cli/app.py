"""The program `streameval`: its commands and its exit status."""

from __future__ import annotations

import signal
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from importlib import import_module
from types import MappingProxyType
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

from streameval.evaluation.arguments import lines_for_command
from streameval.evaluation.shell.exits import (
    DONE,
    FAILED,
    USAGE_ERROR,
    discard_output,
    out_of_memory,
    output_error,
    report,
    status_of,
    usage_message,
)
from streameval.events.errors import StreamevalError
from streameval.events.out_of_memory import is_out_of_memory

COMMANDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "demo": "Run a demo: three variants on simulated traffic, with live comparisons.",
        "run": "Run the daemon: read the source, count, and serve the values over HTTP.",
        "serve": "Serve the values that replicas or engines have stored, and count nothing.",
        "check": "Check a configuration, and print what `run` would do with it.",
        "rules": "Write rules and alerts for Prometheus, with the names of a configuration.",
        "dashboards": "Write dashboards for Grafana, with the names of a configuration.",
        "evaluate": "Evaluate files; values equal the daemon's on the same events, bit for bit.",
        "compare": "Compare variants: is treatment better than control, and is it real?",
        "gaps": "Compare the values of a field: which is served worst, and by how much at least?",
        "changes": "Find changes: did it get worse, really, and since when?",
        "plan": "Plan an experiment: how many users and days does it take to find a lift?",
        "simulate": "Write simulated events to standard output: one JSON object per line.",
        "publish": "Publish the lines of files to a Kafka topic, keyed by user.",
        "metrics": "List all metrics, or describe one of them.",
        "explain": "Explain how one request or user was counted, or why it was not.",
        "state": "Inspect, verify, export and merge stores of checkpoints ([state] path).",
        "dlq": "Show dead letters, and replay their records after a fix.",
    }
)
"""Command -> the first line of its help, for a list that imports none of them."""

_ELSEWHERE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "evaluate": "streameval.evaluation.shell.evaluate",
        "compare": "streameval.analyses.experiments.command",
        "gaps": "streameval.analyses.gaps.command",
        "changes": "streameval.analyses.changes.command",
        "plan": "streameval.analyses.experiments.plan_command",
    }
)
"""Command -> its module, which has a function of its name; others are beside this one."""


class _LazyGroup(TyperGroup):
    """Imports the module of a command only when that command is called."""

    def __init__(self, **settings: Any) -> None:
        stubs = {name: TyperCommand(name, help=text) for name, text in COMMANDS.items()}
        super().__init__(**{**settings, "commands": stubs})

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Replace the stub of the called command with the real command."""
        name, stub, rest = super().resolve_command(ctx, args)
        return name, stub if name is None else _load_command(name), rest


def _load_command(name: str) -> Any:
    function = getattr(import_module(_ELSEWHERE.get(name, f"streameval.cli.{name}")), name)
    if isinstance(function, typer.Typer):
        command: Any = typer.main.get_group(function)
    else:
        alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False, **_SETTINGS)
        alone.command(name)(function)
        command = typer.main.get_command(alone)
    for subcommand in (command, *getattr(command, "commands", {}).values()):
        context = typer.Context(subcommand, **_SETTINGS["context_settings"])
        for parameter in (*subcommand.params, subcommand.get_help_option(context)):
            parameter.display_type_rich = partial(_value_word, parameter)
    return command


_WORDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        **dict.fromkeys(("by", "label", "mix", "rollouts", "time", "within"), "FIELD"),
        **dict.fromkeys(("exclude", "recommendations", "truth", "users"), "PATH"),
        **dict.fromkeys(("config", "output"), "FILE"),
        **dict.fromkeys(("delimiter", "separator"), "SIGN"),
        "bootstrap_servers": "HOST:PORT,...",
        "catalog": "NUMBER or FILE",
        "control": "VARIANT",
        "every": "LENGTH",
        "metric": "METRIC",
        "topic": "TOPIC",
    }
)
"""Name of an option -> what its value is, in the help; others have it beside their declaration."""


def _value_word(parameter: Any, ctx: Any) -> str:
    """The kind of an option's value; typer would print its type as Python writes it."""
    if parameter.param_type_name == "argument" or getattr(parameter, "is_flag", False):
        return ""
    kind = type(parameter).display_type(parameter, ctx).strip("<>")
    word = "NUMBER" if kind.endswith("range") else kind
    return str(parameter.metavar or _WORDS.get(parameter.name, word))


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
    epilog="First time here? Run `streameval demo`. `streameval help COMMAND` explains one.",
    **_SETTINGS,
)


def _version(is_requested: bool) -> None:  # noqa: FBT001  typer passes it by position
    if is_requested:
        from importlib.metadata import version  # noqa: PLC0415  slow, and rarely needed

        from streameval.statistics.kernel import KERNEL  # noqa: PLC0415  only to name it

        typer.echo(f"streameval {version('streameval')} (kernel: {KERNEL})")
        raise typer.Exit


@app.callback()
def program(
    *,
    version: Annotated[
        bool,
        typer.Option(
            *("--version", "-V"),
            callback=_version,
            is_eager=True,
            help="Print version and kernel.",
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
        arguments: without the program's name; an empty sequence prints the help, and `help COMMAND`
            that of a command.

    Returns:
        The exit status. An error is printed on standard error, in one line; an interrupt in a word.
    """
    first, *rest = arguments or ["help"]
    named = [*rest, "--help"] if first == "help" else arguments
    try:
        ended = app(list(named), prog_name="streameval", standalone_mode=False)
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
    except (ImportError, MemoryError, SystemError) as error:
        if not is_out_of_memory(error):
            raise
        report(out_of_memory(error))
        return FAILED
    except OSError as error:
        if error.filename is not None:
            report(f"{error.filename}: {(error.strerror or str(error)).lower()}; check the path.")
        else:
            discard_output()
            report(str(output_error(error)))
        return FAILED
    if ended == _INTERRUPTED:
        report("interrupted")
    return ended if isinstance(ended, int) else DONE
