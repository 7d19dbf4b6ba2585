"""The tables of the configuration: a Struct for each."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, Final, Literal, TypeVar

import msgspec
from msgspec import Meta

from streameval.catalogue.context import Popularity, Similarity
from streameval.checkpoints.settings import BucketOptions, Policies, bucket_problems, is_url
from streameval.decoding.fields import Format, TimeUnit
from streameval.errors import OptionError, SourceError
from streameval.events import LARGEST_GAIN, Id
from streameval.sources.files import lines
from streameval.windows.times import FINE, HOUR, SECOND, DurationError, microseconds, span_text

T = TypeVar("T")

_ADDRESS: Final = re.compile(
    r"(?:\[(?P<bracketed>[^\[\]]+)\]|(?P<plain>[^\[\]:]+)):(?P<port>\d{1,5})"
)
_MAX_PORT: Final = 65_535
_HOST: Final = re.compile(r"(\*\.)?[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
_PREFIX: Final = re.compile(r"/|(/[A-Za-z0-9._~-]+)+/?")


def duration_problem(text: str, least: int = SECOND) -> str | None:
    """Why a text is not a duration of at least so many microseconds, or None."""
    try:
        length = microseconds(text)
    except DurationError as error:
        return str(error)
    return f"found {text!r}; at least {span_text(least)} is needed." if length < least else None


def _durations(named: Mapping[str, str | None], least: int = SECOND) -> Iterator[tuple[str, str]]:
    for key, text in named.items():
        if text is not None and (problem := duration_problem(text, least)):
            yield key, problem


class _Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table that refuses what its types cannot, with the key and what is wrong with it."""

    def __post_init__(self) -> None:
        for key, problem in self._problems():
            raise OptionError(key, problem)

    def _problems(self) -> Iterator[tuple[str, str]]:
        return iter(())


def host_and_port(text: str) -> tuple[str, int] | None:
    """Host and port of "HOST:PORT", an IPv6 address in brackets; None if it is not written so.

    Example:
        >>> host_and_port("[::1]:9877")
        ('::1', 9877)
    """
    found = _ADDRESS.fullmatch(text)
    if found is None or int(found["port"]) > _MAX_PORT:
        return None
    return found["bracketed"] or found["plain"], int(found["port"])


class WebOptions(_Table, frozen=True, kw_only=True):
    """Where the page, the API and /metrics are served, and to whom.

    Attributes:
        listen: "HOST:PORT", an IPv6 address in brackets: "[::1]:9877"; or a list of several.
        config_file: TLS certificates and users, in the format of Prometheus exporters.
        route_prefix: prefix of all paths, for example "/streameval".
        allowed_hosts: names under which it is addressed, "*.example.com" for all of a domain;
            checked without users.
        health_without_auth: whether health checks need no password.
        scopes: user -> what that user may ask for: /metrics, page and API, reload; others may ask
            for all. Health checks need no scope.
        max_connections: open connections; the one idle longest is closed for a new one.
        first_exposure: how long a new counter stands at 0 for every Prometheus to see; at least two
            scrape intervals.
    """

    listen: str | list[str] = "127.0.0.1:9877"
    config_file: str | None = None
    route_prefix: str = "/"
    allowed_hosts: list[str] = []
    health_without_auth: bool = False
    scopes: dict[str, list[Literal["metrics", "read", "reload"]]] = {}
    max_connections: Annotated[int, Meta(ge=1)] = 512
    first_exposure: str = "60s"

    def _problems(self) -> Iterator[tuple[str, str]]:
        # The file of certificates and users is not read: only the daemon may be permitted to.
        if not self.addresses:
            yield "listen", 'found []; give at least one address, for example "127.0.0.1:9877".'
        for each in self.addresses:
            if host_and_port(each) is None:
                how = "write HOST:PORT, for example '127.0.0.1:9877' or '[::1]:9877'"
                yield "listen", f"found {each!r}; {how}."
        for each in sorted(set(self.addresses)):
            if self.addresses.count(each) > 1 and not each.endswith(":0"):
                yield "listen", f"found {each!r} twice; give each address once."
        for each in self.allowed_hosts:
            if not _HOST.fullmatch(each):
                problem = "give a name without port, for example 'eval.example' or '*.example'."
                yield "allowed_hosts", f"found {each!r}; {problem}"
        steps = self.route_prefix.split("/")
        if not _PREFIX.fullmatch(self.route_prefix) or "." in steps or ".." in steps:
            problem = "give a path that begins with a slash, for example '/streameval'."
            yield "route_prefix", f"found {self.route_prefix!r}; {problem}"
        yield from _durations({"first_exposure": self.first_exposure}, 0)

    @property
    def addresses(self) -> list[str]:
        """Where to listen, as a list."""
        return [self.listen] if isinstance(self.listen, str) else self.listen

    @property
    def hosts(self) -> list[str]:
        """Names under which it is addressed: those of `listen`, and `allowed_hosts`."""
        found = map(host_and_port, self.addresses)
        return [*(each[0] for each in found if each is not None), *self.allowed_hosts]

    @property
    def prefix(self) -> str:
        """What all paths begin with: "", or a path without a slash at its end."""
        return self.route_prefix.rstrip("/")


class WindowsOptions(_Table, frozen=True, kw_only=True):
    """Spans of event time beside the lifetime.

    Attributes:
        spans: for example "5m", "1h", "24h": multiples of `pane`, above 2h of an hour.
        lateness: an event at most this far behind the clock still counts in every window.
        pane: smallest span kept; divides an hour.
    """

    spans: list[str]
    lateness: str = "2m"
    pane: str = "1m"

    def _problems(self) -> Iterator[tuple[str, str]]:
        spans = {f"spans[{index}]": span for index, span in enumerate(self.spans)}
        yield from _durations({"pane": self.pane, **spans})
        yield from _durations({"lateness": self.lateness}, 0)
        pane = microseconds(self.pane)
        if HOUR % pane:
            allowed = "'10s', '1m', '5m', '15m' or '1h'"
            yield "pane", f"found {self.pane!r}; it must divide an hour, like {allowed}."
        lengths = list(map(microseconds, self.spans))
        for (key, text), length in zip(spans.items(), lengths, strict=True):
            first = lengths.index(length)
            if key != f"spans[{first}]":
                yield key, f"{text!r} repeats windows.spans[{first}]; remove one."
            if length % pane:
                yield key, f"{text!r} is not a multiple of the pane, {self.pane!r}."
            elif length > FINE and length % HOUR:
                yield key, f"{text!r}: above 2h, where hours are kept, give a multiple of 1h."


class MetricOptions(_Table, frozen=True, kw_only=True):
    """A metric that is kept for some labels or windows only.

    Attributes:
        name: for example "item_coverage@10".
        labels: only these labels; None: all.
        windows: only these spans, and the lifetime; None: all.
        segments: only these segments; None: all.
    """

    name: str
    labels: list[str] | None = None
    windows: list[str] | None = None
    segments: list[str] | None = None

    def _problems(self) -> Iterator[tuple[str, str]]:
        windows = enumerate(self.windows or [])
        return _durations({f"windows[{index}]": text for index, text in windows})


class StateOptions(Policies, _Table, frozen=True, kw_only=True):
    """Where state is kept, how often, and what to do if it does not fit the log.

    Attributes:
        path: a folder that all replicas can write; or object storage: "s3://BUCKET/PREFIX",
            "gs://BUCKET/PREFIX" or "az://CONTAINER/PREFIX", with credentials of the environment
            or of the machine.
        interval: time between checkpoints; longer if they would take more than 5 % of the time.
        events: events between checkpoints, if reached first.
        endpoint: URL of an object storage other than the cloud's own.
        region: of the bucket, for s3://; None: that of the environment.
        allow_http: whether `endpoint` may be without TLS.
        timeout: limit for a request to object storage, and for retrying it.
    """

    path: str
    interval: str = "10s"
    events: Annotated[int, Meta(ge=1)] | None = None
    endpoint: str | None = None
    region: str | None = None
    allow_http: bool = False
    timeout: str = "15s"

    def _problems(self) -> Iterator[tuple[str, str]]:
        yield from _durations({"interval": self.interval, "timeout": self.timeout})
        yield from bucket_problems(self.path, self.bucket)

    @property
    def bucket(self) -> BucketOptions:
        """The connection to object storage."""
        timeout = microseconds(self.timeout) / SECOND
        return BucketOptions(self.endpoint, self.region, self.allow_http, timeout)


class DeadLetterOptions(_Table, frozen=True, kw_only=True):
    """Where invalid records go, and how many are too many.

    Attributes:
        topic: a topic of the same cluster; None: `<input>.dlq` for each topic read.
        path: a file of JSON lines instead of a topic.
        max_ratio: the daemon stops above this share of invalid records.
        max_run: the daemon stops above this many invalid records in a row.
    """

    topic: str | None = None
    path: str | None = None
    max_ratio: Annotated[float, Meta(gt=0, le=1)] = 0.05
    max_run: Annotated[int, Meta(ge=1)] = 1000

    def _problems(self) -> Iterator[tuple[str, str]]:
        if self.topic is not None and self.path is not None:
            yield "", "give either topic or path, not both."
        if self.path is not None and is_url(self.path):
            yield "path", f"found {self.path!r}; give a file here, or a topic."


class InteractionOptions(_Table, frozen=True, kw_only=True):
    """A stream of interactions; at least one.

    Attributes:
        source: its topic or file, or several, as [source] names them.
        format: of its records; None: as in [event].
        request_id: path of the list's id, with that key.
        user: path of the user, with the key "user_item"; None: as in [event].
        item: path of the item's id.
        time: path of event time; None: as in [event].
        time_unit: unit of event time; None: as in [event].
        event_id: path of its id, by which it counts once.
        type: path of its type, for example "click".
        gain: path of its worth; else its type says that.
        types: type -> worth; other types do not count.
        ignore: types that do not count.
    """

    source: str | list[str]
    format: Format | None = None
    request_id: str = "request_id"
    user: str | None = None
    item: str = "item"
    time: str | None = None
    time_unit: TimeUnit | None = None
    event_id: str | None = None
    type: str = "type"
    gain: str | None = None
    types: dict[str, float] = {}
    ignore: list[str] = []

    def _problems(self) -> Iterator[tuple[str, str]]:
        if (self.time is None) != (self.time_unit is None):
            yield "time", "give time and time_unit together, or neither."
        for name, gain in self.types.items():
            if not abs(gain) <= LARGEST_GAIN:
                yield f"types.{name}", f"found {gain}; a gain is a number up to 2^1000."
        for name in self.ignore:
            if name in self.types:
                yield "ignore", f"{name!r} has a gain in types; it cannot do both."

    @property
    def sources(self) -> list[str]:
        """Its topics or files."""
        return [self.source] if isinstance(self.source, str) else self.source


class AttributionOptions(_Table, frozen=True, kw_only=True):
    """Streams of impressions and interactions that are joined to events.

    Records of impressions are read as [event] says, without interactions.

    Attributes:
        impressions: topic or file of the lists shown, or several, as [source] names them.
        interactions: streams of interactions.
        key: "request_id": an interaction names its list; "user_item": it belongs to the latest
            list that showed the item to the user.
        request_id: path of the id in impressions; None: "request_id" with that key.
        window: longest time from a list to an interaction that counts.
        lateness: a record further behind its log's clock is late.
        idle_timeout: stop waiting for a log without records for this long, by the wall clock;
            None: never.
        combine: worth of several interactions with one item: the largest, or the sum.
        per: labels by which "user_item" attributes separately.
        max_open: most records that may wait in each partition.
        max_bytes: their largest size in memory, approximately.
    """

    impressions: str | list[str]
    interactions: Annotated[list[InteractionOptions], Meta(min_length=1)]
    key: Literal["request_id", "user_item"] = "request_id"
    request_id: str | None = None
    window: str = "30m"
    lateness: str = "2m"
    idle_timeout: str | None = None
    combine: Literal["max", "sum"] = "max"
    per: list[str] = []
    max_open: Annotated[int, Meta(ge=1)] = 1_000_000
    max_bytes: Annotated[int, Meta(ge=1)] = 1_000_000_000

    def _problems(self) -> Iterator[tuple[str, str]]:
        yield from _durations({"window": self.window, "idle_timeout": self.idle_timeout})
        yield from _durations({"lateness": self.lateness}, 0)
        if self.per and self.key == "request_id":
            yield "per", 'a request id names one list; per is for key = "user_item".'

    @property
    def streams(self) -> list[list[str]]:
        """Topics or files of each stream, that of impressions first."""
        shown = [self.impressions] if isinstance(self.impressions, str) else self.impressions
        return [shown, *(each.sources for each in self.interactions)]

    @property
    def names(self) -> list[str]:
        """The name of each stream: its first topic or file."""
        return [stream[0] for stream in self.streams]

    def settings(self) -> dict[str, Any]:
        """The settings that must be the same to resume from a checkpoint."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        beside = ("idle_timeout", "max_open", "max_bytes")
        for each in plain["interactions"]:
            if each["format"] is None:
                del each["format"]
        return {name: value for name, value in plain.items() if name not in beside}


def renamed(options: AttributionOptions, names: Mapping[str, str]) -> AttributionOptions:
    """The options with renamed topics or files; names not given stay."""
    shown, *others = [[names.get(each, each) for each in stream] for stream in options.streams]
    streams = zip(options.interactions, others, strict=True)
    replace = msgspec.structs.replace
    interactions = [replace(each, source=there) for each, there in streams]
    return replace(options, impressions=shown, interactions=interactions)


class PopularityOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many users interacted with each item before.

    Attributes:
        path: a file of "item,count" lines; plain, .gz or .zst. A header line is skipped.
        users: number of users; None: the sum of the counts.
    """

    path: str
    users: Annotated[float, Meta(gt=0)] | None = None


class SimilarityOptions(_Table, frozen=True, kw_only=True):
    """How similar two items are; one of the two files.

    Attributes:
        vectors: a file of "item,x1,x2,..." lines; similarity is the cosine.
        pairs: a file of "item,item,similarity" lines; other pairs are 0.
    """

    vectors: str | None = None
    pairs: str | None = None

    def _problems(self) -> Iterator[tuple[str, str]]:
        if (self.vectors is None) == (self.pairs is None):
            yield "", "give either vectors or pairs."


def popularity(options: PopularityOptions, as_id: Callable[[str], Id]) -> Popularity:
    """The popularity in a file."""
    rows = _rows(options.path, 2, lambda row: (as_id(row[0]), _number(row[1])))
    return Popularity(dict(rows), users=options.users)


def similarity(options: SimilarityOptions, as_id: Callable[[str], Id]) -> Similarity:
    """The similarity in a file."""
    if options.vectors is not None:
        found = list(
            _rows(options.vectors, 2, lambda row: (as_id(row[0]), list(map(_number, row[1:]))))
        )
        return Similarity([item for item, _ in found], vectors=[vector for _, vector in found])
    pairs = _rows(
        str(options.pairs), 3, lambda row: ((as_id(row[0]), as_id(row[1])), _number(row[2]))
    )
    return Similarity.of_pairs(dict(pairs))


def _rows(path: str, columns: int, read: Callable[[list[str]], T]) -> Iterator[T]:
    for number, row in enumerate(csv.reader(line.decode() for line in lines(path)), 1):
        if not row:
            continue
        try:
            if len(row) < columns:
                problem = f"{len(row)} columns where {columns} are needed"
                raise ValueError(problem)  # noqa: TRY301  caught below, which adds the line's number
            yield read(row)
        except ValueError as error:
            if number > 1:
                raise SourceError(f"{path}:{number}", str(error), "correct the line") from None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        message = f"{text!r} is not a number"
        raise ValueError(message) from None
