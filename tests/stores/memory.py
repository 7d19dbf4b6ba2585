"""A store on a disk in memory."""

from __future__ import annotations

from pathlib import Path

from streameval.checkpoints.checkpoint import Place
from streameval.checkpoints.format import file_of, folder_of
from streameval.checkpoints.storage import Folder
from streameval.checkpoints.store import Store
from tests.stores.simulated_disk import SimulatedDisk

STORE = Path("/disk/state")


class MemoryStore(Store):
    """See the module."""

    def __init__(self) -> None:
        self.disk = SimulatedDisk(STORE.parent)
        super().__init__(Folder(STORE, self.disk))

    def lose(self, place: Place, offset: int) -> None:
        self.disk.remove(STORE / folder_of(place) / file_of(offset))
