"""How the join of streams is, as families of Prometheus."""

from __future__ import annotations

from collections.abc import Iterator

from streameval.exporters.families import Family, own_family
from streameval.exporters.keeping import place
from streameval.pipeline.joined import JoinHealth

_MICROSECONDS = 1_000_000


def joining(join: JoinHealth) -> Iterator[Family]:
    """What became of the records of each stream, and what waits."""
    yield own_family(
        "join_records",
        "counter",
        "Records of each stream by what became of them since the process started: counted, "
        "duplicate, late, orphan (no list to belong to), ignored (of a type that does not count), "
        "invalid, tombstone. With streameval_join_open they are all that was read.",
        [
            ({"stream": stream.name, "outcome": outcome}, count)
            for stream in join.streams
            for outcome, count in sorted(stream.outcomes.items())
        ],
    )
    yield own_family(
        "join_outside",
        "counter",
        "Interactions that were counted with an item that their list did not show, since the "
        "process started. If most are such, ids differ between the streams.",
        [({"stream": stream.name}, stream.outside) for stream in join.streams[1:]],
    )
    yield own_family(
        "join_open",
        "gauge",
        "Records that wait for the end of their window; of impressions, lists that are in no "
        "value yet.",
        [({"stream": stream.name}, stream.open) for stream in join.streams],
    )
    yield from _waiting(join)


def _waiting(join: JoinHealth) -> Iterator[Family]:
    """What waiting costs, and for whom it is."""
    yield own_family(
        "join_bytes",
        "gauge",
        "Rough memory of what waits and of what can still be explained; reading stops where a "
        "partition passes max_bytes of [attribution].",
        [({}, join.bytes)],
    )
    yield own_family(
        "join_log_timestamp_seconds",
        "gauge",
        "Newest event time of each log that is joined, seconds since the epoch. Nothing is counted "
        "beyond the oldest of those of a partition; one that stands still holds the others back.",
        [(place(log), at / _MICROSECONDS) for log, at in sorted(join.clocks.items())],
    )
    yield own_family(
        "join_idle_passed",
        "counter",
        "How often a log was waited for no longer since the process started, because nothing had "
        "come in it for idle_timeout.",
        [({}, join.passed_by)],
    )
