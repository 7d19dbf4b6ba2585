"""Checkpoints that are written wrongly; the laws of crashes must notice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from streameval.checkpoints.format import BLOBS, Place
from streameval.checkpoints.storage import Folder
from streameval.checkpoints.store import Found, Store
from tests.crashes import test_steps
from tests.crashes.simulated_disk import SimulatedDisk
from tests.mutation.mistake import Broken, Mistake, around, replaced, with_its_cases


def _no_sync_of(*wanted: Callable[[Path], bool]) -> Broken:
    def broken(kept: Any) -> Any:
        def sync_folder(disk: SimulatedDisk, path: Path) -> None:
            if not any(test(path) for test in wanted):
                kept(disk, path)

        return sync_folder

    return around(SimulatedDisk, "sync_folder", broken)


def _rename_before_write(monkeypatch: pytest.MonkeyPatch) -> None:
    def put(folder: Folder, key: str, *pieces: bytes) -> str:
        path = Path(folder.path) / key
        folder._make(path.parent)
        if path.name in folder._disk.names(path.parent):
            folder._disk.remove(path)
        folder._disk.create(path, pieces)
        folder._disk.sync(path)
        folder._disk.sync_folder(path.parent)
        return ""

    monkeypatch.setattr(Folder, "put", put)


def _found_is_not_synced(monkeypatch: pytest.MonkeyPatch) -> None:
    newest = Store._newest

    def unsynced(store: Store, place: Place) -> Found:
        with monkeypatch.context() as patched:
            patched.setattr(SimulatedDisk, "sync_folder", lambda *_: None)
            return newest(store, place)

    monkeypatch.setattr(Store, "_newest", unsynced)


_BROKEN: dict[str, Broken] = {
    "no fsync before the rename": replaced(SimulatedDisk, "sync", lambda *_: None),
    "no fsync of the folder": _no_sync_of(lambda path: path.name not in {BLOBS, "state", "disk"}),
    "no fsync of the folder of blobs": _no_sync_of(lambda path: path.name == BLOBS),
    "no fsync of the folder above a new one": _no_sync_of(lambda path: path.name == "disk"),
    "no fsync of the folder before what was found is used": _found_is_not_synced,
    "rename before write": _rename_before_write,
}


LAWS = with_its_cases(test_steps.test_a_crash_at_every_step_leaves_the_old_or_the_new_checkpoint)

MISTAKES = tuple(Mistake(what, LAWS, broken) for what, broken in _BROKEN.items())
