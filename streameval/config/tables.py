"""The tables of the configuration, a Struct each."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import count
from typing import Annotated, Final, Literal, TypeVar

import msgspec
from msgspec import Meta

from streameval.catalogue.items import Attribute, Popularity, Similarity
from streameval.checkpoints.settings import BucketOptions, Policies, bucket_problems
from streameval.engine.windows.times import FINE, HOUR, SECOND, duration_of, duration_problem
from streameval.events import Id
from streameval.events.errors import MetricError, SourceError
from streameval.events.problems import check_types
from streameval.sources.files import lines
from streameval.sources.settings import LARGEST_PORT

K = TypeVar("K")
T = TypeVar("T")

_ADDRESS: Final = re.compile(
    r"(?:\[(?P<bracketed>[^\[\]]+)\]|(?P<plain>[^\[\]:]+)):(?P<port>\d{1,5})"
)
_HOST: Final = re.compile(r"(\*\.)?[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
_PREFIX: Final = re.compile(r"/|(/[A-Za-z0-9._~-]+)+/?")


def durations(named: Mapping[str, str | None], least: int = SECOND) -> Iterator[tuple[str, str]]:
    """The problems of texts that are not durations of at least `least` microseconds."""
    for key, text in named.items():
        if text is not None and (problem := duration_problem(text, least)):
            yield key, problem


class _Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table with checks that its types cannot express."""

    def __post_init__(self) -> None:
        check_types(self, self._problems())

    def _problems(self) -> Iterator[tuple[str, str]]:
        return iter(())


def host_and_port(text: str) -> tuple[str, int] | None:
    """Host and port of "HOST:PORT", an IPv6 address in brackets; None if malformed.

    Example:
        >>> host_and_port("[::1]:9877")
        ('::1', 9877)
    """
    matched = _ADDRESS.fullmatch(text)
    if matched is None or int(matched["port"]) > LARGEST_PORT:
        return None
    return matched["bracketed"] or matched["plain"], int(matched["port"])


class WebOptions(_Table, frozen=True, kw_only=True):
    """The HTTP server of the page, the API and /metrics, and its access rules.

    Attributes:
        listen: "HOST:PORT", an IPv6 address in brackets: "[::1]:9877"; or a list of several.
        config_file: TLS certificates and users, in the format of Prometheus exporters.
        route_prefix: prefix of all paths, for example "/streameval".
        allowed_hosts: accepted Host headers, "*.example.com" for a whole domain; checked only
            without users.
        first_exposure: time for which a new counter stays at 0, so that every Prometheus sees it;
            at least two scrape intervals.
    """

    listen: str | list[str] = "127.0.0.1:9877"
    config_file: str | None = None
    route_prefix: str = "/"
    allowed_hosts: list[str] = []
    first_exposure: str = "60s"

    def _problems(self) -> Iterator[tuple[str, str]]:
        # config_file is not read here: only the daemon's user may have permission to.
        if not self.addresses:
            yield "listen", 'found []; give at least one address, for example "127.0.0.1:9877".'
        for address in self.addresses:
            if host_and_port(address) is None:
                how = "write HOST:PORT, for example '127.0.0.1:9877' or '[::1]:9877'"
                yield "listen", f"found {address!r}; {how}."
        for address in sorted(set(self.addresses)):
            if self.addresses.count(address) > 1 and not address.endswith(":0"):
                yield "listen", f"found {address!r} twice; give each address once."
        for address in self.allowed_hosts:
            if not _HOST.fullmatch(address):
                problem = "give a name without port, for example 'eval.example' or '*.example'."
                yield "allowed_hosts", f"found {address!r}; {problem}"
        steps = self.route_prefix.split("/")
        if not _PREFIX.fullmatch(self.route_prefix) or "." in steps or ".." in steps:
            problem = "give a path that begins with a slash, for example '/streameval'."
            yield "route_prefix", f"found {self.route_prefix!r}; {problem}"
        yield from durations({"first_exposure": self.first_exposure}, 0)

    @property
    def addresses(self) -> list[str]:
        """The addresses to listen on."""
        return [self.listen] if isinstance(self.listen, str) else self.listen

    @property
    def hosts(self) -> list[str]:
        """Accepted host names: those of `listen`, and `allowed_hosts`."""
        split_addresses = map(host_and_port, self.addresses)
        return [
            *(host_port[0] for host_port in split_addresses if host_port is not None),
            *self.allowed_hosts,
        ]

    @property
    def prefix(self) -> str:
        """The prefix of all paths: "", or a path without a trailing slash."""
        return self.route_prefix.rstrip("/")


class WindowsOptions(_Table, frozen=True, kw_only=True):
    """Spans of event time to report, in addition to the lifetime.

    Attributes:
        spans: for example "5m", "1h", "7d": multiples of `pane`, above 2h of an hour. The text as
            written is the name of the window on all surfaces.
        lateness: an event at most this far behind the clock still counts in every window.
        pane: smallest span stored; divides an hour.
    """

    spans: list[str]
    lateness: str = "2m"
    pane: str = "1m"

    def _problems(self) -> Iterator[tuple[str, str]]:
        spans = {f"spans[{index}]": span for index, span in enumerate(self.spans)}
        yield from durations({"pane": self.pane, **spans})
        yield from durations({"lateness": self.lateness}, 0)
        pane = duration_of(self.pane)
        if HOUR % pane:
            allowed = "'10s', '1m', '5m', '15m' or '1h'"
            yield "pane", f"found {self.pane!r}; it must divide an hour, like {allowed}."
        lengths = list(map(duration_of, self.spans))
        for (key, text), length in zip(spans.items(), lengths, strict=True):
            first = lengths.index(length)
            if key != f"spans[{first}]":
                yield key, f"{text!r} repeats windows.spans[{first}]; remove one."
            if length % pane:
                yield key, f"{text!r} is not a multiple of the pane, {self.pane!r}."
            elif length > FINE and length % HOUR:
                yield key, f"found {text!r}; a span above 2h must be a multiple of 1h."


class MetricOptions(_Table, frozen=True, kw_only=True):
    """A metric for only some labels, windows or segments.

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
        return durations({f"windows[{index}]": text for index, text in windows})


class StateOptions(Policies, _Table, frozen=True, kw_only=True):
    """The store of checkpoints, how often they are written, and policies for restoring them.

    Attributes:
        path: a folder that all replicas can write; or object storage: "s3://BUCKET/PREFIX",
            "gs://BUCKET/PREFIX" or "az://CONTAINER/PREFIX", with credentials of the environment
            or of the machine.
        interval: time between checkpoints; longer if they would take more than 5 % of the time.
        endpoint: URL of an object storage other than the cloud's default.
        region: of the bucket, for s3://; None: from the environment.
        allow_http: whether `endpoint` may be without TLS.
        timeout: limit for a request to object storage, and for its retries.
    """

    path: str
    interval: str = "10s"
    endpoint: str | None = None
    region: str | None = None
    allow_http: bool = False
    timeout: str = "15s"

    def _problems(self) -> Iterator[tuple[str, str]]:
        yield from durations({"interval": self.interval}, 0)
        yield from durations({"timeout": self.timeout})
        if not self.path:
            yield "path", 'found an empty text; name a folder, for example path = "state".'
        yield from bucket_problems(self.path, self.bucket)

    @property
    def bucket(self) -> BucketOptions:
        """The connection to object storage."""
        timeout = duration_of(self.timeout) / SECOND
        return BucketOptions(self.endpoint, self.region, self.allow_http, timeout)


class DeadLetterOptions(_Table, frozen=True, kw_only=True):
    """The destination of invalid records, and the limits at which the daemon stops.

    Attributes:
        topic: a topic of the same cluster; None: `<input>.dlq` for each topic read.
        max_ratio: the daemon stops above this share of invalid records.
        max_run: the daemon stops above this many invalid records in a row.
    """

    topic: str | None = None
    max_ratio: Annotated[float, Meta(gt=0, le=1)] = 0.05
    max_run: Annotated[int, Meta(ge=1)] = 1000


class LogOptions(_Table, frozen=True, kw_only=True):
    """Options of the log.

    Attributes:
        level: lowest level that is logged.
        previews: whether log lines, messages and the page may quote records; without, an invalid
            record is named by its log and offset, and its reason holds no value.
    """

    level: Literal["debug", "info", "warning", "error"] = "info"
    previews: bool = True


class PopularityOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Number of users who interacted with each item before.

    Attributes:
        path: a file of "item,count" lines; plain, .gz or .zst. A header line is skipped.
        users: number of users; None: the sum of the counts.
        version: name of the counts, under which items may be added to the file; None: a changed
            file is another input.
    """

    path: str
    users: Annotated[float, Meta(gt=0)] | None = None
    version: Annotated[str, Meta(min_length=1)] | None = None


class SimilarityOptions(_Table, frozen=True, kw_only=True):
    """Similarity of pairs of items, from one of two files.

    Attributes:
        vectors: a file of "item,x1,x2,..." lines; similarity is the cosine.
        pairs: a file of "item,item,similarity" lines; other pairs are 0.
        version: name of the content, under which items may be added; None: a changed file is
            another input.
    """

    vectors: str | None = None
    pairs: str | None = None
    version: Annotated[str, Meta(min_length=1)] | None = None

    def _problems(self) -> Iterator[tuple[str, str]]:
        if (self.vectors is None) == (self.pairs is None):
            yield "", "give either vectors or pairs."


class TierOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Tiers of items by popularity: "head", "mid" and "tail".

    Attributes:
        head: share of the known items that are most popular.
        tail: share of the known items that are least popular; unknown items belong to it.
    """

    head: Annotated[float, Meta(ge=0, le=1)] = 0.2
    tail: Annotated[float, Meta(ge=0, le=1)] = 0.5


class AttributeOptions(_Table, frozen=True, kw_only=True):
    """An attribute of items, for metrics with `by` or `among`: genres, providers, tiers.

    Attributes:
        path: a file of "item,value" lines, several for an item with several values; plain, .gz or
            .zst. A header line is skipped.
        popularity: instead of a file, tiers of [popularity].
        version: name of the content, under which items may be added; None: a changed file is
            another input.
    """

    path: str | None = None
    popularity: TierOptions | None = None
    version: Annotated[str, Meta(min_length=1)] | None = None

    def _problems(self) -> Iterator[tuple[str, str]]:
        if (self.path is None) == (self.popularity is None):
            yield "", "give either path or popularity."
        if self.popularity is not None and self.popularity.head + self.popularity.tail > 1:
            yield "popularity", "head and tail together are more than all items; lower one."


_HEADERS: Final = frozenset({"item", "itemid", "iid", "id", "productid", "sku"})
"""Column names in the first line of a file of items, without _."""


def looks_like_header(text: str) -> bool:
    """True if the text in the first line of a file is the name of its column, and no item."""
    return text.strip().lower().replace("_", "") in _HEADERS


def attribute(
    name: str,
    options: AttributeOptions,
    item_counts: Popularity | None,
    as_id: Callable[[str], Id],
) -> Attribute:
    """The attribute in a file, or the tiers of a popularity.

    The first line is a header if it names the items' column, or has the attribute's name.

    Raises:
        SourceError: the file cannot be read, or has a wrong line.
        MetricError: a value is not valid, or there are tiers and no popularity.
    """
    if options.path is None:
        tiers = options.popularity or TierOptions()
        if item_counts is None:
            raise MetricError("tiers need the items' popularity; give [popularity].")
        return Attribute.tiers(
            item_counts,
            head=tiers.head,
            tail=tiers.tail,
            version=options.version or item_counts.version,
        )
    values: dict[Id, list[str]] = {}

    def header(row: list[str]) -> bool:
        return looks_like_header(row[0]) or row[1:2] == [name]

    def read(row: list[str]) -> tuple[Id, str]:
        item, value = as_id(row[0]), row[1].strip()
        if not value:
            raise ValueError(f"item {row[0]!r:.80} has an empty value")
        if value in values.get(item, ()):
            raise ValueError(f"item {row[0]!r:.80} has the value {value!r:.80} twice")
        return item, value

    for item, value in _rows(options.path, 2, read, header=header):
        values.setdefault(item, []).append(value)
    if not values:
        raise SourceError(options.path, "no line with an item", "give one line for each item")
    return Attribute(values, version=options.version)


def popularity(options: PopularityOptions, as_id: Callable[[str], Id]) -> Popularity:
    """The popularity in a file."""
    rows = _rows(options.path, 2, lambda row: (as_id(row[0]), _number(row[1])))
    counts = _unique(options.path, rows)
    return Popularity(counts, users=options.users, version=options.version)


def similarity(options: SimilarityOptions, as_id: Callable[[str], Id]) -> Similarity:
    """The similarity in a file."""
    if options.vectors is not None:
        rows = _rows(options.vectors, 2, lambda row: (as_id(row[0]), list(map(_number, row[1:]))))
        vectors = _unique(options.vectors, rows)
        return Similarity(list(vectors), vectors=list(vectors.values()), version=options.version)
    pairs = _rows(
        str(options.pairs), 3, lambda row: ((as_id(row[0]), as_id(row[1])), _number(row[2]))
    )
    return Similarity.of_pairs(_unique(str(options.pairs), pairs), version=options.version)


def _unique(path: str, rows: Iterable[tuple[K, T]]) -> dict[K, T]:
    unique: dict[K, T] = {}
    for key, value in rows:
        if key in unique:
            raise SourceError(path, f"{key!r:.80} appears twice", "give one line for each")
        unique[key] = value
    if not unique:
        raise SourceError(path, "no line with an item", "give one line for each item")
    return unique


def _rows(
    path: str,
    columns: int,
    read: Callable[[list[str]], T],
    *,
    header: Callable[[list[str]], bool] | None = None,
) -> Iterator[T]:
    """The rows of a table.

    `header`: whether the first line is a header; by default it is one if it cannot be read.
    """
    rows = csv.reader(_decode_lines(path))
    for number in count(1):
        try:
            row = next(rows, None)
            if row is None:
                return
            if not row or (number == 1 and header is not None and header(row)):
                continue
            if len(row) < columns:
                problem = f"found {len(row)} columns, and {columns} are needed"
                raise ValueError(problem)  # noqa: TRY301  caught below to add the line number
            yield read(row)
        except (ValueError, csv.Error) as error:
            if number > 1 or header is not None or isinstance(error, csv.Error):
                raise SourceError(f"{path}:{number}", str(error), "correct the line") from None


def _decode_lines(path: str) -> Iterator[str]:
    for number, line in enumerate(lines(path), 1):
        try:
            yield line.decode()
        except UnicodeDecodeError:
            raise SourceError(f"{path}:{number}", "not UTF-8", "convert the file") from None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        message = f"{text!r} is not a number"
        raise ValueError(message) from None
