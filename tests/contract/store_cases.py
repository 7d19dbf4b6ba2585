"""Every kind of store, empty, for the contract suite."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from obstore.store import MemoryStore as ObjectsInMemory

from streameval.checkpoints.bucket import Bucket
from streameval.checkpoints.store import Store, folder_store, store_of
from tests.stores import s3
from tests.stores.simulated_disk import SimulatedDisk

Opened = Callable[[], Store]
"""The same store once more, as another process has it."""


def _folder(path: Path) -> Opened:
    return lambda: folder_store(path / "deep" / "store")


def _simulated(path: Path) -> Opened:
    disk = SimulatedDisk(path)
    return lambda: folder_store(path / "deep" / "store", disk)


def _objects(_: Path) -> Opened:
    client = ObjectsInMemory()
    return lambda: Store(Bucket("s3://bucket/state", client))


def _s3(_: Path) -> Opened:
    if not s3.is_installed():
        pytest.skip("pip install 'streameval[s3server]'")
    path, options = s3.new_path(), s3.options()
    return lambda: store_of(path, options)


CASES: dict[str, Callable[[Path], Opened]] = {
    "folder": _folder,
    "folder on the simulated disk": _simulated,
    "objects in memory": _objects,
    "S3": _s3,
}
