"""The [attribution] table: the streams to join, the rules, and the outcomes of records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Annotated, Any, Final, Literal, Protocol, Self, TypeAlias

import msgspec
from msgspec import Meta

from streameval.decoding.fields import EventFields, Format, TimeUnit, gain_problems
from streameval.engine.clock import Int64
from streameval.engine.windows.labels import OTHER
from streameval.engine.windows.times import SECOND, duration_of, duration_problem
from streameval.events import Combine
from streameval.events.previews import preview
from streameval.events.problems import check_types

AttributionKey: TypeAlias = Literal["request_id", "user_item"]
"""The key of the join: an interaction names its list, or a user and an item."""

FOREVER: Final = 2**62
"""After every event time, microseconds: the watermark when no more records come."""


LAYOUT: Final = 3
"""Version of the state of a join. Release 0.2.0 had none."""


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """The rules of [attribution], see `AttributionOptions`; durations in microseconds.

    Attributes:
        per: indices of the labels by which "user_item" attributes separately.
        needs_users: whether the join or metrics need users.
    """

    key: AttributionKey
    window: int
    lateness: int
    combine: Combine
    per: tuple[int, ...]
    max_open: int
    max_bytes: int
    needs_users: bool

    @property
    def bucket(self) -> int:
        """Width of a bucket, microseconds of event time."""
        return min(max(self.window // 64, 1_000_000), 60_000_000)


Outcome: TypeAlias = Literal[
    "counted", "duplicate", "late", "future", "orphan", "ignored", "invalid", "tombstone"
]
"""The outcome of a record; it is open until its window ends."""

OUTCOMES: Final[dict[Outcome, str]] = {
    "counted": "It is part of an event that was counted.",
    "duplicate": "An earlier record has its request id, or its key and event id.",
    "late": "It is behind the clock of its log by more than the lateness.",
    "future": "It is far ahead of the clock of its log, and the next records do not confirm it.",
    "orphan": "No list that it could belong to was shown in the window before it.",
    "ignored": "Its type does not count.",
    "invalid": "It is not a valid impression or interaction; see the reasons.",
    "tombstone": "It has no value.",
}
"""Each outcome with its explanation."""


class OutcomeCounts(msgspec.Struct, kw_only=True, gc=False):
    """Records of one stream by outcome.

    Attributes:
        outside: counted interactions with items that their list did not show.

    >>> counts = OutcomeCounts(records=3, counted=1, late=1)
    >>> counts.open
    1
    """

    records: Int64 = 0
    counted: Int64 = 0
    duplicate: Int64 = 0
    late: Int64 = 0
    future: Int64 = 0
    orphan: Int64 = 0
    ignored: Int64 = 0
    invalid: Int64 = 0
    tombstone: Int64 = 0
    outside: Int64 = 0

    @property
    def open(self) -> int:
        """Records without an outcome yet."""
        closed: int = sum(getattr(self, name) for name in OUTCOMES)
        return self.records - closed

    def plus(self, other: Self, sign: int = 1) -> Self:
        """The sum with another one, or the difference to it with the sign -1."""
        return type(self)(
            **{
                name: getattr(self, name) + sign * getattr(other, name)
                for name in self.__struct_fields__
            }
        )


class TypeRule(Protocol):
    """The types of interactions that count; see `InteractionOptions`."""

    @property
    def types(self) -> Mapping[str, float]:
        """Type -> gain; if there are any, other types do not count."""
        ...

    @property
    def ignore(self) -> Sequence[str]:
        """Types that do not count."""
        ...


def counts_type(rule: TypeRule, name: str | None) -> bool:
    """True if interactions of a type count; None: without a type."""
    return name not in rule.ignore and (not rule.types or name in rule.types)


def is_unnamed(rule: TypeRule, name: str | None) -> bool:
    """True if a type does not count, although `ignore` does not name it: perhaps it is misspelt."""
    return name is not None and name not in rule.ignore and not counts_type(rule, name)


_MOST_TYPES: Final = 64


def count_types(counts: dict[str, int], names: Iterable[str], number: int = 1) -> None:
    """Count types by their previews; those of more than 64 are counted as `__other__`."""
    for name in map(preview, names):
        key = name if name in counts or len(counts) < _MOST_TYPES else OTHER
        counts[key] = counts.get(key, 0) + number


class InteractionOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A stream of interactions; at least one.

    Attributes:
        source: its topic or file, or several, as [source] names them.
        format: of its records; None: as in [event], with its message and decoder.
        message: generated class of its Protobuf records.
        decoder: function that decodes its records.
        request_id: path of the list's id, with that key.
        user: path of the user, with the key "user_item"; None: as in [event].
        item: path of the item's id.
        time: path of event time, with its time_unit; None: both as in [event].
        time_unit: unit of event time, with its time; None: both as in [event].
        event_id: path of its id; of several records with one id and key, only the earliest counts.
        type: path of its type, for example "click".
        gain: path of its gain; without one, its type determines the gain.
        types: type -> gain; other types do not count.
        ignore: types that do not count.
    """

    source: str | list[str]
    format: Format | None = None
    message: str | None = None
    decoder: str | None = None
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

    def encoding(self, event: EventFields) -> tuple[Format, str | None, str | None]:
        """Format, message and decoder of its records: its own, or else those of [event]."""
        if self.decoder is not None or self.format is not None:
            format_ = self.format or "json"
            message = event.message if event.format == format_ else None
            return format_, self.message or message, self.decoder
        if self.message is not None:
            return event.format, self.message, None
        return event.encoding

    def __post_init__(self) -> None:
        check_types(self, self._problems())

    def _problems(self) -> Iterator[tuple[str, str]]:
        """A time without its unit, too large gains, and types that are also ignored."""
        if (self.time is None) != (self.time_unit is None):
            yield "time", "give time and time_unit together, or neither."
        yield from gain_problems(self.types)
        for name in self.ignore:
            if name in self.types:
                yield "ignore", f"{name!r} has a gain in types; it cannot do both."

    @property
    def sources(self) -> list[str]:
        """Its topics or files."""
        return [self.source] if isinstance(self.source, str) else self.source


class AttributionOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Streams of impressions and interactions that are joined to events.

    Records of impressions are read as [event] says, without interactions.

    Attributes:
        impressions: topic or file of the lists shown, or several, as [source] names them.
        interactions: streams of interactions.
        key: "request_id": an interaction names its list; "user_item": it belongs to the latest
            list that showed the item to the user.
        request_id: path of the id in impressions; of several with one id, only the earliest
            counts. None: "request_id" with that key.
        window: longest time from a list to an interaction that counts.
        lateness: a record further behind its log's clock is late; one as far ahead is accepted.
        idle_timeout: stop waiting for a log without records for this long, by the wall clock;
            None: never.
        combine: gain of several interactions with one item: the largest, or the sum.
        per: labels by which "user_item" attributes separately.
        max_open: most records that may wait in each partition.
        max_bytes: most bytes of memory that they may take, approximately.
    """

    impressions: str | list[str]
    interactions: Annotated[list[InteractionOptions], Meta(min_length=1)]
    key: AttributionKey = "request_id"
    request_id: str | None = None
    window: str = "30m"
    lateness: str = "2m"
    idle_timeout: str | None = None
    combine: Combine = "max"
    per: list[str] = []
    max_open: Annotated[int, Meta(ge=1)] = 1_000_000
    max_bytes: Annotated[int, Meta(ge=1)] = 1_000_000_000

    def __post_init__(self) -> None:
        check_types(self, self._problems())

    def _problems(self) -> Iterator[tuple[str, str]]:
        """Invalid durations, sources that are missing or used twice, and a needless `per`."""
        for key, least in (("window", SECOND), ("idle_timeout", SECOND), ("lateness", 0)):
            text = getattr(self, key)
            if text is not None and (problem := duration_problem(text, least)):
                yield key, problem
        if self.per and self.key == "request_id":
            yield "per", 'a request id names one list; per is for key = "user_item".'
        named = list(chain.from_iterable(self.streams))
        for key, names in self.named_streams():
            if not names:
                yield key, "nothing is named; give a topic or a file."
            for name in names:
                if named.count(name) > 1:
                    yield key, f"{name!r} is in two streams; each topic or file belongs to one."

    def named_streams(self) -> Iterator[tuple[str, list[str]]]:
        """The key of each stream, and its topics or files."""
        keys = [f"interactions[{index}].source" for index in range(len(self.interactions))]
        return zip(["impressions", *keys], self.streams, strict=True)

    @property
    def streams(self) -> list[list[str]]:
        """Topics or files of each stream, that of impressions first."""
        impressions = [self.impressions] if isinstance(self.impressions, str) else self.impressions
        return [impressions, *(interaction.sources for interaction in self.interactions)]

    @property
    def names(self) -> list[str]:
        """The name of each stream: that of its first topic or file."""
        return [stream[0] for stream in self.streams]

    def rules(self, labels: Sequence[str], *, users: bool) -> Rules:
        """The rules of the join.

        `labels`: all labels and segments. `users`: whether metrics need users.
        """
        return Rules(
            key=self.key,
            window=duration_of(self.window),
            lateness=duration_of(self.lateness),
            combine=self.combine,
            per=tuple(map(labels.index, self.per)),
            max_open=self.max_open,
            max_bytes=self.max_bytes,
            needs_users=users or self.key == "user_item",
        )

    def fields(self, event: EventFields) -> EventFields:
        """Fields of an impression: those of an event, with the request id as event id."""
        by_request = "request_id" if self.key == "request_id" else None
        return msgspec.structs.replace(event, event_id=self.request_id or by_request)

    def with_sources(self, names: Mapping[str, Sequence[str]]) -> AttributionOptions:
        """The options with some topics or files replaced; `names`: old name -> new names."""
        impressions, *others = [
            [new for name in stream for new in names.get(name, [name])] for stream in self.streams
        ]
        streams = zip(self.interactions, others, strict=True)
        interactions = [
            msgspec.structs.replace(options, source=sources) for options, sources in streams
        ]
        return msgspec.structs.replace(self, impressions=impressions, interactions=interactions)

    def settings(self) -> dict[str, Any]:
        """The settings that must be the same to resume from a checkpoint."""
        values: dict[str, Any] = msgspec.to_builtins(self)
        may_change = ("idle_timeout", "max_open", "max_bytes")
        for interaction in values["interactions"]:
            for key in ("format", "message", "decoder"):
                if interaction[key] is None:
                    del interaction[key]
        fixed = {name: value for name, value in values.items() if name not in may_change}
        return fixed | {"layout": LAYOUT}
