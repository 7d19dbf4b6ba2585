"""The work of `streameval state verify`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from typer import Exit

from streameval.cli.ending import FAILED, output, tell
from streameval.cli.state_stores import store_at
from streameval.errors import DamagedStateError, StateVersionError
from streameval.stores.claim import claim_of
from streameval.stores.folder import FolderStore
from streameval.stores.trouble import told_of


def verified(paths: Sequence[Path]) -> None:
    """Check every checkpoint of stores; says each fault, and ends with status 1 where there is one.

    Raises:
        WrongCallError: a path is no store.
        StoreError: one cannot be read.
    """
    faults = 0
    for store in map(store_at, paths):
        checked = list(_checked(store))
        found = [fault for fault in checked if fault is not None]
        for fault in found:
            tell(fault)
        faults += len(found)
        with output():
            sys.stdout.write(_summary(store, len(checked), len(found)))
    if faults:
        raise Exit(FAILED)


def _checked(store: FolderStore) -> Iterator[str | None]:
    """For each file: what is wrong with it, or None."""
    with told_of(store.path):
        claim_of(store.disk, store.path)
    for place in store.places():
        seen: set[str] = set()
        for offset in store.offsets(place):
            try:
                store.checked(place, offset, seen)
            except (DamagedStateError, StateVersionError) as error:
                # A process that is running may have removed it meanwhile, as it should.
                if offset in store.offsets(place):
                    yield str(error)
            else:
                yield None


def _summary(store: FolderStore, checked: int, faults: int) -> str:
    places = len(store.places())
    verdict = f"{faults:,} not sound" if faults else "all sound"
    return f"{store.path}: {checked:,} checkpoints of {places:,} partitions, {verdict}\n"
