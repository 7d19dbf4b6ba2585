"""`streameval simulate`."""

from __future__ import annotations

import sys
from typing import Annotated

from typer import Option

from streameval.cli.ending import output


def simulate(
    *,
    events: Annotated[
        int | None, Option(min=0, help="How many; without it, until the reader stops.")
    ] = 1000,
    seed: Annotated[int, Option(min=0, help="Equal seeds give equal events.")] = 0,
) -> None:
    """Write simulated events: one JSON object a line, on standard output.

    Traffic of two variants with position-biased clicks and a known true difference.

    ```
    streameval simulate --events 100000 | gzip > events.ndjson.gz
    streameval simulate | streameval evaluate - -m ctr -m ndcg@10 --by variant
    ```
    """
    from streameval.sources.options import SimulatorOptions  # noqa: PLC0415  only where used
    from streameval.sources.simulator import records  # noqa: PLC0415  only where used

    with output():
        for record in records(SimulatorOptions(seed=seed, events=events)):
            sys.stdout.buffer.write(record + b"\n")
        sys.stdout.buffer.flush()
