"""Merges stores of one group, and backfills of the time before the log."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from streameval.checkpoints.checkpoint import Draft, Part, Place
from streameval.checkpoints.settings import is_url
from streameval.checkpoints.stores import is_store, store_of
from streameval.cli.ending import WrongCallError, output, wrong_call_where
from streameval.cli.stores import Held, counted, held_in
from streameval.errors import BackfillError, SourceError, UnlikeStateError
from streameval.partials import backfill, stored


def merged(paths: Sequence[str], into: str, backfills: Sequence[Path]) -> None:
    """Copy the newest state of every partition into one new store.

    Where several stores have a partition, the highest offset wins, as it does for a daemon. What
    was counted elsewhere joins the partition whose clock is the latest: windows and lifetime are
    sums over all partitions, and offsets stay as they are.

    Raises:
        WrongCallError: the target exists already, the stores belong to several groups, or a
            backfill cannot be read or does not fit.
        StoreError: a store cannot be read or written.
    """
    if is_store(into) or (not is_url(into) and Path(into).exists()):
        raise WrongCallError(f"--into {into}: exists already; give a path that does not.")
    best: dict[Place, Held] = {}
    for each in held_in(paths):
        known = best.get(each.place)
        if known is None or known.saved.header.offset < each.saved.header.offset:
            best[each.place] = each
    held = [each for _, each in sorted(best.items())]
    cluster, group = _owner(held, paths)
    parts = {each.place: _parts(each) for each in held}
    taken: list[str] = []
    if backfills:
        latest = max(held, key=_clock)
        parts[latest.place], taken = _with_backfills(held, held.index(latest), backfills)
    store = store_of(into)
    store.claim(cluster, group)
    for each in held:
        store.save(Draft(header=each.saved.header, parts=parts[each.place]))
    with output():
        sys.stdout.writelines(
            f"{each.place}: offset {each.saved.header.offset:,}, from {each.path}\n"
            for each in held
        )
        sys.stdout.writelines(taken)


def _clock(held: Held) -> tuple[bool, int]:
    clock = held.saved.header.clock
    return clock is not None, clock or 0


def _with_backfills(
    held: Sequence[Held], goal: int, paths: Sequence[Path]
) -> tuple[list[Part], list[str]]:
    """The parts of a state with its backfills, and a line for each."""
    config, ingest = counted(held, None)
    # In the order in which they were restored.
    partition = list(ingest.partitions)[goal]
    taken = []
    for path in paths:
        with wrong_call_where(BackfillError, SourceError, UnlikeStateError):
            given = backfill(stored(path), config.dimensions())
            ingest.take_over(partition, given)
        lists = sum(row.lists for row in given.rows)
        taken.append(f"{path}: {lists:,} lists of {given.extent}, with {held[goal].place}\n")
    sections = ingest.sections(partition)
    return [Part(name=each.name, content=each.content()) for each in sections], taken


def _owner(held: Sequence[Held], paths: Sequence[str]) -> tuple[str, str]:
    if not held:
        raise WrongCallError(f"no state in {', '.join(paths)}.")
    owners = sorted({(each.saved.header.cluster, each.saved.header.group) for each in held})
    if len(owners) > 1:
        found = " and ".join(f"group {group!r} of cluster {cluster!r}" for cluster, group in owners)
        raise WrongCallError(
            f"the stores belong to {found}; offsets of one mean nothing to the other. To read "
            "their values together, use `streameval state export` with all of them."
        )
    return owners[0]


def _parts(held: Held) -> list[Part]:
    return [Part(name=name, content=_content(held, name)) for name in sorted(held.saved.digests)]


def _content(held: Held, name: str) -> Callable[[], Iterator[bytes]]:
    return lambda: iter([held.saved.read(name)])
