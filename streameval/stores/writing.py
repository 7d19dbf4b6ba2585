"""A checkpoint on its way to the disk: every step before the last can fail without a trace."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from streameval.durability.checkpoint import Draft, Part
from streameval.errors import StoreError
from streameval.stores.disk import Disk
from streameval.stores.layout import Digested, Entry, Layout
from streameval.stores.naming import BLOBS, TEMPORARY, file_of

_TRIES: Final = 3


def ensured(disk: Disk, folder: Path, top: Path) -> None:
    """Make the folders that lead to `folder`, `top` among them, and all their names durable.

    Those that are there already are synced too: a process may have been killed after making them.
    """
    if folder != top:
        ensured(disk, folder.parent, top)
    try:
        disk.make_folder(folder)
    except FileExistsError:
        # Above the store we may not be allowed to look, and made nothing.
        with suppress(PermissionError):
            disk.sync_folder(folder.parent)
        return
    except FileNotFoundError:
        if folder == folder.parent:
            raise
        ensured(disk, folder.parent, folder.parent)
        disk.make_folder(folder)
    disk.sync_folder(folder.parent)


@contextmanager
def temporary(disk: Disk, target: Path) -> Iterator[Path]:
    """A name beside `target` to write under; what still has it in the end is removed."""
    path = target.with_name(f"{target.name}.{secrets.token_hex(8)}{TEMPORARY}")
    try:
        yield path
    except Exception:
        with suppress(OSError):
            disk.remove(path)
        raise


def write(disk: Disk, folder: Path, draft: Draft, known: Mapping[str, int]) -> Sequence[Entry]:
    """Write a checkpoint and what it needs; durable when this returns.

    Args:
        disk: where to.
        folder: of the place; it and its folder of blobs are there.
        draft: what is to be written.
        known: digest -> bytes of the blobs that this process has written or checked itself; only
            those are taken for what their names say.

    Returns:
        Where each part is.

    Raises:
        OSError: it could not be written; nothing that is loaded was changed.
        StoreError: others remove the blobs faster than they are written.
    """
    blobs = _write_blobs(disk, folder, [part for part in draft.parts if part.settled], known)
    layout = Layout(draft, blobs)
    target = folder / file_of(draft.header.offset)
    with temporary(disk, target) as path:
        disk.create(path, layout)
        disk.sync(path)
        _see_blobs(disk, folder, draft, blobs)
        disk.rename(path, target)
    disk.sync_folder(folder)
    return layout.entries


def _write_blobs(
    disk: Disk, folder: Path, parts: Iterable[Part], known: Mapping[str, int]
) -> dict[str, Entry]:
    there = set(disk.names(folder / BLOBS)) & known.keys()
    entries: dict[str, Entry] = {}
    wrote = False
    for part in parts:
        if part.digest is not None and part.digest in there:
            entry = Entry(name=part.name, size=known[part.digest], digest=part.digest, start=None)
        else:
            entry, wrote = _write_blob(disk, folder / BLOBS, part), True
        entries[part.name] = entry
    if wrote:
        disk.sync_folder(folder / BLOBS)
    return entries


def _write_blob(disk: Disk, folder: Path, part: Part) -> Entry:
    with temporary(disk, folder / "blob") as path:
        content = Digested(part.content())
        disk.create(path, content)
        disk.sync(path)
        disk.rename(path, folder / content.digest)
    return Entry(name=part.name, size=content.size, digest=content.digest, start=None)


def _see_blobs(disk: Disk, folder: Path, draft: Draft, blobs: Mapping[str, Entry]) -> None:
    """Another process may have tidied up meanwhile: what it took is written again."""
    for _ in range(_TRIES):
        there = set(disk.names(folder / BLOBS)) if blobs else set()
        gone = {entry.name for entry in blobs.values() if entry.digest not in there}
        if not gone:
            return
        _write_blobs(disk, folder, [part for part in draft.parts if part.name in gone], {})
    raise StoreError(
        str(folder), "the files of this state vanish while it is written", "see who removes them"
    )
