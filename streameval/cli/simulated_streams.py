"""The work of `streameval simulate --streams`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from streameval.aggregation.time import span_text
from streameval.cli.ending import WrongCallError, output
from streameval.sources.stream_truth import Truth, truth
from streameval.sources.streams import (
    GAINS,
    IGNORED,
    LATENESS,
    WINDOW,
    StreamOptions,
    Streams,
    line,
    streams,
)

_IMPRESSIONS: Final = "impressions.ndjson"
_INTERACTIONS: Final = "interactions.ndjson"
_TRUTH: Final = "truth.json"
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


def simulated_streams(
    folder: Path, *, events: int | None, seed: int, properties: Mapping[str, float]
) -> None:
    """Write both streams, what must come of them, and a configuration; say where.

    Args:
        folder: made where it does not exist.
        events: how many lists; None means as many as usual.
        seed: equal seeds give equal files.
        properties: of `StreamOptions`, where they are not as usual.

    Raises:
        WrongCallError: the folder holds a file of such a name, or cannot be written to.
    """
    there = [name for name in (_IMPRESSIONS, _INTERACTIONS, _TRUTH, _CONFIG) if _is(folder / name)]
    if there:
        raise WrongCallError(
            f"--streams {folder}: {there[0]} is there already; name a folder without such files."
        )
    lists = {} if events is None else {"lists": events}
    made = streams(msgspec.convert({"seed": seed, **lists, **properties}, StreamOptions))
    known = truth(made)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, lines in _files(made, known).items():
            with (folder / name).open("xb") as file:
                file.writelines(lines)
    except OSError as error:
        problem = (error.strerror or str(error)).lower()
        raise WrongCallError(f"--streams {folder}: {problem}; name another folder.") from error
    _tell(folder, known)


def _is(path: Path) -> bool:
    try:
        return path.exists() or path.is_symlink()
    except OSError:
        return False


def _files(made: Streams, known: Truth) -> Mapping[str, Iterable[bytes]]:
    return {
        _IMPRESSIONS: (line(each) + b"\n" for each in made.impressions),
        _INTERACTIONS: (line(each) + b"\n" for each in made.interactions),
        _TRUTH: [msgspec.json.format(msgspec.json.encode(known)), b"\n"],
        _CONFIG: [_config().encode()],
    }


def _config() -> str:
    metrics = "".join(f'    "{each}",\n' for each in _METRICS)
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
window = "{span_text(WINDOW * 1000)}"
lateness = "{span_text(LATENESS * 1000)}"

[[attribution.interactions]]
source = "{_INTERACTIONS}"
event_id = "event_id"
types = {{ {types} }}
ignore = ["{IGNORED}"]
"""


def _tell(folder: Path, known: Truth) -> None:
    with output():
        sys.stdout.writelines(f"{each}\n" for each in _told(folder, known))


def _told(folder: Path, known: Truth) -> Iterator[str]:
    yield f"{known.impressions.records:,} impressions are in {folder / _IMPRESSIONS}."
    yield f"{known.interactions.records:,} interactions are in {folder / _INTERACTIONS}."
    yield f"What must come of them is in {folder / _TRUTH}. Join and evaluate them by:"
    yield f"  streameval evaluate --config {folder / _CONFIG}"
