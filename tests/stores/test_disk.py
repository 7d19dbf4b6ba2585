"""One contract, kept by the real disk and by its twin in memory."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from streameval.checkpoints.disk import Disk
from tests.stores.forgetful import ForgetfulDisk


@pytest.fixture(params=["real", "forgetful"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Disk:
    return Disk() if request.param == "real" else ForgetfulDisk(tmp_path)


def content(disk: Disk, path: Path) -> bytes:
    return disk.read(path, 0, disk.size(path))


def test_a_file_has_the_bytes_of_its_pieces(disk: Disk, tmp_path: Path) -> None:
    path = tmp_path / "a"
    disk.create(path, [b"on", b"", b"e"])
    disk.sync(path)
    disk.sync_folder(tmp_path)
    assert (content(disk, path), disk.size(path)) == (b"one", 3)
    assert disk.modified(path) > 0


def test_pieces_are_taken_one_after_the_other(disk: Disk, tmp_path: Path) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"half"
        raise KeyError

    with pytest.raises(KeyError):
        disk.create(tmp_path / "a", pieces())
    assert disk.names(tmp_path) == ["a"]


def test_a_part_of_a_file_is_read_up_to_its_end(disk: Disk, tmp_path: Path) -> None:
    disk.create(tmp_path / "a", [b"0123456789"])
    assert disk.read(tmp_path / "a", 3, 4) == b"3456"
    assert disk.read(tmp_path / "a", 8, 4) == b"89"
    assert disk.read(tmp_path / "a", 10, 4) == b""


def test_a_file_is_created_once(disk: Disk, tmp_path: Path) -> None:
    disk.create(tmp_path / "a", [b"1"])
    with pytest.raises(FileExistsError):
        disk.create(tmp_path / "a", [b"2"])
    assert content(disk, tmp_path / "a") == b"1"


def test_a_rename_takes_the_place_of_what_is_there(disk: Disk, tmp_path: Path) -> None:
    disk.create(tmp_path / "a", [b"1"])
    disk.create(tmp_path / "b", [b"2"])
    disk.rename(tmp_path / "a", tmp_path / "b")
    assert disk.names(tmp_path) == ["b"]
    assert content(disk, tmp_path / "b") == b"1"


def test_a_rename_to_a_new_name_spares_what_is_there(disk: Disk, tmp_path: Path) -> None:
    disk.create(tmp_path / "a", [b"1"])
    disk.rename_new(tmp_path / "a", tmp_path / "b")
    assert disk.names(tmp_path) == ["b"]
    disk.create(tmp_path / "a", [b"2"])
    with pytest.raises(FileExistsError):
        disk.rename_new(tmp_path / "a", tmp_path / "b")
    assert content(disk, tmp_path / "b") == b"1"


def test_folders_are_made_one_by_one_and_once(disk: Disk, tmp_path: Path) -> None:
    disk.make_folder(tmp_path / "f")
    assert disk.names(tmp_path) == ["f"]
    assert disk.names(tmp_path / "f") == []
    with pytest.raises(FileExistsError):
        disk.make_folder(tmp_path / "f")
    with pytest.raises(FileNotFoundError):
        disk.make_folder(tmp_path / "g" / "h")


def test_names_are_sorted(disk: Disk, tmp_path: Path) -> None:
    for name in ("b", "a", "C"):
        disk.create(tmp_path / name, [])
    assert disk.names(tmp_path) == ["C", "a", "b"]


def test_what_is_removed_is_gone(disk: Disk, tmp_path: Path) -> None:
    disk.create(tmp_path / "a", [])
    disk.remove(tmp_path / "a")
    assert disk.names(tmp_path) == []
    with pytest.raises(FileNotFoundError):
        disk.remove(tmp_path / "a")


def test_what_is_not_there_is_not_found(disk: Disk, tmp_path: Path) -> None:
    path = tmp_path / "none"
    for call in (disk.size, disk.modified, disk.sync, disk.names, disk.sync_folder):
        with pytest.raises(FileNotFoundError):
            call(path)
    with pytest.raises(FileNotFoundError):
        disk.read(path, 0, 1)
    with pytest.raises(FileNotFoundError):
        disk.create(path / "a", [])
    with pytest.raises(FileNotFoundError):
        disk.rename(path, tmp_path / "b")
    with pytest.raises(FileNotFoundError):
        disk.rename_new(path, tmp_path / "b")


def test_a_file_is_no_folder(disk: Disk, tmp_path: Path) -> None:
    disk.create(tmp_path / "a", [])
    for call in (disk.names, disk.sync_folder):
        with pytest.raises(NotADirectoryError):
            call(tmp_path / "a")
    with pytest.raises(NotADirectoryError):
        disk.create(tmp_path / "a" / "b", [])
    with pytest.raises(NotADirectoryError):
        disk.make_folder(tmp_path / "a" / "b")
    with pytest.raises(NotADirectoryError):
        disk.size(tmp_path / "a" / "b")


@pytest.mark.parametrize(
    ("number", "harmless"), [(errno.EINVAL, True), (errno.EOPNOTSUPP, True), (errno.EIO, False)]
)
def test_a_file_system_without_sync_of_folders_is_taken_as_it_is(
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
