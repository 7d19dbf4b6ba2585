"""Checkpoints of the release before are read, beside rounds, and stay as they are."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from streameval.checkpoints.format import digest_of
from streameval.checkpoints.storage import Disk, Folder
from streameval.checkpoints.store import folder_store
from streameval.events.errors import StateVersionError
from tests.crashes.simulated_disk import SimulatedDisk
from tests.durability.checkpointing import LoneMember, batch
from tests.durability.process import digests
from tests.effort import sampled
from tests.present import present
from tests.stores import version3
from tests.stores.drafts import PLACE, STORE, Writer, draft, opened, restored, whole


@pytest.fixture
def disk() -> SimulatedDisk:
    made = SimulatedDisk(STORE.parent)
    opened(made)
    return made


@pytest.fixture
def storage(disk: SimulatedDisk) -> Folder:
    return Folder(STORE, disk)


def test_the_highest_offset_wins_over_both(disk: SimulatedDisk, storage: Folder) -> None:
    version3.save(storage, 110)
    assert restored(disk) == 110
    Writer(opened(disk)).save(120)
    assert restored(disk) == 120
    version3.save(storage, 130)
    assert restored(disk) == 130
    listing = opened(disk).listing()
    assert [at.offset for at in listing.places[PLACE]] == [130, 120, 110]
    assert present(opened(disk).headers()[PLACE]).offset == 130


def test_nothing_of_it_is_written_or_removed(disk: SimulatedDisk, storage: Folder) -> None:
    keys = [version3.save(storage, offset) for offset in (110, 120, 130, 240)]
    before = {path: disk.read(path, 0, disk.size(path)) for path in disk.files()}
    writer = Writer(opened(disk))
    for offset in range(250, 400):
        writer.save(offset)
    after = {path: disk.read(path, 0, disk.size(path)) for path in disk.files()}
    assert {STORE / key for key in keys} <= set(before)
    assert {path: after.get(path) for path in before} == before
    assert restored(disk) == 399


def test_what_starts_over_wins_over_it(disk: SimulatedDisk, storage: Folder) -> None:
    version3.save(storage, 500)
    store = opened(disk)
    store.archive(PLACE)
    store.save([draft(0, generation=1)])
    assert restored(disk) == 0


def test_every_flipped_bit_of_a_checkpoint_or_its_blob_is_noticed(
    disk: SimulatedDisk, storage: Folder
) -> None:
    paths = [STORE / version3.save(storage, offset) for offset in (110, 220)]
    blobs = set(disk.names(paths[0].parent / "blobs"))
    version3.save(storage, 330)
    (blob,) = set(disk.names(paths[0].parent / "blobs")) - blobs
    generator = random.Random(1)
    for path in (paths[0].with_name(f"{330:020d}.checkpoint"), paths[0].parent / "blobs" / blob):
        content = disk.read(path, 0, disk.size(path))
        for place in sampled(range(len(content)), 5):
            flipped = content[place] ^ 1 << generator.randrange(8)
            disk.overwrite(path, content[:place] + bytes([flipped]) + content[place + 1 :])
            found = opened(disk).newest(PLACE)
            assert whole(found.saved) == 220
            assert found.damaged[0].startswith("offset 330 is skipped: ")
        disk.remove(path)
        if path.suffix != ".checkpoint":
            assert whole(opened(disk).newest(PLACE).saved) == 220
        disk.create(path, [content])
    assert restored(disk) == 330


def test_a_version_before_it_is_refused(disk: SimulatedDisk, storage: Folder) -> None:
    path = STORE / version3.save(storage, 110)
    content = disk.read(path, 0, disk.size(path)).replace(b"checkpoint 3", b"checkpoint 2", 1)
    body = content[:-65]
    disk.overwrite(path, body + digest_of(body).encode() + b"\n")
    with pytest.raises(StateVersionError, match="state version 2 is not known"):
        opened(disk).newest(PLACE)
    assert opened(disk).headers() == {PLACE: None}


def test_a_process_goes_on_from_it_and_so_does_one_of_the_release_before(tmp_path: Path) -> None:
    """Two releases in one group: each goes on from the highest offset, and bytes are equal."""
    now = LoneMember(folder_store(tmp_path / "now"))
    now.assign()
    now.count(0, 10)
    now.checkpoint()
    (place,) = now.store.places()
    saved = present(now.store.newest(place).saved)
    before = folder_store(tmp_path / "both")
    before.claim("c1", "g1")
    version3.save_parts(
        Folder(tmp_path / "both", Disk()),
        saved.header,
        {name: saved.read(name) for name in saved.digests},
    )
    heir = LoneMember(folder_store(tmp_path / "both"))
    assert heir.assign(committed=10) == 10
    heir.checkpoint()
    heir.checkpointer.apply(batch(10, 15))
    heir.checkpoint()
    assert heir.shown == 5
    now.count(10, 20)
    now.checkpoint()
    saved = present(now.store.newest(place).saved)
    version3.save_parts(
        Folder(tmp_path / "both", Disk()),
        saved.header,
        {name: saved.read(name) for name in saved.digests},
    )
    again = LoneMember(folder_store(tmp_path / "both"))
    assert again.assign(committed=20) == 20
    partition = next(iter(now.ingest.positions))
    assert digests(again.ingest, partition) == digests(now.ingest, partition)


@pytest.mark.parametrize(
    "blob", ["../../dev/zero", "/dev/zero", "../" * 20 + "dev/zero", "0" * 63, "0" * 64 + "\\n"]
)
def test_a_blob_has_a_digest_for_a_name(disk: SimulatedDisk, storage: Folder, blob: str) -> None:
    path = STORE / version3.save(storage, 110)
    content = disk.read(path, 0, disk.size(path))
    (name,) = disk.names(path.parent / "blobs")
    body = content[:-65].replace(name.encode(), blob.encode())
    disk.overwrite(path, body + digest_of(body).encode() + b"\n")
    found = opened(disk).newest(PLACE)
    assert found.saved is None
    assert "$[1].blob" in found.damaged[0]
