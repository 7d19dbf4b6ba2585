"""Going back: to the newest checkpoint that was written at or before a time of events."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import msgspec

from streameval.durability.checkpoint import Draft, Header, Part, Place
from streameval.errors import DamagedStateError, StateVersionError
from streameval.stores.aside import move_aside
from streameval.stores.folder import FolderStore
from streameval.stores.layout import opening
from streameval.stores.naming import file_of, folder_of
from streameval.stores.reading import FolderSaved
from streameval.stores.trouble import told_of


class Rewind(msgspec.Struct, frozen=True, kw_only=True):
    """What going back to a time means for one place.

    Attributes:
        place: which log.
        chosen: what is loaded afterwards; None where no checkpoint is of that time or before.
        moved: offsets of the checkpoints that are moved aside; none where nothing is to be done.
        counted: records below it were shown in counters already; they never enter them again.
        oldest: the checkpoint of the earliest clock; None where none has a clock.
        faults: one sentence for each older file that could not be chosen.
    """

    place: Place
    chosen: Header | None
    moved: tuple[int, ...]
    counted: int
    oldest: Header | None
    faults: tuple[str, ...]


def rewind_of(store: FolderStore, place: Place, clock: int) -> Rewind:
    """What `rewind` would do; nothing is changed.

    Args:
        store: where the checkpoints are.
        place: which log.
        clock: event time, microseconds since the epoch; the largest in the state afterwards.

    Raises:
        StoreError: the store cannot be read.
    """
    faults: list[str] = []
    sound = [saved.header for saved in _sound(store, place, faults)]
    timed = [header for header in sound if header.clock is not None]
    early = [header for header in timed if header.clock is not None and header.clock <= clock]
    chosen = max(early, key=lambda header: header.offset, default=None)
    offsets = store.offsets(place)
    moved = [offset for offset in offsets if chosen is not None and offset > chosen.offset]
    counted = (
        [] if chosen is None else [chosen.counted, *(_counted(store, place, n) for n in moved)]
    )
    return Rewind(
        place=place,
        chosen=chosen,
        moved=tuple(moved),
        counted=max(counted, default=0),
        oldest=min(timed, key=lambda header: header.offset, default=None),
        faults=tuple(faults),
    )


def rewind(store: FolderStore, wanted: Rewind) -> None:
    """Do it; cut off at any point, the newest checkpoint is the one before or the chosen one.

    Raises:
        DamagedStateError: the chosen one has changed meanwhile.
        StoreError: the store cannot be written.
    """
    if wanted.chosen is None or not wanted.moved:
        return
    saved = store.checked(wanted.place, wanted.chosen.offset)
    header = msgspec.structs.replace(saved.header, counted=wanted.counted)
    store.save(Draft(header=header, parts=[_part(saved, entry.name) for entry in saved.entries]))
    with told_of(store.path):
        move_aside(store.disk, folder_of(store.path, wanted.place), wanted.moved)


def _part(saved: FolderSaved, name: str) -> Part:
    def content() -> Iterator[bytes]:
        yield saved.read(name)

    blobs = {entry.name for entry in saved.entries if entry.start is None}
    return Part(name=name, content=content, settled=name in blobs, digest=saved.digests[name])


def _sound(store: FolderStore, place: Place, faults: list[str]) -> Iterator[FolderSaved]:
    seen: set[str] = set()
    for offset in store.offsets(place):
        try:
            yield store.checked(place, offset, seen)
        except (DamagedStateError, StateVersionError) as error:
            faults.append(str(error))


def _counted(store: FolderStore, place: Place, offset: int) -> int:
    """What the checkpoint had counted; where it cannot say, all that it can have."""
    path = folder_of(store.path, place) / file_of(offset)
    try:
        with told_of(store.path):
            said = opening(str(path), partial(store.disk.read, path))[1].get("counted")
    except DamagedStateError:
        return offset
    return said if isinstance(said, int) else offset


def written_last(store: FolderStore, place: Place) -> float | None:
    """When the last file of a place was written, by the disk's clock; None where there is none."""
    folder = folder_of(store.path, place)
    with told_of(store.path):
        dates = [store.disk.modified(folder / file_of(n)) for n in store.offsets(place)]
    return max(dates, default=None)
