"""The twin forgets what a real disk may forget, and keeps what that must keep."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.stores.forgetful import ForgetfulDisk

ROOT = Path("/disk")
FILE = ROOT / "a"
CONTENT = b"0123456789"


def after_crashes(prepare: Callable[[ForgetfulDisk], None]) -> set[bytes | None]:
    """What may be in the file after a crash; None: it is not there."""
    seen: set[bytes | None] = set()
    for seed in range(60):
        disk = ForgetfulDisk(ROOT, seed=seed)
        prepare(disk)
        disk.crash()
        there = FILE in disk.files()
        seen.add(disk.read(FILE, 0, 100) if there else None)
    return seen


def test_nothing_synced_may_be_absent_empty_torn_or_whole() -> None:
    seen = after_crashes(lambda disk: disk.create(FILE, [CONTENT]))
    assert {None, b"", CONTENT} < seen
    assert any(each and CONTENT.startswith(each) and each != CONTENT for each in seen)


def test_synced_bytes_without_their_name_are_whole_or_absent() -> None:
    def prepare(disk: ForgetfulDisk) -> None:
        disk.create(FILE, [CONTENT])
        disk.sync(FILE)

    assert after_crashes(prepare) == {None, CONTENT}


def test_a_synced_name_without_its_bytes_is_there_and_torn() -> None:
    def prepare(disk: ForgetfulDisk) -> None:
        disk.create(FILE, [CONTENT])
        disk.sync_folder(ROOT)

    seen = after_crashes(prepare)
    assert None not in seen
    assert {b"", CONTENT} < seen


def test_everything_synced_is_there() -> None:
    def prepare(disk: ForgetfulDisk) -> None:
        disk.create(FILE, [CONTENT])
        disk.sync(FILE)
        disk.sync_folder(ROOT)

    assert after_crashes(prepare) == {CONTENT}


def test_a_rename_may_or_may_not_have_happened_until_its_folder_is_synced() -> None:
    def prepare(disk: ForgetfulDisk) -> None:
        for path, content in ((FILE, b"old"), (ROOT / "b", b"new")):
            disk.create(path, [content])
            disk.sync(path)
        disk.sync_folder(ROOT)
        disk.rename(ROOT / "b", FILE)

    def synced(disk: ForgetfulDisk) -> None:
        prepare(disk)
        disk.sync_folder(ROOT)

    assert after_crashes(prepare) == {b"old", b"new"}
    assert after_crashes(synced) == {b"new"}


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
