"""A dead letter as a Kafka record: what was there, and headers that say what it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, get_args

from streameval.pipeline.letters import DeadLetter, Stage
from streameval.records import Partition

PREFIX: Final = "streameval.dlq."

HEADERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        f"{PREFIX}topic": "topic of the record",
        f"{PREFIX}partition": "its partition",
        f"{PREFIX}offset": "its offset there",
        f"{PREFIX}timestamp": "its timestamp, milliseconds since the epoch; absent where unknown",
        f"{PREFIX}stage": "`decode`: the bytes could not be read; `validate`: they do not say what "
        "an event says; `process`: what came after",
        f"{PREFIX}reason": "one of the reasons of [invalid events](invalid-events.md)",
        f"{PREFIX}message": "which field, and what was found there; at most 1,000 bytes",
    }
)
"""Name of each header that is added -> what it holds, as UTF-8 text."""


def headers_of(letter: DeadLetter) -> list[tuple[str, bytes]]:
    """The record's own headers, and after them those that say what became of it.

    >>> letter = DeadLetter(partition=Partition("events", 3), offset=14, timestamp_ms=None,
    ...     key=None, headers=(("trace", b"7"),), value=b"{", stage="decode", reason="not_json",
    ...     message="cut off")
    >>> for name, value in headers_of(letter)[:3]:
    ...     print(name, value)
    trace b'7'
    streameval.dlq.topic b'events'
    streameval.dlq.partition b'3'
    """
    texts = {
        "topic": letter.partition.topic,
        "partition": letter.partition.number,
        "offset": letter.offset,
        "timestamp": letter.timestamp_ms,
        "stage": letter.stage,
        "reason": letter.reason,
        "message": letter.message,
    }
    added = [
        (PREFIX + name, str(text).encode()) for name, text in texts.items() if text is not None
    ]
    return [*letter.headers, *added]


def letter_of(
    key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes]]
) -> DeadLetter | None:
    """The letter that a record is; None where it is none.

    Headers of the same names that the original record had are told from the added ones by their
    place: those stand last.
    """
    at = len(headers)
    added: dict[str, str] = {}
    while at and headers[at - 1][0] in HEADERS and headers[at - 1][0] not in added:
        at -= 1
        name, text = headers[at]
        added[name] = (text or b"").decode("utf-8", "replace")
    try:
        return _letter(key, value, headers[:at], added)
    except (KeyError, ValueError):
        return None


def _letter(
    key: bytes | None, value: bytes | None, own: Any, added: Mapping[str, str]
) -> DeadLetter:
    said = {name.removeprefix(PREFIX): text for name, text in added.items()}
    if said["stage"] not in get_args(Stage):
        raise ValueError(said["stage"])
    stage: Any = said["stage"]
    return DeadLetter(
        partition=Partition(said["topic"], int(said["partition"])),
        offset=int(said["offset"]),
        timestamp_ms=int(said["timestamp"]) if "timestamp" in said else None,
        key=key,
        headers=tuple(own),
        value=value or b"",
        stage=stage,
        reason=said["reason"],
        message=said["message"],
    )
