"""Checkpoints that are written wrongly; the laws of crashes must notice."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from streameval.checkpoints import files, folder
from streameval.checkpoints.checkpoint import Found, Place
from streameval.checkpoints.disk import Disk
from streameval.checkpoints.folder import FolderStore
from streameval.checkpoints.format import BLOBS, Layout, file_of
from tests.mutation.mistake import Broken, Mistake
from tests.stores import crashing
from tests.stores.forgetful import ForgetfulDisk


def _no_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ForgetfulDisk, "sync", lambda *_: None)


def _no_sync_of(*wanted: Callable[[Path], bool]) -> Callable[[pytest.MonkeyPatch], None]:
    def broken(monkeypatch: pytest.MonkeyPatch) -> None:
        kept = ForgetfulDisk.sync_folder

        def sync_folder(disk: ForgetfulDisk, path: Path) -> None:
            if not any(each(path) for each in wanted):
                kept(disk, path)

        monkeypatch.setattr(ForgetfulDisk, "sync_folder", sync_folder)

    return broken


def _rename_before_write(monkeypatch: pytest.MonkeyPatch) -> None:
    def write(disk: Disk, place: Path, draft: Any, known: Mapping[str, int]) -> Any:
        blobs = files._write_blobs(disk, place, [p for p in draft.parts if p.settled], known)
        layout = Layout(draft, blobs)
        disk.create(place / file_of(draft.header.offset), layout)
        disk.sync(place / file_of(draft.header.offset))
        disk.sync_folder(place)
        return layout.entries

    monkeypatch.setattr(folder, "write", write)


def _found_is_not_synced(monkeypatch: pytest.MonkeyPatch) -> None:
    newest = FolderStore._newest

    def unsynced(store: FolderStore, place: Place) -> Found:
        with monkeypatch.context() as patched:
            patched.setattr(ForgetfulDisk, "sync_folder", lambda *_: None)
            return newest(store, place)

    monkeypatch.setattr(FolderStore, "_newest", unsynced)


_BROKEN: dict[str, Broken] = {
    "no fsync before the rename": _no_sync,
    "no fsync of the folder": _no_sync_of(lambda path: path.name not in {BLOBS, "state", "disk"}),
    "no fsync of the folder of blobs": _no_sync_of(lambda path: path.name == BLOBS),
    "no fsync of the folder above a new one": _no_sync_of(lambda path: path.name == "disk"),
    "no fsync of the folder before what was found is used": _found_is_not_synced,
    "rename before write": _rename_before_write,
}


def laws() -> None:
    for before, after in (
        (crashing.BEFORE, crashing.AFTER),
        (crashing.BEFORE, crashing.AFTER + 100),
    ):
        crashing.the_old_or_the_new_is_there(before=before, after=after)
    crashing.the_old_or_the_new_is_there(before=None)
    crashing.what_was_saved_is_there()
    crashing.what_was_found_stays()


MISTAKES = tuple(Mistake(what, laws, broken) for what, broken in _BROKEN.items())
