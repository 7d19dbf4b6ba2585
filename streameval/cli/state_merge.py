"""The work of `streameval state merge`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from streameval.cli.ending import WrongCallError, output
from streameval.cli.state_reading import Held, held_in
from streameval.durability.checkpoint import Draft, Part, Place
from streameval.stores.folder import FolderStore


def merged(paths: Sequence[Path], into: Path) -> None:
    """Copy the newest state of every partition into one new store.

    Where several stores have a partition, the highest offset wins, as it does for a daemon.

    Raises:
        WrongCallError: the target is there already, or the stores belong to several groups.
        StoreError: a store cannot be read or written.
    """
    if into.exists():
        raise WrongCallError(f"--into {into}: is there already; name a folder that is not.")
    best: dict[Place, Held] = {}
    for each in held_in(paths):
        known = best.get(each.place)
        if known is None or known.saved.header.offset < each.saved.header.offset:
            best[each.place] = each
    cluster, group = _owner(list(best.values()), paths)
    store = FolderStore(into)
    store.claim(cluster, group)
    for _, each in sorted(best.items()):
        store.save(Draft(header=each.saved.header, parts=_parts(each)))
    with output():
        sys.stdout.writelines(
            f"{place}: offset {each.saved.header.offset:,}, from {each.path}\n"
            for place, each in sorted(best.items())
        )


def _owner(held: Sequence[Held], paths: Sequence[Path]) -> tuple[str, str]:
    if not held:
        raise WrongCallError(f"no state in {', '.join(map(str, paths))}.")
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
