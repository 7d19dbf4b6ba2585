"""What the [source] table of the configuration may say, one struct a source."""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec


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
        group: name of the consumer group (used once state is durable; nothing is committed yet).
        start: "earliest", "latest", or an ISO-8601 time with offset.
        kafka: passed to the client as it is; dotted Java names are understood.
    """

    topics: list[str]
    group: str = "streameval"
    start: str = "earliest"
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
        paths: read side by side, one partition a file.
    """

    paths: list[str]


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
        seed: equal seeds give equal records.
        events: how many records in all; None means without end.
        events_per_second: pace; None means as fast as they are asked for.
        partitions: how many partitions the traffic is spread over, by user.
    """

    seed: int = 0
    events: int | None = None
    events_per_second: float | None = None
    partitions: int = 2


SourceOptions: TypeAlias = KafkaOptions | FilesOptions | SimulatorOptions
