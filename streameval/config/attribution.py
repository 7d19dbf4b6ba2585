"""The [attribution] table: which streams are joined, and how."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from streameval.pipeline.fields import TimeUnit


class InteractionOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A stream of interactions; at least one.

    Attributes:
        source: its topic or file, or a list of several; as [source] names them.
        request_id: path of the id of the list, where that is the key.
        user: path of the user, where the key is user and item; None means as in [event].
        item: path of the item's id.
        time: path of event time; None means as in [event].
        time_unit: how it is written; None means as in [event].
        event_id: path of its identity, by which it is counted once; None means that it has none.
        type: path of its type, for example "click".
        gain: path of what it is worth; where None or absent in a record, its type says that.
        types: type -> what it is worth; where given, other types do not count.
        ignore: types that do not count.
    """

    source: str | list[str]
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

    @property
    def sources(self) -> list[str]:
        """Its topics or files."""
        return [self.source] if isinstance(self.source, str) else self.source


class AttributionOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Impressions and interactions that lie in streams of their own become events.

    Records of impressions are read as [event] says, without interactions.

    Attributes:
        impressions: topic or file of the lists shown, or a list of several; as [source] names
            them.
        interactions: streams of what people did.
        key: "request_id": an interaction names its list; "user_item": it belongs to the latest
            list that showed the item to the user.
        request_id: path of the id in impressions; None means "request_id" where that is the key,
            and none otherwise.
        window: an interaction counts if it comes so long after its list was shown, or sooner.
        lateness: a record so much older than the newest one of its own log is late.
        idle_timeout: a log without records for so long, by the wall clock, is waited for no
            longer; None waits.
        combine: several interactions with an item of a list are worth the most of them ("max"),
            or all together ("sum").
        per: labels by which "user_item" attributes separately, for example the variant.
        max_open: most records that may wait in each partition.
        max_bytes: most memory that they may take, roughly.
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

    @property
    def streams(self) -> list[list[str]]:
        """Topics or files of each stream, that of impressions first."""
        shown = [self.impressions] if isinstance(self.impressions, str) else self.impressions
        return [shown, *(each.sources for each in self.interactions)]

    @property
    def names(self) -> list[str]:
        """What to call each stream: its first topic or file."""
        return [stream[0] for stream in self.streams]

    def settings(self) -> dict[str, Any]:
        """What must be the same for a saved state to go on."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        beside = ("idle_timeout", "max_open", "max_bytes")
        return {name: value for name, value in plain.items() if name not in beside}


def renamed(options: AttributionOptions, names: Mapping[str, str]) -> AttributionOptions:
    """The same with other names for topics or files; those that are not named keep theirs."""
    shown, *others = [[names.get(each, each) for each in stream] for stream in options.streams]
    streams = zip(options.interactions, others, strict=True)
    replace = msgspec.structs.replace
    interactions = [replace(each, source=there) for each, there in streams]
    return replace(options, impressions=shown, interactions=interactions)


def durations(options: AttributionOptions) -> Iterator[tuple[str, str, int]]:
    """The key of each, its text, and the least it may be in microseconds."""
    second = 1_000_000
    yield "attribution.window", options.window, second
    yield "attribution.lateness", options.lateness, 0
    if options.idle_timeout is not None:
        yield "attribution.idle_timeout", options.idle_timeout, second
