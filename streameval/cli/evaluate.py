"""`streameval evaluate`."""

from __future__ import annotations

from typing import Annotated, Literal

from typer import Argument, Option


def evaluate(
    paths: Annotated[
        list[str],
        Argument(
            metavar="PATH...", help="Files of JSON lines: plain, .gz or .zst; - is standard input."
        ),
    ],
    *,
    metric: Annotated[
        list[str] | None, Option("--metric", "-m", help="For example ndcg@10; may be repeated.")
    ] = None,
    by: Annotated[
        list[str] | None, Option(help="Split by this field of the events; may be repeated.")
    ] = None,
    config: Annotated[
        str | None, Option(help="Take metrics, labels, catalog and [event] from this file.")
    ] = None,
    catalog: Annotated[
        str | None, Option(help="How many items there are, or a file of their ids.")
    ] = None,
    format: Annotated[  # noqa: A002  the option is called --format
        Literal["table", "json", "csv"], Option(help="How to write the readings.")
    ] = "table",
) -> None:
    """Evaluate files, with the same bits as the daemon on the same events.

    ```
    streameval evaluate events.ndjson.gz -m ndcg@10 -m hit_rate@10 --by variant
    streameval evaluate monday.ndjson tuesday.ndjson --config streameval.toml --format json
    ```

    With --config, any -m replaces the metrics of that file and any --by its labels. Invalid
    records are left out and summed up on standard error. The exit status is 1 without a valid
    event.
    """
    from streameval.cli.evaluation import Asked, evaluated  # noqa: PLC0415  only where used

    asked = Asked(metrics=metric or [], labels=by or [], config=config, catalog=catalog)
    evaluated(paths, asked, format)
