"""The twin forgets what a real disk may forget, and keeps what that must keep."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.stores.forgetful import ForgetfulDisk

ROOT = Path("/disk")
FILE = ROOT / "a"
CONTENT = b"0123456789"


def created(disk: ForgetfulDisk) -> None:
    disk.create(FILE, [CONTENT])


def synced(disk: ForgetfulDisk) -> None:
    disk.sync(FILE)


def named(disk: ForgetfulDisk) -> None:
    disk.sync_folder(ROOT)


def renamed(disk: ForgetfulDisk) -> None:
    for path, content in ((FILE, b"old"), (ROOT / "b", b"new")):
        disk.create(path, [content])
        disk.sync(path)
    disk.sync_folder(ROOT)
    disk.rename(ROOT / "b", FILE)


def after_crashes(*steps: Callable[[ForgetfulDisk], None]) -> set[bytes | None]:
    """What may be in the file after a crash; None: it is not there."""
    seen: set[bytes | None] = set()
    for seed in range(60):
        disk = ForgetfulDisk(ROOT, seed=seed)
        for step in steps:
            step(disk)
        disk.crash()
        there = FILE in disk.files()
        seen.add(disk.read(FILE, 0, 100) if there else None)
    return seen


def test_what_is_not_synced_may_be_torn() -> None:
    for steps, always in (((created,), {None, b"", CONTENT}), ((created, named), {b"", CONTENT})):
        seen = after_crashes(*steps)
        assert always < seen
        assert (None in seen) == (None in always)
        assert all(CONTENT.startswith(each) for each in seen if each is not None)


def test_what_is_synced_is_whole_and_there_with_its_folder() -> None:
    assert after_crashes(created, synced) == {None, CONTENT}
    assert after_crashes(created, synced, named) == {CONTENT}
    assert after_crashes(renamed) == {b"old", b"new"}
    assert after_crashes(renamed, named) == {b"new"}


def test_a_folder_that_is_forgotten_takes_all_below_it_along() -> None:
    kept = set()
    for seed in range(20):
        disk = ForgetfulDisk(ROOT, seed=seed)
        for folder in (ROOT / "f", ROOT / "f" / "g"):
            disk.make_folder(folder)
        disk.create(ROOT / "f" / "g" / "h", [CONTENT])
        disk.sync(ROOT / "f" / "g" / "h")
        disk.sync_folder(ROOT / "f" / "g")
        disk.sync_folder(ROOT / "f")
        disk.crash()
        kept.add(len(disk.files()))
    assert kept == {0, 1}
