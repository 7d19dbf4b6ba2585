"""What the [source] table of the configuration may say, one struct a source."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import Meta


class KafkaOptions(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    tag_field="type",
    tag="kafka",
):
    """Topics of a Kafka cluster.

    Attributes:
        topics: which topics; all of their partitions are read.
        group: name of the consumer group, whose members share the partitions. Without [state] it is
            a prefix: the daemon reads all partitions, in a group `<group>-<random>` of its own.
        member: name of this one among them, for as long as it lives: a restart within
            session_timeout_ms then moves no partition. No two may run under one name; ${NAME}
            in it is taken from the environment.
        start: "earliest", "latest", or an ISO-8601 time with offset.
        stall_timeout: seconds without progress, although the broker answers and there is more,
            after which reading is begun anew; above 0.
        kafka: passed to the client as it is; dotted Java names are understood.
    """

    topics: Annotated[list[str], Meta(min_length=1)]
    group: str = "streameval"
    member: str | None = None
    start: str = "earliest"
    stall_timeout: Annotated[float, Meta(gt=0)] = 60.0
    kafka: dict[str, Any] = {}


class FilesOptions(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    tag_field="type",
    tag="files",
):
    """Files of newline-delimited JSON; plain, .gz or .zst; "-" is standard input.

    Attributes:
        paths: read side by side, one partition a file; in a configuration file, relative to it.
    """

    paths: Annotated[list[str], Meta(min_length=1)]


class SimulatorOptions(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    tag_field="type",
    tag="simulator",
):
    """Seeded traffic of two variants with a known difference between them.

    Attributes:
        seed: equal seeds give equal records; 0 or more.
        events: how many records in all; None means without end.
        events_per_second: pace, at most a million; None means as fast as they are asked for.
        partitions: how many partitions the traffic is spread over, by user.
    """

    seed: Annotated[int, Meta(ge=0)] = 0
    events: Annotated[int, Meta(ge=0)] | None = None
    events_per_second: Annotated[float, Meta(gt=0, le=1_000_000)] | None = None
    partitions: Annotated[int, Meta(ge=1)] = 2


SourceOptions: TypeAlias = KafkaOptions | FilesOptions | SimulatorOptions
