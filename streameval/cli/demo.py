"""`streameval demo`."""

from __future__ import annotations

from typing import Annotated

from typer import Option

from streameval.cli.ending import WrongCallError


def demo(
    *,
    events_per_second: Annotated[
        float, Option(min=0.1, max=1_000_000, help="Pace of the traffic.")
    ] = 200.0,
    seconds: Annotated[
        float | None, Option(min=0, help="Stop after so long; without it, on Ctrl-C.")
    ] = None,
    seed: Annotated[int, Option(min=0, help="Equal seeds give equal traffic.")] = 0,
    listen: Annotated[str, Option(metavar="HOST:PORT", help="Where to serve.")] = "127.0.0.1:9877",
    kafka: Annotated[
        bool, Option("--kafka", help="Through a real broker, started for it and removed after.")
    ] = False,
    attribution: Annotated[
        bool,
        Option("--attribution", help="Impressions and later interactions, as two streams."),
    ] = False,
) -> None:
    """Watch the metrics of two variants move, on simulated traffic.

    Nothing else is needed: no Kafka, no configuration. The daemon runs as it would on your own
    events, with its page, /metrics and /api/v1/metrics at the address that is printed. Event time
    is simulated too: it begins on 2026-01-01, and each event is 10 ms after the one before.

    ```
    streameval demo
    streameval demo --events-per-second 5000 --seconds 30
    streameval demo --attribution
    streameval demo --kafka    # needs the extra: pip install '.[broker]'
    ```
    """
    if kafka and attribution:
        raise WrongCallError("--kafka and --attribution are two demos; give one of them.")
    from streameval.cli.demonstration import Traffic, shown  # noqa: PLC0415  only where used

    traffic = Traffic(seed=seed, events_per_second=events_per_second, seconds=seconds)
    shown(traffic, listen=listen, kafka=kafka, attribution=attribution)
