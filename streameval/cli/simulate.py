"""`streameval simulate`."""

from __future__ import annotations

from typing import Annotated

from typer import Option


def simulate(
    *,
    events: Annotated[
        int | None,
        Option(min=0, help="How many; else 1000, or at a pace until the reader stops."),
    ] = None,
    seed: Annotated[int, Option(min=0, help="Equal seeds give equal events.")] = 0,
    events_per_second: Annotated[
        float | None,
        Option(min=0.1, max=1_000_000, help="Live: at this pace, each happening as it is written."),
    ] = None,
) -> None:
    """Write simulated events: one JSON object a line, on standard output.

    Traffic of two variants with position-biased clicks and a known true difference.

    ```
    streameval simulate --events 100000 | gzip > events.ndjson.gz
    streameval simulate | streameval evaluate - -m ctr -m ndcg@10 --by variant
    streameval simulate --events-per-second 50 | streameval publish - ...
    ```
    """
    from streameval.cli.simulation import simulated  # noqa: PLC0415  only where used

    simulated(events=events, seed=seed, pace=events_per_second)
