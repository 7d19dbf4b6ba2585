"""Which checkpoints of a place are kept."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final, NamedTuple

HOUR: Final = 3_600.0
DAY: Final = 24 * HOUR
WEEK: Final = 7 * DAY


class Aged(NamedTuple):
    """A checkpoint file, as far as it matters to keeping it.

    Attributes:
        offset: that it covers.
        version: of its format; None where it cannot be read.
        written_at: seconds since the epoch, as its header says.
    """

    offset: int
    version: int | None
    written_at: float


def kept(files: Sequence[Aged], now: float, history: float) -> set[int]:
    """Offsets of the files to keep: the rest may go.

    These are the two of the highest offsets, the highest of each version of the format (the way
    back to another release), the highest of each hour of the last day, and of each day within
    `history`. Files that cannot be read are not kept.

    Args:
        files: of one place, in any order.
        now: seconds since the epoch.
        history: seconds.

    Example:
        >>> hourly = [Aged(offset, 1, offset * 1800.0) for offset in range(1, 9)]
        >>> sorted(kept(hourly, now=8 * 1800.0, history=WEEK))
        [1, 3, 5, 7, 8]
        >>> sorted(kept(hourly, now=8 * 1800.0, history=0))
        [7, 8]
    """
    readable = sorted((each for each in files if each.version is not None), reverse=True)
    chosen: dict[Hashable, int] = {}
    for each in readable:
        for reason in ("version", each.version), _period(each, now, history):
            chosen.setdefault(reason, each.offset)
    chosen.pop(None, None)
    return {each.offset for each in readable[:2]} | set(chosen.values())


def _period(file: Aged, now: float, history: float) -> Hashable:
    age = now - file.written_at
    if age > history:
        return None
    span = HOUR if age <= DAY else DAY
    return span, file.written_at // span
