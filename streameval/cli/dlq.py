"""`streameval dlq`: a look at dead letters, and sending their records again after a fix."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer
from typer import Argument, Option
from typer.core import TyperGroup

_DEFAULT = "show"


class _ShowByDefault(TyperGroup):
    """`dlq CONFIG` is `dlq show CONFIG`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in {*self.commands, *ctx.help_option_names}:
            args = [_DEFAULT, *args]
        return super().parse_args(ctx, args)


dlq = typer.Typer(
    cls=_ShowByDefault,
    subcommand_metavar="CONFIG | replay CONFIG",
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)

ConfigPath: TypeAlias = Annotated[
    Path, Argument(metavar="CONFIG", help="The TOML file that the daemon runs with.")
]


@dlq.callback()
def program() -> None:
    """Look at records that were no events, and send them again after a fix.

    ```
    streameval dlq streameval.toml
    streameval dlq replay streameval.toml --reason missing_field
    ```
    """


@dlq.command(_DEFAULT)
def show(
    config: ConfigPath,
    *,
    as_json: Annotated[bool, Option("--json", help="As JSON instead of a table.")] = False,
) -> None:
    """Tell why records are dead letters: reasons with counts, times, and the last few of each.

    ```
    streameval dlq streameval.toml
    streameval dlq streameval.toml --json
    ```

    A record counts once, however often its letter was written.
    """
    from streameval.cli.dlq_show import shown  # noqa: PLC0415  only where used

    shown(config, as_json=as_json)


@dlq.command()
def replay(
    config: ConfigPath,
    *,
    reason: Annotated[
        list[str] | None, Option(metavar="REASON", help="These only; may be repeated.")
    ] = None,
    offset: Annotated[
        list[str] | None,
        Option(metavar="TOPIC/PARTITION/OFFSET", help="This record only; may be repeated."),
    ] = None,
    dry_run: Annotated[bool, Option("--dry-run", help="Say how many, and stop.")] = False,
) -> None:
    """Write the records of dead letters to their topics again, each to the partition it was in.

    ```
    streameval dlq replay streameval.toml
    streameval dlq replay streameval.toml --reason invalid_time --dry-run
    streameval dlq replay streameval.toml --offset events/3/14
    ```

    Key, value and headers stay as they were; the header `streameval.original` names the record
    that each one was copied from. Correct what made the records invalid first, and restart the
    daemon; otherwise they are rejected again. A record that is replayed twice counts twice, unless
    events have ids and the configuration has `dedup`.
    """
    from streameval.cli.dlq_replay import replayed  # noqa: PLC0415  only where used

    replayed(config, reason or [], offset or [], dry_run=dry_run)
