"""`streameval simulate`: writes simulated events."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final

import msgspec
from typer import Option

from streameval.engine.windows.times import span_text
from streameval.evaluation.shell.exits import output
from streameval.events.errors import UsageError
from streameval.sources.settings import SimulatorOptions
from streameval.sources.simulated_streams import (
    GAINS,
    IGNORED_TYPE,
    LATENESS,
    SIMULATED_WINDOW,
    line,
    streams,
)
from streameval.sources.simulator import Record, pace_records, records

_DEFAULT_EVENTS: Final = 1000
_IMPRESSIONS: Final = "impressions.ndjson"
_INTERACTIONS: Final = "interactions.ndjson"
_CONFIG: Final = "streameval.toml"
_METRICS: Final = (
    "hit_rate",
    "hit_rate@10",
    "hit_rate(type=purchase)",
    "hit_rate(type=purchase)@10",
    "ctr@10",
    "ctr(type=click)",
    "ndcg@10",
    "mrr@10",
    "value_per_list",
)


def simulate(
    *,
    events: Annotated[
        int | None,
        Option(min=0, help="Number of events; 1000 by default, endless with a pace."),
    ] = None,
    seed: Annotated[int, Option(min=0, help="Random seed; equal seeds give equal events.")] = 0,
    events_per_second: Annotated[
        float | None,
        Option(min=0.1, max=1_000_000, help="Write at this pace, with current event times."),
    ] = None,
    streams: Annotated[
        Path | None,
        Option(
            metavar="DIR",
            help="Folder for two streams of --events lists, instead of standard output.",
        ),
    ] = None,
) -> None:
    """Write simulated events to standard output: one JSON object per line.

    The traffic has three variants (placebo is identical to control) and position-biased clicks.

    ```
    streameval simulate --events 100000 | gzip > events.ndjson.gz
    streameval simulate | streameval evaluate - -m ctr -m ndcg@10 --by variant
    streameval simulate --events-per-second 50 | streameval publish - ...
    streameval simulate --streams two
    ```

    With --streams, impressions.ndjson has the lists and interactions.ndjson the clicks. Some
    are out of order, duplicate, late, without a list or invalid. streameval.toml joins them:

    ```
    streameval evaluate --config two/streameval.toml
    ```
    """
    if streams is None:
        _write_events(events, seed, events_per_second)
    elif events_per_second is not None:
        raise UsageError("--events-per-second and --streams exclude each other; give one of them.")
    else:
        _write_streams(streams, events, seed)


def _write_events(events: int | None, seed: int, pace: float | None) -> None:
    """Write events to standard output: 1,000 without a pace, endless with one."""
    limit = _DEFAULT_EVENTS if events is None and pace is None else events
    events_of_seed = records(SimulatorOptions(seed=seed, events=limit))
    with output():
        for record in events_of_seed if pace is None else _live(events_of_seed, pace):
            sys.stdout.buffer.write(record + b"\n")
            if pace is not None:
                sys.stdout.buffer.flush()
        sys.stdout.buffer.flush()


def _live(events: Iterator[bytes], pace: float) -> Iterator[bytes]:
    for record in pace_records(events, pace):
        event = msgspec.json.decode(record, type=Record)
        yield msgspec.json.encode(msgspec.structs.replace(event, ts=datetime.now(UTC)))


def _write_streams(folder: Path, events: int | None, seed: int) -> None:
    """Write both streams and a configuration that joins them, and print the paths."""
    made = streams(_DEFAULT_EVENTS if events is None else events, seed)
    files: Mapping[str, Iterable[bytes]] = {
        _IMPRESSIONS: map(line, made.impressions),
        _INTERACTIONS: map(line, made.interactions),
        _CONFIG: _config().encode().splitlines(),
    }
    try:
        for name in files:
            if (folder / name).exists():
                problem = f"{name} exists already; name another folder."
                raise UsageError(f"--streams {folder}: {problem}")
        folder.mkdir(parents=True, exist_ok=True)
        for name, lines in files.items():
            with (folder / name).open("xb") as file:
                file.writelines(record + b"\n" for record in lines)
    except OSError as error:
        problem = (error.strerror or str(error)).lower()
        raise UsageError(f"--streams {folder}: {problem}; name another folder.") from error
    with output():
        sys.stdout.write(
            f"{len(made.impressions):,} impressions are in {folder / _IMPRESSIONS}.\n"
            f"{len(made.interactions):,} interactions are in {folder / _INTERACTIONS}. "
            "Join and evaluate them with:\n"
            f"  streameval evaluate --config {folder / _CONFIG}\n"
        )


def _config() -> str:
    metrics = "".join(f'    "{metric}",\n' for metric in _METRICS)
    types = ", ".join(f"{name} = {gain:g}" for name, gain in GAINS.items())
    return f"""\
metrics = [
{metrics}]
labels = ["variant"]

[source]
type = "files"
paths = ["{_IMPRESSIONS}", "{_INTERACTIONS}"]

[event]
time = "ts"
time_unit = "ms"
user = "user"

[attribution]
impressions = "{_IMPRESSIONS}"
key = "request_id"
window = "{span_text(SIMULATED_WINDOW * 1000)}"
lateness = "{span_text(LATENESS * 1000)}"

[[attribution.interactions]]
source = "{_INTERACTIONS}"
event_id = "event_id"
types = {{ {types} }}
ignore = ["{IGNORED_TYPE}"]
"""
