"""`streameval metrics`."""

from __future__ import annotations

from typing import Annotated, Literal

from typer import Argument, Option


def metrics(
    name: Annotated[
        str | None, Argument(help="A metric, for example ndcg or recbole:gauc.")
    ] = None,
    *,
    format: Annotated[  # noqa: A002  the option is called --format
        Literal["table", "json"], Option(help="How to write it.")
    ] = "table",
) -> None:
    """List all metrics, or document one of them.

    ```
    streameval metrics
    streameval metrics ndcg
    streameval metrics recbole:gauc
    streameval metrics --format json
    ```
    """
    from streameval.cli.documentation import document  # noqa: PLC0415  only where used

    document(name, format)
