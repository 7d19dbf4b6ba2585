"""The [source] table of the configuration: one struct per kind of source, which builds the source.

A source is imported when it is built, because importing Kafka's client takes longer than most
commands. Functions raise ConfigError for a setting that is unknown or reserved, and SourceError for
a source that cannot be read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Self, TypeAlias

import msgspec
from msgspec import Meta

from streameval.events.errors import OptionError, suggestion
from streameval.events.records import Partition, RecordBatch
from streameval.sources.source import Positions, Source

STDIN = "-"
"""The path that means standard input."""

LARGEST_PORT: Final = 65_535
"""Of an address, to connect to or to listen on."""

EARLIEST: Final = -2
LATEST: Final = -1
"""Special timestamps of Kafka's ListOffsets; others are milliseconds since the epoch."""


class _Options(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type"
):
    """What every kind of source answers; most kinds define only `build`.

    Nothing else tells one kind from another.
    """

    logs_key: ClassVar[str | None] = None
    """Key of the list of logs; None if the logs have no names."""

    has_topics: ClassVar[bool] = False
    """Whether the logs are Kafka topics: any format, a group, and topics for dead letters."""

    has_files: ClassVar[bool] = False
    """Whether the logs are files, which commands read to their end."""

    @property
    def logs(self) -> list[str]:
        """Names of the logs: topics or files."""
        return [] if self.logs_key is None else getattr(self, self.logs_key)

    def build(self, environment: Mapping[str, str], *, shared: bool = False) -> Source:
        """The source, not yet opened.

        Args:
            environment: values of `${NAME}` in the options, usually `os.environ`.
            shared: share partitions with other members of the group, which needs durable state;
                otherwise the source reads all of them. Only Kafka has groups.

        Raises:
            ConfigError: a setting is unknown or reserved.
            SourceError: no topic is named.
        """
        raise NotImplementedError

    def problems(self, *, stateful: bool) -> Iterator[tuple[str, str]]:  # noqa: ARG002  has no groups
        """Keys without effect, each with the reason; `stateful`: whether state is kept."""
        yield from ()

    def group_of(self, cluster: str) -> str:
        """The group that owns the state; without groups, the scope of the offsets."""
        return cluster

    @property
    def needs_name(self) -> bool:
        """Whether a name is missing for this member of a group."""
        return False

    def named(self, member: str | None) -> Self:  # noqa: ARG002  has no groups
        """The options with this name of the member of the group."""
        return self

    def since(self, start: str | None) -> Self:
        """The options with another start; None: the first record of each log.

        Raises:
            OptionError: the time is not valid, or the logs cannot be read from a given time.
        """
        if start is not None:
            raise OptionError("start", "only Kafka topics can be read from a given time.")
        return self

    def below(self, folder: Path) -> tuple[Self, Mapping[str, str]]:  # noqa: ARG002  has no paths
        """The options with paths resolved against a folder; and old path -> new path."""
        return self, {}

    def probe(self, environment: Mapping[str, str]) -> str:
        """Try to read once; returns one sentence about the result."""
        source = self.build(environment)
        source.open(Positions())
        source.close()
        return f"{source.name} can be read."

    def rights(
        self,
        environment: Mapping[str, str],  # noqa: ARG002  only some kinds need it
        letters: Sequence[str],  # noqa: ARG002  only some kinds have them
        *,
        shared: bool,  # noqa: ARG002  only some kinds have groups
    ) -> Iterable[Callable[[], str]]:
        """Tests of the rights that the daemon needs; each returns a right in words, or raises.

        `letters`: topics that receive dead letters. `shared`: as of `build`.
        """
        return ()

    def newest(
        self,
        environment: Mapping[str, str],  # noqa: ARG002  only some kinds need it
    ) -> Callable[[], Iterable[RecordBatch]] | None:
        """A function that reads the newest records of each log; None if that is not possible."""
        return None

    def topic_names(self) -> list[str]:
        """The topics without duplicates; none without topics.

        Raises:
            ConfigError: a name is not valid.
        """
        return []

    def topic_client(
        self,
        environment: Mapping[str, str],  # noqa: ARG002  only some kinds need it
    ) -> dict[str, Any]:
        """Settings of a client that reads and writes topics, in kafka-python's names.

        Raises:
            ConfigError: a setting is unknown or reserved.
        """
        return {}

    def record(
        self,
        environment: Mapping[str, str],  # noqa: ARG002  only some kinds need it
        partition: Partition,  # noqa: ARG002  only some kinds can look one up
        offset: int,  # noqa: ARG002  only some kinds can look one up
    ) -> RecordBatch | None:
        """A batch with the record at an offset; None if the log does not have it any more."""
        return None


class KafkaOptions(_Options, frozen=True, kw_only=True, tag="kafka"):
    """Topics of a Kafka cluster.

    Attributes:
        topics: topics; all partitions are read.
        group: consumer group whose members share the partitions. Without [state] it is a prefix:
            the daemon reads all partitions in its own group `<group>-<random>`.
        member: unique name of this member of the group (static membership): a restart within
            session_timeout_ms moves no partition. Needs [state]. ${NAME} is taken from the
            environment. Without it, a process that alone uses the folder of its state has a name
            that is kept there.
        start: "earliest", "latest", or an ISO-8601 time with offset.
        stall_timeout: seconds without progress, although records wait, before the client is
            restarted.
        kafka: `client` ("kafka-python" or "confluent"), and its settings; dotted Java names work.
    """

    topics: Annotated[list[str], Meta(min_length=1)]
    group: str = "streameval"
    member: str | None = None
    start: str = "earliest"
    stall_timeout: Annotated[float, Meta(gt=0)] = 60.0
    kafka: dict[str, Any] = {}

    logs_key = "topics"
    has_topics = True

    def __post_init__(self) -> None:
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
        """Whether the configuration gives no name."""
        return self.member is None

    def named(self, member: str | None) -> Self:
        """The options with this name; None: as a dynamic member."""
        return msgspec.structs.replace(self, member=member)

    def since(self, start: str | None) -> Self:
        """The options with this start, or the first record of each partition."""
        return msgspec.structs.replace(self, start=start or "earliest")

    def build(self, environment: Mapping[str, str], *, shared: bool = False) -> Source:
        """A source that reads the topics."""
        from streameval.sources.kafka.source import KafkaSource  # noqa: PLC0415  heavy

        return KafkaSource(self, environment, shared=shared)

    def probe(self, environment: Mapping[str, str]) -> str:
        """Try the connection; returns the numbers of partitions and records."""
        from streameval.sources.topics import probe  # noqa: PLC0415  heavy

        return probe(self, environment)

    def rights(
        self, environment: Mapping[str, str], letters: Sequence[str], *, shared: bool
    ) -> Iterable[Callable[[], str]]:
        """Tests of the rights to read, to commit and to write dead letters; nothing is written."""
        from streameval.sources.kafka.cluster import rights  # noqa: PLC0415  heavy

        return [right.require for right in rights(self, environment, letters, shared=shared)]

    def newest(self, environment: Mapping[str, str]) -> Callable[[], Iterable[RecordBatch]]:
        """A function that reads the newest records of each partition."""
        from streameval.sources.topics import newest_records  # noqa: PLC0415  heavy

        return lambda: newest_records(self, environment)

    def topic_names(self) -> list[str]:
        """The topics without duplicates."""
        from streameval.sources.kafka.settings import source_topics  # noqa: PLC0415  heavy

        return source_topics(self)

    def topic_client(self, environment: Mapping[str, str]) -> dict[str, Any]:
        """The settings of the reader; writers of dead letters use them too."""
        from streameval.sources.kafka.settings import source_config  # noqa: PLC0415  heavy

        return source_config(self, environment)

    def record(
        self, environment: Mapping[str, str], partition: Partition, offset: int
    ) -> RecordBatch | None:
        """A batch with the record at an offset; None if retention has deleted it."""
        from streameval.sources.topics import batch_at  # noqa: PLC0415  heavy

        return batch_at(self, environment, partition, offset)


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
    raise OptionError("start", f"found {text!r}; give {allowed}.{suggestion(text, spellings)}")


class FilesOptions(_Options, frozen=True, kw_only=True, tag="files"):
    """Files of newline-delimited JSON; plain, .gz or .zst; "-" is standard input.

    Attributes:
        paths: read in parallel, one partition per file; relative to the configuration file.
    """

    paths: Annotated[list[str], Meta(min_length=1)]

    logs_key = "paths"
    has_files = True

    def build(self, environment: Mapping[str, str], *, shared: bool = False) -> Source:  # noqa: ARG002  files have no group
        """A source that reads the files in parallel."""
        from streameval.sources.files import FilesSource  # noqa: PLC0415  heavy

        return FilesSource(self)

    def below(self, folder: Path) -> tuple[Self, Mapping[str, str]]:
        """Files in the folder; "-" stays standard input."""
        renamed = {path: str(folder / path) for path in self.paths if path != STDIN}
        paths = [renamed.get(path, path) for path in self.paths]
        return msgspec.structs.replace(self, paths=paths), renamed


class SimulatorOptions(_Options, frozen=True, kw_only=True, tag="simulator"):
    """Simulated traffic of variants with a known difference between them.

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

    def build(self, environment: Mapping[str, str], *, shared: bool = False) -> Source:  # noqa: ARG002  it has no group
        """A source of the traffic from its beginning."""
        from streameval.sources.simulator import SimulatorSource  # noqa: PLC0415  heavy

        return SimulatorSource(self)


SourceOptions: TypeAlias = KafkaOptions | FilesOptions | SimulatorOptions
