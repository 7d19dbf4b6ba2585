"""Dead letters: records that are no events, kept so that they can be looked at and mended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias

import msgspec

from streameval.pipeline.invalid import InvalidEvent, Reason
from streameval.records import Origin, Partition, RecordBatch

ORIGINAL: Final = "streameval.original"
"""Header of a replayed record: names the record that it was copied from."""

MESSAGE_BYTES: Final = 1_000
"""Longest message of a letter, as UTF-8."""

Stage: TypeAlias = Literal["decode", "validate", "process"]
"""What failed: reading the bytes, judging what they say, or what came after."""

_OF_DECODING: Final = frozenset[Reason](
    {"not_utf8", "not_json", "nested_too_deeply", "not_an_object", "number_too_large"}
)
_NO_ORIGIN: Final = Origin(None, ())


class Identity(NamedTuple):
    """Which record: all that tells two dead letters apart.

    Attributes:
        partition: where it lies.
        offset: its offset there.

    >>> str(Identity(Partition("events", 3), 14))
    'events/3/14'
    >>> Identity.of("events/3/14").partition
    Partition(topic='events', number=3)
    """

    partition: Partition
    offset: int

    def __str__(self) -> str:
        return f"{self.partition.topic}/{self.partition.number}/{self.offset}"

    @classmethod
    def of(cls, text: str) -> Identity:
        """The record that a text names.

        Raises:
            ValueError: it is not TOPIC/PARTITION/OFFSET.
        """
        topic, *numbers = text.rsplit("/", 2)
        if not topic or len(numbers) != 2 or not all(map(_is_number, numbers)):
            raise ValueError(f"found {text!r} where TOPIC/PARTITION/OFFSET is needed")
        number, offset = map(int, numbers)
        return cls(Partition(topic, number), offset)


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A record that is no event, as it was, and why.

    Attributes:
        partition: where it lies.
        offset: its offset there.
        timestamp_ms: when the log took it, milliseconds since the epoch; None where it is unknown.
        key: as it was written.
        headers: as they were written, in their order.
        value: its bytes.
        stage: what failed.
        reason: one of `invalid.REASONS`, or a word of whoever else refused it.
        message: which field, and what was found there; at most `MESSAGE_BYTES` as UTF-8.
    """

    partition: Partition
    offset: int
    timestamp_ms: int | None
    key: bytes | None
    headers: tuple[tuple[str, bytes], ...]
    value: bytes
    stage: Stage
    reason: str
    message: str

    @property
    def identity(self) -> Identity:
        """Which record it is."""
        return Identity(self.partition, self.offset)

    @property
    def original(self) -> Identity:
        """The record that was written first: itself, unless a replay wrote it.

        So a record that is replayed and rejected again keeps its name, and the next replay writes
        it once.
        """
        for name, value in self.headers:
            if name == ORIGINAL:
                try:
                    return Identity.of(value.decode())
                except ValueError:
                    return self.identity
        return self.identity


class DeadLetters(Protocol):
    """Where dead letters go; each arrives at least once.

    Several threads may use one.
    """

    def send(self, letters: Sequence[DeadLetter]) -> None:
        """Take letters; they are safe only after `flush`.

        Raises:
            DeadLetterError: so many wait to be made safe that no more can be held; none of these
                is taken.
        """

    def flush(self) -> None:
        """Return when every letter sent before is safe.

        Raises:
            DeadLetterError: it cannot be made so now; whatever may not be safe is kept, and is
                written by the next flush.
        """

    def close(self) -> None:
        """Let go of the destination, without a flush; may be called twice."""


def letters_of(batch: RecordBatch, invalid: Sequence[tuple[int, InvalidEvent]]) -> list[DeadLetter]:
    """The letters of a batch's invalid records: their places in it, and why."""
    return [_letter(batch, place, event) for place, event in invalid]


def _letter(batch: RecordBatch, place: int, event: InvalidEvent) -> DeadLetter:
    origin = batch.origin(place) if batch.origin else _NO_ORIGIN
    return DeadLetter(
        partition=batch.partition,
        offset=batch.offsets[place],
        timestamp_ms=batch.timestamps[place] if batch.timestamps else None,
        key=origin.key,
        # A log may hold a header without a value; none can be written.
        headers=tuple((name, value or b"") for name, value in origin.headers),
        value=batch.values[place] or b"",
        stage="decode" if event.reason in _OF_DECODING else "validate",
        reason=event.reason,
        message=_short(event.detail),
    )


def _short(text: str) -> str:
    """As much of the text as `MESSAGE_BYTES` of UTF-8 hold; half a surrogate is spelt out."""
    return text.encode("utf-8", "backslashreplace")[:MESSAGE_BYTES].decode("utf-8", "ignore")


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 20
