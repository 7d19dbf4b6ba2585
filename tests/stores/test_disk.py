"""The contract of a disk, for the real one and the simulated one."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from streameval.checkpoints.storage import Disk
from streameval.checkpoints.store import Store, folder_store
from streameval.config.tables import StateOptions
from streameval.daemon.assembly import checkpoint_store
from tests.crashes.simulated_disk import SimulatedDisk
from tests.stores.drafts import SHARD, draft


@pytest.fixture(params=["real", "simulated"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Disk:
    return Disk() if request.param == "real" else SimulatedDisk(tmp_path)


def content(disk: Disk, path: Path) -> bytes:
    return disk.read(path, 0, disk.size(path))


def test_a_file_has_the_bytes_of_its_pieces_and_is_created_once(disk: Disk, tmp_path: Path) -> None:
    path = tmp_path / "a"
    disk.create(path, [b"01234", b"", b"56789"])
    disk.sync(path)
    disk.sync_folder(tmp_path)
    assert (content(disk, path), disk.size(path)) == (b"0123456789", 10)
    assert [disk.read(path, at, 4) for at in (3, 8, 10)] == [b"3456", b"89", b""]
    assert disk.modified(path) > 0
    with pytest.raises(FileExistsError):
        disk.create(path, [b"2"])
    assert disk.size(path) == 10


def test_a_file_is_written_piece_by_piece(disk: Disk, tmp_path: Path) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"half"
        raise KeyError

    with pytest.raises(KeyError):
        disk.create(tmp_path / "a", pieces())
    assert disk.names(tmp_path) == ["a"]


def test_a_rename_needs_a_new_target(disk: Disk, tmp_path: Path) -> None:
    for name in "abC":
        disk.create(tmp_path / name, [name.encode()])
    assert disk.names(tmp_path) == ["C", "a", "b"]
    with pytest.raises(FileExistsError):
        disk.rename_new(tmp_path / "a", tmp_path / "b")
    assert content(disk, tmp_path / "b") == b"b"
    disk.rename_new(tmp_path / "b", tmp_path / "d")
    assert content(disk, tmp_path / "d") == b"b"
    disk.remove(tmp_path / "C")
    assert disk.names(tmp_path) == ["a", "d"]


def test_a_folder_is_removed_if_it_is_empty(disk: Disk, tmp_path: Path) -> None:
    disk.make_folder(tmp_path / "f")
    disk.create(tmp_path / "f" / "a", [])
    assert (disk.is_folder(tmp_path / "f"), disk.is_folder(tmp_path / "f" / "a")) == (True, False)
    disk.remove_folder(tmp_path / "f")
    assert disk.names(tmp_path / "f") == ["a"]
    disk.remove(tmp_path / "f" / "a")
    for _ in range(2):
        disk.remove_folder(tmp_path / "f")
        assert disk.names(tmp_path) == []


def test_a_folder_is_created_once_and_without_its_parents(disk: Disk, tmp_path: Path) -> None:
    disk.make_folder(tmp_path / "f")
    assert disk.names(tmp_path) == ["f"]
    assert disk.names(tmp_path / "f") == []
    with pytest.raises(FileExistsError):
        disk.make_folder(tmp_path / "f")
    with pytest.raises(FileNotFoundError):
        disk.make_folder(tmp_path / "g" / "h")


def test_a_missing_file_raises_file_not_found(disk: Disk, tmp_path: Path) -> None:
    path = tmp_path / "none"
    other = tmp_path / "b"
    calls: list[Callable[[], object]] = [
        *(partial(call, path) for call in (disk.size, disk.modified, disk.sync, disk.remove)),
        *(partial(call, path) for call in (disk.names, disk.sync_folder)),
        partial(disk.rename_new, path, other),
        partial(disk.read, path, 0, 1),
        partial(disk.create, path / "a", []),
    ]
    for call in calls:
        with pytest.raises(FileNotFoundError):
            call()


def test_a_file_used_as_a_folder_raises_not_a_directory(disk: Disk, tmp_path: Path) -> None:
    disk.create(tmp_path / "a", [])
    below = tmp_path / "a" / "b"
    calls: list[Callable[[], object]] = [
        *(partial(call, tmp_path / "a") for call in (disk.names, disk.sync_folder)),
        *(partial(call, below) for call in (disk.make_folder, disk.size)),
        partial(disk.create, below, []),
    ]
    for call in calls:
        with pytest.raises(NotADirectoryError):
            call()


@pytest.mark.parametrize(
    ("number", "harmless"), [(errno.EINVAL, True), (errno.EOPNOTSUPP, True), (errno.EIO, False)]
)
def test_a_file_system_that_cannot_sync_folders_is_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, *, harmless: bool
) -> None:
    def fsync(_: int) -> None:
        raise OSError(number, "as it says")

    monkeypatch.setattr(os, "fsync", fsync)
    disk = Disk()
    disk.create(tmp_path / "a", [])
    if harmless:
        disk.sync_folder(tmp_path)
    else:
        with pytest.raises(OSError, match="as it says"):
            disk.sync_folder(tmp_path)
    with pytest.raises(OSError, match="as it says"):
        disk.sync(tmp_path / "a")


def test_the_simulated_disk_may_lose_a_name_until_its_folder_is_synced(tmp_path: Path) -> None:
    left = set()
    for seed in range(20):
        disk = SimulatedDisk(tmp_path, seed=seed)
        disk.create(tmp_path / "a", [b"0"])
        disk.sync(tmp_path / "a")
        disk.crash()
        left.add(len(disk.files()))
    assert left == {0, 1}


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def modes(folder: Path) -> tuple[set[int], set[int]]:
    """The permissions of all files, and of all folders below."""
    files, folders = (
        {stat.S_IMODE(path.stat().st_mode) for path in folder.rglob("*") if path.is_file() is kind}
        for kind in (True, False)
    )
    return files, folders


def claim_and_save(state: Store, offset: int) -> None:
    state.claim("c1", "g1")
    state.save([draft(offset)])


def test_what_a_daemon_saves_is_private_with_any_umask(tmp_path: Path) -> None:
    with umask(0):
        claim_and_save(checkpoint_store(StateOptions(path=str(tmp_path / "state"))), 1)
    assert modes(tmp_path) == ({0o600}, {0o700})


def test_a_group_shares_a_folder_that_it_may_write_with_any_umask(tmp_path: Path) -> None:
    tmp_path.chmod(0o2770)
    with umask(0o077):
        claim_and_save(checkpoint_store(StateOptions(path=str(tmp_path / "state"))), 1)
    assert modes(tmp_path) == ({0o660}, {0o2770})


@pytest.mark.parametrize("mode", [0o770, 0o2750])
def test_a_folder_without_both_marks_is_not_shared(mode: int, tmp_path: Path) -> None:
    tmp_path.chmod(mode)
    claim_and_save(checkpoint_store(StateOptions(path=str(tmp_path / "state"))), 1)
    files, folders = modes(tmp_path)
    assert ({mode & 0o777 for mode in files}, {mode & 0o777 for mode in folders}) == (
        {0o600},
        {0o700},
    )


_GROUP = 20_000
_REPLICA = f"""
import os, sys
from streameval.config.tables import StateOptions
from streameval.daemon.assembly import checkpoint_store
from tests.stores.drafts import SHARD, draft, whole
os.setgroups([{_GROUP}])
os.setgid(int(sys.argv[2]))
os.setuid(int(sys.argv[2]))
state = checkpoint_store(StateOptions(path=sys.argv[1]))
state.claim("c1", "g1")
last = state.newest(SHARD).saved
offset = 0 if last is None else whole(last)
state.save([draft(offset + 1)])
print(offset + 1)
"""


@pytest.mark.nightly
@pytest.mark.skipif(os.getuid() != 0, reason="only root can start processes of several users")
def test_replicas_of_different_users_share_a_folder_by_their_group() -> None:
    with TemporaryDirectory() as volume:
        os.chown(volume, -1, _GROUP)
        Path(volume).chmod(0o2770)
        offsets = [
            subprocess.run(
                [sys.executable, "-c", _REPLICA, f"{volume}/state", user],
                cwd=Path(__file__).parents[2],
                umask=0o077,
                capture_output=True,
                text=True,
                check=True,
            ).stdout
            for user in ("10001", "10002", "10001")
        ]
    assert offsets == ["1\n", "2\n", "3\n"]


class Counting(Disk):
    """Counts what waits for the disk."""

    syncs = 0

    def sync(self, path: Path) -> None:
        self.syncs += 1
        super().sync(path)

    def sync_folder(self, path: Path) -> None:
        self.syncs += 1
        super().sync_folder(path)


def test_a_round_waits_for_the_disk_twice_whatever_it_has(tmp_path: Path) -> None:
    store = folder_store(tmp_path / "state", disk := Counting())
    shards = [SHARD._replace(number=number) for number in range(64)]
    counts: list[int] = []
    for offset in (100, 200, 300, 400):
        before = disk.syncs
        store.save([draft(offset, shard) for shard in shards])
        counts.append(disk.syncs - before)
    # The first makes two folders; the last ones remove superseded files, which waits for nothing.
    assert counts[1:] == [2, 2, 2]
    before = disk.syncs
    store.save([])
    assert disk.syncs - before == 2
