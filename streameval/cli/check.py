"""`streameval check`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option


def check(
    config: Annotated[Path, Argument(metavar="CONFIG", help="A TOML file.")],
    *,
    connect: Annotated[
        bool, Option("--connect", help="Also try the source, and the address to listen on.")
    ] = False,
) -> None:
    """Say whether a configuration is valid, and what `run` would do with it.

    ```
    streameval check streameval.toml --connect
    ```

    The least that a configuration says:

    ```
    metrics = ["ctr", "ndcg@10"]
    labels = ["variant"]

    [source]
    type = "kafka"
    topics = ["recommendation-events"]
    [source.kafka]
    bootstrap_servers = "127.0.0.1:9092"
    ```
    """
    from streameval.cli.checking import checked  # noqa: PLC0415  only where used

    checked(config, connect=connect)
