"""Claims of a store that are malformed or missing, and errors of the disk."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from streameval.checkpoints.scheduler import ProcessClock
from streameval.checkpoints.store import folder_store
from streameval.config import load
from streameval.daemon.assembly import assemble
from streameval.events.errors import RefusedStateError, StateVersionError, StoreError
from tests.crashes.simulated_disk import SimulatedDisk, refusing
from tests.stores.drafts import SHARD, draft, whole

STORE = Path("/disk/a/b/state")


def test_a_claim_of_a_later_release_is_refused(tmp_path: Path) -> None:
    (tmp_path / "store.json").write_text('{"version":2,"whose":"ours"}')
    with pytest.raises(StateVersionError, match="state version 2 is not known"):
        folder_store(tmp_path).claim("c1", "g1")


_DEEP = b'{"version":' + b"[" * 100_000 + b"]" * 100_000 + b"}"


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"{", b"\xff", b"[]", b'{"version":1,"cluster":"c1"}'),
        pytest.param(_DEEP, id="deep"),
    ],
)
def test_a_malformed_claim_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "store.json").write_bytes(content)
    with pytest.raises(RefusedStateError, match="names no cluster and group"):
        folder_store(tmp_path).claim("c1", "g1")


def test_unclaimed_checkpoints_are_refused_with_the_claim_they_need(tmp_path: Path) -> None:
    store = folder_store(tmp_path)
    store.claim("c1", "g1")
    store.save([draft(5)])
    claim = (tmp_path / "store.json").read_text().strip()
    (tmp_path / "store.json").unlink()
    with pytest.raises(RefusedStateError, match=r"of 1 partitions and no store\.json") as raised:
        folder_store(tmp_path).claim("c1", "g1")
    message = str(raised.value).partition("say ")[2].partition(", or give")[0]
    assert not (tmp_path / "store.json").exists()
    (tmp_path / "store.json").write_text(message)
    folder_store(tmp_path).claim("c1", "g1")
    assert message == claim


def test_the_first_claim_wins_without_hard_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def link(*_: object) -> None:
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", link)
    folder_store(tmp_path).claim("c1", "g1")
    with pytest.raises(RefusedStateError):
        folder_store(tmp_path).claim("c2", "g1")


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (errno.ENOSPC, "no space left on device; free some space there"),
        (errno.EACCES, "permission denied; let this user read and write there"),
        (errno.EROFS, "read-only file system; mount it for writing"),
        (errno.EIO, "input/output error; check the disk"),
        (errno.ESTALE, "stale file handle; check the disk"),
    ],
)
def test_a_disk_error_has_a_remedy(number: int, remedy: str) -> None:
    disk = SimulatedDisk(Path("/disk"))
    store = folder_store(STORE, disk)
    store.claim("c1", "g1")
    store.save([draft(1)])
    disk.before = refusing(number, "create", "write")
    with pytest.raises(StoreError, match=remedy) as raised:
        store.save([draft(2)])
    assert "[state] path" in raised.value.remedy
    assert raised.value.where.startswith(str(STORE))
    assert whole(store.newest(SHARD).saved) == 1


def test_a_daemon_asks_for_the_right_to_write_before_it_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    readable = "metrics = ['ctr']\nsource = { type = 'simulator' }\n[state]\npath = 'state'\n"
    (tmp_path / "streameval.toml").write_text(readable)
    config = load(tmp_path / "streameval.toml")
    mounted = os.statvfs(tmp_path)
    monkeypatch.setattr(os, "access", lambda *_: False)
    for flags, said in ((0, "permission denied"), (os.ST_RDONLY, "read-only file system")):
        flag = SimpleNamespace(f_flag=mounted.f_flag & ~os.ST_RDONLY | flags)
        monkeypatch.setattr(os, "statvfs", lambda _, flag=flag: flag)
        with pytest.raises(StoreError, match=said):
            assemble(config, {}, ProcessClock())


def test_a_file_in_place_of_the_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("")
    for path in (tmp_path / "state", tmp_path / "state" / "deeper"):
        with pytest.raises(StoreError, match="a file is in the way of a folder"):
            folder_store(path).claim("c1", "g1")
    with pytest.raises(StoreError, match="a file is in the way of a folder"):
        folder_store(tmp_path / "state").save([draft(1)])


def test_a_link_to_what_is_not_mounted_is_reported(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "unmounted")
    with pytest.raises(StoreError, match="check that the disk is mounted"):
        folder_store(tmp_path / "link" / "state").claim("c1", "g1")


@pytest.mark.skipif(os.geteuid() == 0, reason="everything is allowed to root")
def test_a_folder_without_permission_is_reported(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(StoreError, match="permission denied"):
        folder_store(tmp_path / "state").claim("c1", "g1")
    tmp_path.chmod(0o700)


def test_other_files_in_the_folder_are_not_shards(tmp_path: Path) -> None:
    store = folder_store(tmp_path)
    store.claim("c1", "g1")
    store.save([draft(1)])
    for name in ("lost+found", ".snapshot/x/0", "notes/a/007", "empty/a/0"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "readme.txt").write_text("")
    assert store.shards() == [SHARD]
