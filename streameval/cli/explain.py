"""`streameval explain`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option


def explain(
    key: Annotated[
        str, Argument(metavar="REQUEST_ID", help="A request id, or a user where these are joined.")
    ],
    *,
    config: Annotated[
        Path, Option("--config", metavar="CONFIG", help="The TOML file that the daemon runs with.")
    ],
    as_json: Annotated[bool, Option("--json", help="As JSON instead of text.")] = False,
) -> None:
    """Tell what became of a list and of the interactions with it, from the saved state.

    ```
    streameval explain 7f3a-22 --config streameval.toml
    streameval explain 7f3a-22 --config streameval.toml --json
    ```

    Open lists are known, and those counted within `remember` of [attribution]; of records that
    came to nothing, the last 1,000 of each kind in each log. The exit status is 1 where
    nothing is known.
    """
    from streameval.cli.explanation import explained  # noqa: PLC0415  only where used

    explained(key, config, as_json=as_json)
