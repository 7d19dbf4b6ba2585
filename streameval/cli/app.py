"""The program `streameval`: its commands, and how it ends."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, NoReturn

import typer

from streameval.cli.check import check
from streameval.cli.compare import compare
from streameval.cli.demo import demo
from streameval.cli.dlq import dlq
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
from streameval.cli.evaluate import evaluate
from streameval.cli.explain import explain
from streameval.cli.metrics import metrics
from streameval.cli.publish import publish
from streameval.cli.run import run
from streameval.cli.simulate import simulate
from streameval.cli.skip import skip
from streameval.cli.state import state
from streameval.errors import StreamevalError

app = typer.Typer(
    name="streameval",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="First time here? `streameval demo` needs nothing but itself.",
)
for command in (demo, run, check, evaluate, compare, simulate, publish, metrics, explain, skip):
    app.command()(command)
app.add_typer(state, name="state")
app.add_typer(dlq, name="dlq")


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

    Metrics of live traffic (Kafka in, Prometheus and a page out), and the same ones of files.
    """
    del version


def main() -> NoReturn:
    """Run one command and end the process: 0 done, 1 failed while running, 2 wrongly called."""
    # Metrics of somebody's own are in modules of theirs; last, so that they stand before nothing.
    sys.path.append("")
    prepare_streams()
    sys.exit(status(sys.argv[1:]))


def status(arguments: Sequence[str]) -> int:
    """Run one command.

    Args:
        arguments: what stands after the program's name; nothing is answered by the help.

    Returns:
        The exit status. What went wrong has been said on standard error, in one line.
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
        abandon()
        tell(str(OutputError(error)))
        return FAILED
    return ended if isinstance(ended, int) else DONE
