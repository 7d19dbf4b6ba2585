"""The work of `streameval state rewind`."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from typer import Exit

from streameval.cli.ending import FAILED, WrongCallError, output, tell
from streameval.cli.state_stores import clock_text, store_at
from streameval.stores.folder import FolderStore
from streameval.stores.rewinding import Rewind, rewind, rewind_of, written_last

RECENT: Final = 60.0
"""Seconds: six intervals between checkpoints as they usually are."""


def rewound(path: Path, to: str, *, dry_run: bool, force: bool) -> None:
    """Go back in a store, and say so place by place.

    Raises:
        WrongCallError: the path is no store, the time is none, or a process still writes there.
        StoreError: it cannot be read or written.
    """
    store, clock = store_at(path), _clock(to)
    if not (dry_run or force):
        _refuse_while_used(store)
    wanted = [rewind_of(store, place, clock) for place in store.places()]
    for fault in (fault for each in wanted for fault in each.faults):
        tell(fault)
    for each in () if dry_run else wanted:
        rewind(store, each)
    with output():
        sys.stdout.writelines(f"{line}\n" for line in _lines(wanted, clock, dry_run=dry_run))
    if any(each.chosen is None for each in wanted):
        raise Exit(FAILED)


def _clock(text: str) -> int:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise WrongCallError(
            f"--to {text!r} is no time; write it as 2026-01-31T12:00:00Z."
        ) from None
    zoned = found if found.tzinfo else found.replace(tzinfo=UTC)
    return round(zoned.timestamp() * 1e6)


def _refuse_while_used(store: FolderStore) -> None:
    """A process that still runs would save a higher offset, and all of this would be undone."""
    dates = [written_last(store, place) for place in store.places()]
    age = time.time() - max((date for date in dates if date is not None), default=0.0)
    if age < RECENT:
        raise WrongCallError(
            f"{store.path}: a checkpoint was written {max(age, 0.0):.0f}s ago, so a process may "
            "still be using it, and its next one would undo this. Stop every process that uses "
            f"the folder and wait {RECENT:.0f}s, or say --force if you know that none runs."
        )


def _lines(wanted: Sequence[Rewind], clock: int, *, dry_run: bool) -> Iterator[str]:
    for each in wanted:
        yield f"{each.place}: {_sentence(each, clock, dry_run=dry_run)}"


def _sentence(wanted: Rewind, clock: int, *, dry_run: bool) -> str:
    if wanted.chosen is None:
        oldest = wanted.oldest
        if oldest is None:
            return "nothing is done: no sound checkpoint of it has a time of events"
        return (
            f"nothing is done: no checkpoint is of {clock_text(clock)} or before; the oldest is of "
            f"{clock_text(oldest.clock)}, at offset {oldest.offset:,}"
        )
    chosen = f"offset {wanted.chosen.offset:,}, clock {clock_text(wanted.chosen.clock)}"
    if not wanted.moved:
        return f"nothing is done: the newest checkpoint is {chosen}"
    does, moves = ("would go back to", "would be") if dry_run else ("goes back to", "are")
    return (
        f"{does} {chosen}; {len(wanted.moved):,} newer checkpoints {moves} moved aside; records "
        f"below offset {wanted.counted:,} do not enter counters again"
    )
