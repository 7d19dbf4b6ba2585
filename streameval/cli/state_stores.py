"""What the commands of `streameval state` have in common."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from streameval.cli.ending import WrongCallError
from streameval.stores.folder import FolderStore
from streameval.stores.naming import CLAIM


def store_at(path: Path) -> FolderStore:
    """The store in a folder.

    Raises:
        WrongCallError: there is none.
    """
    if not (path / CLAIM).is_file():
        raise WrongCallError(
            f"{path}: no store of checkpoints, for it has no {CLAIM}; "
            "give the folder that [state] path names."
        )
    return FolderStore(path)


def moment(seconds: float) -> str:
    """A time as people write it, UTC.

    Example:
        >>> moment(1750000000.25)
        '2025-06-15T15:06:40Z'
    """
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return f"{seconds:.0f}s"


def clock_text(clock: int | None) -> str:
    """An event time as people write it.

    Example:
        >>> clock_text(1750000000_000000), clock_text(None)
        ('2025-06-15T15:06:40Z', 'none')
    """
    return "none" if clock is None else moment(clock / 1e6)


def age_text(seconds: float) -> str:
    """An age in the largest unit of which there are two.

    Example:
        >>> age_text(7.25), age_text(7300), age_text(3e6), age_text(-3)
        ('7s', '2h', '35d', '-3s')
    """
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f}{unit}"
    return f"{seconds:.0f}s"
