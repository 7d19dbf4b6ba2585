"""Whose checkpoints a store holds: the first to come decides."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from streameval.errors import ForeignStoreError, StateVersionError, StoreError
from streameval.stores.disk import Disk
from streameval.stores.naming import CLAIM
from streameval.stores.writing import temporary

_VERSION: Final = 1
_LARGEST: Final = 1 << 20


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """Content of store.json.

    Attributes:
        version: of the store.
        cluster: id of the Kafka cluster, or what stands for it.
        group: the consumer group.
    """

    version: int = _VERSION
    cluster: str
    group: str


def claim(disk: Disk, store: Path, wanted: Claim) -> None:
    """Write the claim where there is none, and compare it with the one that is there.

    Raises:
        ForeignStoreError: the store belongs to another cluster or group.
        StateVersionError: a later release made it.
        StoreError: what is there is no claim.
        OSError: the disk refuses.
    """
    if CLAIM not in disk.names(store):
        _write(disk, store, wanted)
    disk.sync_folder(store)
    found = claim_of(disk, store)
    for what in ("cluster", "group"):
        here, there = getattr(wanted, what), getattr(found, what)
        if here != there:
            raise ForeignStoreError(str(store), what, here, there)


def text_of(wanted: Claim) -> str:
    """What store.json says, in one line."""
    return msgspec.json.encode(wanted).decode()


def _write(disk: Disk, store: Path, wanted: Claim) -> None:
    with temporary(disk, store / CLAIM) as path:
        disk.create(path, [text_of(wanted).encode() + b"\n"])
        disk.sync(path)
        try:
            disk.rename_new(path, store / CLAIM)
        except FileExistsError:
            disk.remove(path)


def claim_of(disk: Disk, store: Path) -> Claim:
    """Whose store it is.

    Raises:
        StateVersionError: a later release made it.
        StoreError: what is there is no claim.
        OSError: the disk refuses; FileNotFoundError where there is none.
    """
    path = store / CLAIM
    try:
        said = msgspec.json.decode(disk.read(path, 0, _LARGEST), type=dict[str, object])
        if said.get("version") != _VERSION:
            raise StateVersionError(str(path), said.get("version"), _VERSION)
        return msgspec.convert(said, Claim)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StoreError(
            str(path),
            f"it does not say whose state this is ({error})",
            "bring it back from a copy, or remove it once you have seen that the folder is right",
        ) from error
