"""Where reading begins: what `start` says, and what given positions say."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from kafka.admin import OffsetSpec

from streameval.errors import ConfigError, SourceError
from streameval.records import Partition

EARLIEST: Final = int(OffsetSpec.EARLIEST)
LATEST: Final = int(OffsetSpec.LATEST)

_WAYS: Final = (
    'write "earliest", "latest", or a time with its offset like "2026-01-31T08:00:00+00:00".'
)


def start_spec(text: str, *, path: str = "source") -> int:
    """What to ask the broker for: EARLIEST, LATEST, or milliseconds since the epoch.

    Raises:
        ConfigError: the text is neither, or a time without its offset from UTC.

    >>> start_spec("1970-01-01T00:00:01Z")
    1000
    """
    known = {"earliest": EARLIEST, "latest": LATEST}
    if text in known:
        return known[text]
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(path, "start", f"found {text!r}; {_WAYS}") from None
    if moment.tzinfo is None:
        raise ConfigError(path, "start", f"found {text!r}, which has no offset from UTC; {_WAYS}")
    if moment < datetime.fromtimestamp(0, UTC):
        raise ConfigError(path, "start", f"found {text!r}, which is before 1970; {_WAYS}")
    return round(moment.timestamp() * 1000)


def checked_positions(
    positions: Mapping[Partition, int],
    begins: Mapping[Partition, int],
    ends: Mapping[Partition, int],
) -> dict[Partition, int]:
    """The positions given for partitions in `begins`, each found inside its log.

    Raises:
        SourceError: a position lies before the first or after the last record.
    """
    given = {partition: positions[partition] for partition in begins if partition in positions}
    for partition, offset in given.items():
        _check(partition, offset, (begins[partition], ends[partition]))
    return given


def _check(partition: Partition, offset: int, extent: tuple[int, int]) -> None:
    begin, end = extent
    where = f"reading was to go on at offset {offset}, but"
    if offset < begin:
        raise SourceError(
            str(partition),
            f"{where} the topic now begins at {begin}: {begin - offset} were deleted unread",
            "start anew where `start` says, and give the topic a longer retention",
        )
    if offset > end:
        raise SourceError(
            str(partition),
            f"{where} the topic ends at {end}",
            "it was made again, or lost records; start anew where `start` says",
        )
