"""`streameval simulate`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from typer import Option

from streameval.cli.ending import WrongCallError

_PANEL = "Of --streams"


def _share(of: str, usual: str) -> Any:
    return Option(min=0, max=1, help=of, show_default=usual, rich_help_panel=_PANEL)


def _number(low: float, high: float, of: str, usual: str) -> Any:
    return Option(min=low, max=high, help=of, show_default=usual, rich_help_panel=_PANEL)


def simulate(  # noqa: PLR0913  each is an option of the command
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
    streams: Annotated[
        Path | None,
        Option(
            metavar="DIR",
            help="Write two streams of --events lists into this folder instead.",
        ),
    ] = None,
    interval: Annotated[
        float | None, _number(0, 86_400, "Seconds from one list to the next.", "4")
    ] = None,
    delay: Annotated[
        float | None,
        _number(1, 1800, "Most seconds from a list to what is done in it.", "1500"),
    ] = None,
    disorder: Annotated[
        float | None,
        _number(0, 300, "Most seconds from a record's time until it is written.", "60"),
    ] = None,
    views: Annotated[
        float | None, _number(0, 100, "Views of each list on average, a type ignored.", "0.5")
    ] = None,
    duplicates: Annotated[float | None, _share("Share of records written twice.", "0.02")] = None,
    late: Annotated[
        float | None, _share("Share of records held back for more than the lateness.", "0.01")
    ] = None,
    orphans: Annotated[
        float | None, _share("Share of further interactions without a list.", "0.02")
    ] = None,
    outside: Annotated[
        float | None, _share("Share of further ones with items not in their list.", "0.02")
    ] = None,
    invalid: Annotated[
        float | None, _share("Share of further records that are invalid.", "0.005")
    ] = None,
) -> None:
    """Write simulated events: one JSON object a line, on standard output.

    Traffic of two variants with position-biased clicks and a known true difference.

    ```
    streameval simulate --events 100000 | gzip > events.ndjson.gz
    streameval simulate | streameval evaluate - -m ctr -m ndcg@10 --by variant
    streameval simulate --events-per-second 50 | streameval publish - ...
    streameval simulate --streams two
    ```

    With --streams, the same lists and clicks come as they do from real systems: impressions.ndjson
    has the lists, interactions.ndjson what was done in them, later; both with records out of order,
    written twice, late, without a list, or invalid. truth.json says how many of each, and what
    their join must hold; streameval.toml joins them:

    ```
    streameval evaluate --config two/streameval.toml
    ```
    """
    properties = {
        "interval": interval,
        "delay": delay,
        "disorder": disorder,
        "views": views,
        "duplicates": duplicates,
        "late": late,
        "orphans": orphans,
        "outside": outside,
        "invalid": invalid,
    }
    given = {name: value for name, value in properties.items() if value is not None}
    if streams is None:
        from streameval.cli.simulation import simulated  # noqa: PLC0415  only where used

        _refuse(given, "this is for streams; add --streams DIR.")
        simulated(events=events, seed=seed, pace=events_per_second)
    else:
        from streameval.cli.simulated_streams import simulated_streams  # noqa: PLC0415  likewise

        live = {"events_per_second": events_per_second} if events_per_second else {}
        _refuse(live, "this is for standard output; leave out it or --streams.")
        simulated_streams(streams, events=events, seed=seed, properties=given)


def _refuse(given: Mapping[str, float], why: str) -> None:
    if given:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise WrongCallError(f"{names}: {why}")
