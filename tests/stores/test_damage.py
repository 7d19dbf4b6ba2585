"""Damaged files are skipped with a message, and never loaded."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from streameval.checkpoints.cleaning import blobs_of
from streameval.checkpoints.format import BLOBS, file_of
from streameval.checkpoints.store import Store
from streameval.events.errors import DamagedStateError, StateVersionError, StoreError
from tests.crashes.simulated_disk import SimulatedDisk
from tests.effort import sampled
from tests.stores.drafts import FOLDER, PLACE, STORE, draft, opened, read_at, restored, whole

NEWEST = FOLDER / file_of(220)


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk(STORE.parent)


@pytest.fixture
def store(disk: SimulatedDisk) -> Store:
    """A store with two checkpoints that share a blob."""
    made = opened(disk)
    for offset in (110, 220):
        made.save(draft(offset))
    return made


def _flipped(content: bytes, place: int, bit: int = 0) -> bytes:
    changed = content[place] ^ 1 << bit
    return content[:place] + bytes([changed]) + content[place + 1 :]


def _is_skipped(disk: SimulatedDisk, said: str) -> None:
    newest = opened(disk).newest(PLACE)
    assert whole(newest.saved) == 110
    (sentence,) = newest.damaged
    assert sentence.startswith("offset 220 is skipped: ")
    assert said in sentence


def test_every_flipped_bit_is_noticed(store: Store, disk: SimulatedDisk) -> None:
    content = disk.read(NEWEST, 0, disk.size(NEWEST))
    generator = random.Random(1)
    for place in sampled(range(len(content)), 5):
        disk.overwrite(NEWEST, _flipped(content, place, generator.randrange(8)))
        _is_skipped(disk, "digest" if place >= 22 else "")
    disk.overwrite(NEWEST, content)
    assert whole(store.newest(PLACE).saved) == 220


def test_every_truncation_is_noticed(store: Store, disk: SimulatedDisk) -> None:
    content = disk.read(NEWEST, 0, disk.size(NEWEST))
    for end in sampled(range(len(content)), 5):
        disk.overwrite(NEWEST, content[:end])
        _is_skipped(disk, str(NEWEST))
    disk.overwrite(NEWEST, content + b"\n")
    _is_skipped(disk, "digest")
    assert whole(read_at(store, 110)) == 110


def _blobs_of_the_newest_only(store: Store) -> Path:
    newest, older = (blobs_of(read_at(store, offset).entries) for offset in (220, 110))
    (name,) = newest - older
    return FOLDER / BLOBS / name


def test_a_missing_blob_is_noticed(store: Store, disk: SimulatedDisk) -> None:
    disk.remove(_blobs_of_the_newest_only(store))
    _is_skipped(disk, "the file of part 'labels/1' is missing")


@pytest.mark.parametrize("change", [lambda it: it[:-1], lambda it: it[1:], lambda _: b""])
def test_a_changed_blob_is_noticed(
    store: Store, disk: SimulatedDisk, change: Callable[[bytes], bytes]
) -> None:
    path = _blobs_of_the_newest_only(store)
    disk.overwrite(path, change(disk.read(path, 0, 10_000)))
    _is_skipped(disk, "is not what was written")


def test_a_damaged_blob_is_written_again(store: Store, disk: SimulatedDisk) -> None:
    disk.overwrite(_blobs_of_the_newest_only(store), b"rubbish")
    again = opened(disk)
    checkpoint = again.newest(PLACE).saved
    assert checkpoint is not None
    assert whole(checkpoint) == 110
    again.save(draft(230, last=checkpoint.entries))
    assert restored(disk) == 230


def test_a_file_with_the_header_of_another_offset_is_noticed(
    store: Store, disk: SimulatedDisk
) -> None:
    content = disk.read(NEWEST, 0, disk.size(NEWEST))
    disk.create(FOLDER / file_of(300), [content])
    newest = store.newest(PLACE)
    assert whole(newest.saved) == 220
    assert "its header names shop.events[3] at offset 220" in newest.damaged[0]


def test_without_a_valid_checkpoint_every_reason_is_reported(
    store: Store, disk: SimulatedDisk
) -> None:
    for offset in (110, 220):
        disk.overwrite(FOLDER / file_of(offset), b"")
    newest = store.newest(PLACE)
    assert newest.saved is None
    assert len(newest.damaged) == 2


def test_a_torn_file_of_a_later_version_is_skipped(store: Store, disk: SimulatedDisk) -> None:
    store.save(draft(230, version=4))
    with pytest.raises(StateVersionError, match="state version 4 is not known"):
        store.newest(PLACE)
    path = FOLDER / file_of(230)
    disk.overwrite(path, disk.read(path, 0, disk.size(path) - 1))
    assert whole(store.newest(PLACE).saved) == 220


def test_a_part_that_changed_after_the_restore_is_refused(
    store: Store, disk: SimulatedDisk
) -> None:
    saved = read_at(store, 220)
    disk.overwrite(_blobs_of_the_newest_only(store), b"rubbish")
    with pytest.raises(DamagedStateError, match="part 'labels/2' is not what was written"):
        saved.read("labels/2")
    disk.remove(NEWEST)
    with pytest.raises(DamagedStateError, match="the file of part 'meta' is missing"):
        saved.read("meta")


def test_a_store_that_vanished_is_not_an_empty_store(store: Store, disk: SimulatedDisk) -> None:
    for path in disk.files():
        disk.remove(path)
    for call in (lambda: store.newest(PLACE), lambda: store.save(draft(300))):
        with pytest.raises(StoreError, match="is missing; check that the disk is mounted"):
            call()


def test_files_that_vanish_during_a_read_are_listed_again(
    store: Store, disk: SimulatedDisk
) -> None:
    other = opened(disk)

    def another_saves(step: object) -> None:
        if getattr(step, "call", "") == "size" and getattr(step, "path", None) == NEWEST:
            disk.before = lambda _: None
            disk.remove(NEWEST)
            disk.remove(FOLDER / file_of(110))
            other.save(draft(330))

    disk.before = another_saves
    assert whole(store.newest(PLACE).saved) == 330


def test_headers_are_the_newest_readable_ones_or_none_for_an_unknown_version(
    store: Store, disk: SimulatedDisk
) -> None:
    def offset() -> int | None:
        header = store.headers()[PLACE]
        return None if header is None else header.offset

    content = disk.read(NEWEST, 0, disk.size(NEWEST))
    assert offset() == 220
    disk.overwrite(NEWEST, b"torn")
    assert offset() == 110
    disk.overwrite(NEWEST, content.replace(b"checkpoint 3", b"checkpoint 9", 1))
    assert offset() is None
