"""`streameval state`: inspect, verify, export and merge stores of checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import typer
from typer import Argument, Option

_ABOUT = """Inspect, verify, export and merge folders of checkpoints ([state] path).

```
streameval state show state
streameval state verify state
```
"""

state = typer.Typer(
    help=_ABOUT,
    no_args_is_help=True,
    rich_markup_mode="markdown",
)

Paths: TypeAlias = Annotated[
    list[Path], Argument(metavar="PATH...", help="Folders as [state] path names them.")
]


@state.command()
def show(
    paths: Paths,
    *,
    format: Annotated[  # noqa: A002  the option is called --format
        Literal["table", "json"], Option(help="How to write it.")
    ] = "table",
    as_json: Annotated[bool, Option("--json", help="Short for --format json.")] = False,
) -> None:
    """Tell what each partition's newest sound checkpoint holds.

    ```
    streameval state show state
    streameval state show state --json
    ```
    """
    from streameval.cli.state_show import shown  # noqa: PLC0415  only where used

    shown(paths, "json" if as_json else format)


@state.command()
def verify(paths: Paths) -> None:
    """Check every byte of every checkpoint; status 1 and a sentence for each fault.

    ```
    streameval state verify state
    ```
    """
    from streameval.cli.state_verify import verified  # noqa: PLC0415  only where used

    verified(paths)


@state.command()
def export(
    paths: Paths,
    *,
    partition: Annotated[
        list[str] | None,
        Option(metavar="TOPIC/NUMBER", help="Only this one; may be given several times."),
    ] = None,
    config: Annotated[
        Path | None,
        Option(metavar="CONFIG", help="Read other metrics, or files that have moved."),
    ] = None,
    format: Annotated[  # noqa: A002  the option is called --format
        Literal["table", "json", "csv"], Option(help="How to write it.")
    ] = "json",
) -> None:
    """Write the readings of all states together: every window, and the lifetime.

    Reads what is saved and nothing else; a daemon may be running on the folder.

    ```
    streameval state export state
    streameval state export eu/state us/state --format table
    ```
    """
    from streameval.cli.state_export import exported  # noqa: PLC0415  only where used

    exported(paths, partitions=partition or (), config=config, written_as=format)


@state.command()
def merge(
    paths: Paths,
    *,
    into: Annotated[Path, Option(metavar="PATH", help="A folder that is not there yet.")],
) -> None:
    """Bring several stores of one group together in a new one: the highest offset wins.

    For replicas that kept their state on disks of their own, before they share a folder.

    ```
    streameval state merge node-1/state node-2/state --into shared/state
    ```
    """
    from streameval.cli.state_merge import merged  # noqa: PLC0415  only where used

    merged(paths, into)
