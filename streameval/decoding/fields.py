"""The [event] table of the configuration: the fields of a record."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta

from streameval.decoding.values import MAX_LABEL_BYTES, label_text
from streameval.events import LARGEST_GAIN, Combine
from streameval.events.problems import check_types

MAX_LENGTH: Final = 2**31 - 1
"""Highest limit of lengths; the decoder takes no other."""

MAX_HISTORY: Final = 10_000
"""Longest history accepted: ten times the longest list, as most of it is read with each list."""

SHOWN: Final = "shown"
"""Value of the label `ranker` for the list that was shown."""

TimeUnit: TypeAlias = Literal["s", "ms", "us", "iso8601"]

LISTS_OF_EVENTS: Final = {
    "miscalibration": ("history", "each user's history"),
    "overlap": ("rankers", "the lists of rankers that were not shown"),
    "serendipity": ("baseline", "each list's baseline"),
    "unexpectedness": ("baseline", "each list's baseline"),
    "user_novelty": ("history", "each user's history"),
}
"""Metric -> the key of [event] without which it has no value, and the content of the field."""

_FIELDS: Final = (
    *("recommendations", "interactions", "user", "time", "event_id"),
    *("positions", "scores", "baseline", "history", "gains"),
)

ONE_VALUE: Final = frozenset({"user", "time", "event_id", "labels"})
"""Fields, or the tables of fields, whose paths lead to one value; the others lead to lists."""

Format: TypeAlias = Literal["json", "avro", "protobuf", "json-schema"]


class EventFields(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Paths like "payload.items[].id" of the fields of an event.

    Attributes:
        format: "json", or Confluent's wire format; "avro" needs [registry], "protobuf" needs
            `message`.
        message: generated class of Protobuf records, "package.module:Class".
        decoder: function "package.module:function" from the bytes of a record to what JSON would
            give; for any other format.
        recommendations: the list shown: ids, or objects.
        item: an object's item id in that list.
        score: an object's score in that list.
        interactions: of the user: ids, id -> gain, or objects.
        interaction_item: an object's item id in interactions.
        gain: an object's gain; 1 if absent.
        gains: gains in a separate list, one for each interaction that is an id; 1 if absent or
            null. None: there is no such field.
        type: an object's type of interaction.
        types: type -> gain of interactions of that type without an explicit gain. Other types do
            not count, and an interaction without a type is invalid. None: all types count alike.
        combine: gain of several interactions with one item: the largest, or the sum.
        user: who saw the list; unknown if absent, null or empty.
        time: event time.
        time_unit: unit of `time`, required with it. Timestamps of an Avro or Protobuf schema are
            converted to it.
        event_id: identity of the event.
        positions: ranks of the items; 1, 2, 3, ... if absent.
        scores: scores in a separate list.
        baseline: another recommender's list.
        history: items that the user knew before the list; unknown if absent or null.
        per_item: name -> path of a list with one number, word or null for each item shown, such as
            its propensity.
        rankers: name -> path of the list of a ranker that was not shown, as in recommendations.
            Each list is counted separately, with the label `ranker`; see
            docs/how-to/shadow-rankers.md.
        labels: label or segment -> path, if its field has another name.
        ids: "string" (JSON integers become their decimal text) or "integer".
        max_recommendations: longest list accepted.
        max_interactions: most interactions accepted.
    """

    format: Format = "json"
    message: str | None = None
    decoder: str | None = None
    recommendations: str = "recommendations"
    item: str = "id"
    score: str = "score"
    interactions: str = "interactions"
    interaction_item: str = "id"
    gain: str = "gain"
    gains: str | None = "gains"
    type: str = "type"
    types: dict[str, float] | None = None
    combine: Combine = "max"
    user: str = "user"
    time: str | None = None
    time_unit: TimeUnit | None = None
    event_id: str | None = None
    positions: str | None = None
    scores: str | None = None
    baseline: str | None = None
    history: str | None = None
    per_item: dict[str, str] | None = None
    rankers: dict[str, str] | None = None
    labels: dict[str, str] = {}
    ids: Literal["string", "integer"] = "string"
    max_recommendations: Annotated[int, Meta(ge=1, le=MAX_LENGTH)] = 1000
    max_interactions: Annotated[int, Meta(ge=1, le=MAX_LENGTH)] = 1000

    def __post_init__(self) -> None:
        check_types(self, self._problems())
        if self.rankers is not None:
            # A join stores their lists by index, and settings are equal in any order.
            msgspec.structs.force_setattr(self, "rankers", dict(sorted(self.rankers.items())))

    def _problems(self) -> Iterator[tuple[str, str]]:
        """Incomplete formats, invalid gains, and rankers with names or paths already in use."""
        yield from encoding_problems(*self.encoding)
        if self.types is not None and not self.types:
            yield "types", "no type is named, so nothing would count; name some, or remove it."
        yield from gain_problems(self.types or {})
        first = {self.recommendations: "the list shown"}
        for name, path in (self.rankers or {}).items():
            key, size = f"rankers.{name}", len(name.encode())
            if name == SHOWN:
                yield key, f"{SHOWN!r} is the label of the list shown; choose another name."
            elif size > MAX_LABEL_BYTES:
                yield key, f"it has {size} bytes; at most {MAX_LABEL_BYTES} are accepted."
            elif label_text(name) != name or not name.isprintable():
                yield key, f"{name!r} is not a name of a ranker; choose another one."
            if path in first:
                yield key, f"{path!r} is the field of {first[path]}; name that of this ranker."
            first[path] = f"the ranker {name!r}"

    @property
    def ranker_names(self) -> tuple[str, ...]:
        """The names of the rankers that were not shown."""
        return tuple(self.rankers or ())

    def paths(self, dimensions: Sequence[str]) -> list[tuple[str, str]]:
        """Key and path of each configured field of a record, also of `dimensions`."""
        named = (
            *((f"per_item.{name}", path) for name, path in (self.per_item or {}).items()),
            *((f"rankers.{name}", path) for name, path in (self.rankers or {}).items()),
            *((f"labels.{name}", self.labels.get(name, name)) for name in dimensions),
        )
        paths = ((key, getattr(self, key)) for key in _FIELDS)
        return [*((key, path) for key, path in paths if path is not None), *named]

    @property
    def encoding(self) -> tuple[Format, str | None, str | None]:
        """Format, message and decoder."""
        return self.format, self.message, self.decoder


def encoding_problems(
    format_: Format, message: str | None, decoder: str | None
) -> Iterator[tuple[str, str]]:
    """A message or decoder without a format that has it, and the reverse."""
    if decoder is not None and format_ != "json":
        yield "decoder", f"format = {format_!r} decodes these records; remove one of them."
    if (format_ == "protobuf") != (message is not None):
        problem = "is for format = 'protobuf'; remove it, or give that format."
        if message is None:
            problem = "missing; give the generated class as 'package.module:Class'."
        yield "message", problem
    for key, value in (("message", message), ("decoder", decoder)):
        if value is not None and not re.fullmatch(r"[\w.]+:\w+", value):
            yield key, f"found {value!r}; give 'package.module:name'."


def gain_problems(types: Mapping[str, float]) -> Iterator[tuple[str, str]]:
    """Gains of types that no interaction can have."""
    for name, gain in types.items():
        if not abs(gain) <= LARGEST_GAIN:
            yield f"types.{name}", f"found {gain}; a gain is a number up to 2^1000."
