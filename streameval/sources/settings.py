"""The [source] table of the configuration: one struct per kind of source; `build` reads them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Self, TypeAlias

import msgspec
from msgspec import Meta

from streameval.events.errors import ConfigError
from streameval.events.problems import check_types
from streameval.events.spelling import suggestion

STDIN = "-"
"""The path that means standard input."""

LARGEST_PORT: Final = 65_535
"""Largest port of an address, to connect to or to listen on."""

EARLIEST: Final = -2
LATEST: Final = -1
"""Special timestamps of Kafka's ListOffsets; others are milliseconds since the epoch."""


class _Options(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type"
):
    """Options of any kind of source; only `kinds` tells the kinds apart otherwise."""

    logs_key: ClassVar[str | None] = None
    """Key of the list of logs; None if the logs have no names."""

    has_topics: ClassVar[bool] = False
    """True if the logs are Kafka topics: any format, a group, and topics for dead letters."""

    has_files: ClassVar[bool] = False
    """True if the logs are files, which commands read to their end."""

    @property
    def logs(self) -> list[str]:
        """Names of the logs: topics or files."""
        return [] if self.logs_key is None else getattr(self, self.logs_key)

    def problems(self, *, stateful: bool) -> Iterator[tuple[str, str]]:  # noqa: ARG002  has no groups
        """Keys without effect, each with the reason; `stateful`: True if there is durable state."""
        yield from ()

    def group_of(self, cluster: str) -> str:
        """The group that owns the state; without groups, the scope of the offsets."""
        return cluster

    @property
    def needs_name(self) -> bool:
        """True if a name is missing for this member of a group."""
        return False

    def named(self, member: str | None) -> Self:  # noqa: ARG002  has no groups
        """The options with this name of the member of the group."""
        return self

    def since(self, start: str | None) -> Self:
        """The options with another start; None: the first record of each log.

        Raises:
            ConfigError: the time is not valid, or the logs cannot be read from a given time.
        """
        if start is not None:
            raise ConfigError("", "start", "only Kafka topics can be read from a given time.")
        return self

    def below(self, folder: Path) -> tuple[Self, Mapping[str, str]]:  # noqa: ARG002  has no paths
        """The options with paths resolved against a folder; and old path -> new path."""
        return self, {}


class KafkaOptions(_Options, frozen=True, kw_only=True, tag="kafka"):
    """Topics of a Kafka cluster.

    Attributes:
        topics: topics; all partitions are read.
        group: consumer group whose members share the partitions. Without [state] it is a prefix:
            the daemon reads all partitions in its own group `<group>-<random>`.
        member: unique name of this member of the group (static membership): a restart within
            session_timeout_ms moves no partition. Needs [state]. ${NAME} is taken from the
            environment. Without it, a process that is the only user of its state folder stores a
            name there.
        start: "earliest", "latest", or an ISO-8601 time with offset.
        kafka: `client` ("kafka-python" or "confluent"), and settings in kafka-python's names, with
            dots or underscores; unknown settings are refused.
    """

    topics: Annotated[list[str], Meta(min_length=1)]
    group: str = "streameval"
    member: str | None = None
    start: str = "earliest"
    kafka: dict[str, Any] = {}

    logs_key = "topics"
    has_topics = True

    def __post_init__(self) -> None:
        check_types(self)
        start_spec(self.start)

    def problems(self, *, stateful: bool) -> Iterator[tuple[str, str]]:
        """A name in a group that nobody else uses."""
        if self.member and not stateful:
            problem = "no effect without [state]: the daemon reads all partitions in its own group"
            yield "member", f"{problem}; add [state] with a path, or remove member."

    def group_of(self, cluster: str) -> str:  # noqa: ARG002  the group has a name
        """The configured group."""
        return self.group

    @property
    def needs_name(self) -> bool:
        """True if the configuration gives no name."""
        return self.member is None

    def named(self, member: str | None) -> Self:
        """The options with this name; None: as a dynamic member."""
        return msgspec.structs.replace(self, member=member)

    def since(self, start: str | None) -> Self:
        """The options with this start, or the first record of each partition."""
        return msgspec.structs.replace(self, start=start or "earliest")


def start_spec(text: str) -> int:
    """The timestamp to ask the broker for: EARLIEST, LATEST, or milliseconds since the epoch.

    >>> start_spec("1970-01-01T00:00:01Z")
    1000
    """
    spellings = {"earliest": EARLIEST, "latest": LATEST}
    if text in spellings:
        return spellings[text]
    with suppress(ValueError):
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is not None and moment.timestamp() >= 0:
            return round(moment.timestamp() * 1000)
    allowed = "'earliest', 'latest', or a time with offset like '2026-01-31T00:00:00Z'"
    raise ConfigError("", "start", f"found {text!r}; give {allowed}.{suggestion(text, spellings)}")


class FilesOptions(_Options, frozen=True, kw_only=True, tag="files"):
    """Files of newline-delimited JSON; plain, .gz or .zst; "-" is standard input.

    Attributes:
        paths: read in parallel, one partition per file; relative to the configuration file.
    """

    paths: Annotated[list[str], Meta(min_length=1)]

    logs_key = "paths"
    has_files = True

    def below(self, folder: Path) -> tuple[Self, Mapping[str, str]]:
        """Files in the folder; "-" stays standard input."""
        renamed = {path: str(folder / path) for path in self.paths if path != STDIN}
        paths = [renamed.get(path, path) for path in self.paths]
        return msgspec.structs.replace(self, paths=paths), renamed


class SimulatorOptions(_Options, frozen=True, kw_only=True, tag="simulator"):
    """Simulated traffic of variants with a known difference between them.

    Its records have `event_id`, `ts` (`time_unit = "iso8601"`), `user`, `variant`, `country`,
    `recommendations` and `interactions`.

    Attributes:
        seed: equal seeds give equal records.
        events: number of records; None: endless.
        events_per_second: pace; None: as fast as possible.
        partitions: number of partitions, by user.
    """

    seed: Annotated[int, Meta(ge=0)] = 0
    events: Annotated[int, Meta(ge=0)] | None = None
    events_per_second: Annotated[float, Meta(gt=0, le=1_000_000)] | None = None
    partitions: Annotated[int, Meta(ge=1)] = 2


class PartialsOptions(_Options, frozen=True, kw_only=True, tag="partials"):
    """Rows of `streameval.partials` in parquet that any engine wrote; for `serve`.

    Attributes:
        path: folder, or URL of a folder in a bucket; relative to the configuration file.
    """

    path: str

    def below(self, folder: Path) -> tuple[Self, Mapping[str, str]]:
        """The path in the folder; a URL stays."""
        if "://" in self.path:
            return self, {}
        path = str(folder / self.path)
        return msgspec.structs.replace(self, path=path), {self.path: path}


SourceOptions: TypeAlias = KafkaOptions | FilesOptions | SimulatorOptions | PartialsOptions
