"""A process removes what its rounds supersede, and nothing that another one may need."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Sequence
from itertools import count
from types import SimpleNamespace

import msgspec
import pytest

from streameval.checkpoints import rounds as rounds_module
from streameval.checkpoints.format import Part, round_key, round_of
from streameval.checkpoints.storage import Folder, StoredFile
from streameval.checkpoints.store import GRACE, Store
from streameval.events.errors import StoreError
from tests.crashes.simulated_disk import Crash, SimulatedDisk, Step, refusing
from tests.present import present
from tests.stores.drafts import (
    NOON,
    SHARD,
    STORE,
    Writer,
    draft,
    later_round,
    opened,
    part,
    restored,
    whole,
)

OTHER = SHARD._replace(number=4)


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk(STORE.parent)


def rounds(disk: SimulatedDisk) -> dict[str, list[int]]:
    """The numbers of the rounds of each writer."""
    result: dict[str, list[int]] = {}
    for path in disk.files():
        of_round = round_of(str(path.relative_to(STORE)))
        if of_round is not None:
            result.setdefault(of_round[0], []).append(of_round[1])
    return result


def test_the_two_newest_rounds_and_what_they_refer_to_are_kept(disk: SimulatedDisk) -> None:
    writer = Writer(opened(disk))
    for offset in range(300):
        writer.save(offset)
        (numbers,) = rounds(disk).values()
        assert {offset, max(offset - 1, 0)} <= {*numbers}
        assert len(numbers) <= 5
    assert restored(disk) == 299


def test_files_are_few_and_parts_are_copied_seldom(disk: SimulatedDisk) -> None:
    """A pane of 5,000 bytes closes with each round, and one of 100 old ones goes."""
    store, size = opened(disk), 5_000
    panes: list[Part] = []
    written = most = 0
    for number in range(300):
        unchanged = [msgspec.structs.replace(pane, content=None) for pane in panes[-100:]]
        panes.append(part(f"pane/{number:03}", [b"%05d" % number * (size // 5)]))
        plain = draft(number)
        parts: Sequence[Part] = [*plain.parts, *unchanged, panes[-1]]
        store.save([msgspec.structs.replace(plain, parts=parts)])
        (newest,) = (path for path in disk.files() if path.stem == f"{number:020d}")
        written += disk.size(newest)
        most = max(most, len(disk.files()))
    assert most <= 64 + 4
    # The table of the parts is written with each round.
    tables = 300 * 100 * 200
    assert written <= tables + 5 * 300 * size
    saved = present(opened(disk).newest(SHARD).saved)
    assert saved.read("pane/250") == b"00250" * (size // 5)


def test_a_shard_leaves_a_directory_once_another_process_has_saved_it_twice(
    disk: SimulatedDisk,
) -> None:
    former, owner = Writer(opened(disk)), Writer(opened(disk))
    former.save_all({SHARD: 110, OTHER: 5})

    def held() -> dict[int, int]:
        newest = former.store.listing().writers[name][0]
        return {shard.number: at.offset for shard, at in present(newest).items()}

    (name,) = former.store.listing().writers
    former.save_all({OTHER: 6}, owned=[OTHER])
    assert held() == {3: 110, 4: 6}
    owner.save(120)
    former.save_all({OTHER: 7}, owned=[OTHER])
    assert held() == {3: 110, 4: 7}
    owner.save(130)
    former.save_all({OTHER: 8}, owned=[OTHER])
    assert held() == {4: 8}
    assert restored(disk) == 130


def test_a_copy_by_the_next_owner_is_enough_although_nothing_has_changed() -> None:
    for _ in range(6):
        # Whatever their names are.
        disk = SimulatedDisk(STORE.parent)
        former, owner = Writer(opened(disk)), opened(disk)
        former.save_all({SHARD: 110, OTHER: 5})
        (name,) = rounds(disk)
        owner.save([draft(110, written_at=NOON + 1)])
        owner.save([])
        former.save_all({OTHER: 6}, owned=[OTHER])
        assert [*present(former.store.listing().writers[name][0])] == [OTHER]


def test_a_former_owner_with_the_highest_checkpoint_keeps_it(disk: SimulatedDisk) -> None:
    former, owner = Writer(opened(disk)), Writer(opened(disk))
    former.save_all({SHARD: 200, OTHER: 5})
    for number in range(6, 200):
        owner.save(100 + number // 3)
        former.save_all({OTHER: number}, owned=[OTHER])
    assert restored(disk) == 200


def test_the_files_of_a_process_that_has_ended_go_once_others_have_saved_its_shards_twice(
    disk: SimulatedDisk,
) -> None:
    Writer(opened(disk)).save_all({SHARD: 110, OTHER: 5})
    (ended,) = rounds(disk)
    owner = Writer(opened(disk))
    for offset in range(120, 200):
        owner.save(offset)
    disk.now += GRACE + 1
    for offset in range(200, 300):
        owner.save(offset)
    # Nobody else has the other shard.
    assert ended in rounds(disk)
    for offset in range(300, 400):
        owner.save_all({SHARD: offset, OTHER: offset})
    assert ended not in rounds(disk)
    assert not [path for path in disk.files() if ended in str(path)]
    assert restored(disk) == 399


def test_processes_that_end_after_their_first_round_leave_few_files(disk: SimulatedDisk) -> None:
    for start in range(30):
        writer = Writer(opened(disk))
        assert restored(disk) == (100 + start - 1 if start else None)
        writer.save(100 + start)
        # Their files are those of the last ten minutes, and of two more.
        assert len(rounds(disk)) <= 5
        disk.now += GRACE / 2 + 1


def test_a_round_that_is_there_although_its_write_failed_is_kept(disk: SimulatedDisk) -> None:
    """Others may have restored it and committed its offset, while a partition moved to them."""
    writer = Writer(opened(disk))
    writer.save_all({SHARD: 110, OTHER: 5})
    disk.before = refusing(errno.EIO, "sync_folder")
    with pytest.raises(StoreError):
        writer.save_all({SHARD: 120, OTHER: 6})
    disk.before = lambda _: None
    assert restored(disk) == 120
    for offset in (7, 8, 9):
        writer.save_all({OTHER: offset}, owned=[OTHER])
        assert restored(disk) == 120


class LateFolder(Folder):
    """Gives up the write of one round, which lands right after the next listing, as in a bucket."""

    is_late = False
    request: tuple[str, bytes] | None = None

    def put_new(self, key: str, pieces: Iterable[bytes]) -> bool:
        if not self.is_late:
            return super().put_new(key, pieces)
        self.is_late, self.request = False, (key, b"".join(pieces))
        raise StoreError(self.path_of(key), "no answer", "try again")

    def files(self, folder: str = "") -> dict[str, StoredFile]:
        files, request, self.request = super().files(folder), self.request, None
        if request is not None:
            super().put_new(request[0], [request[1]])
        return files


def test_a_round_that_lands_after_the_next_listing_is_kept(disk: SimulatedDisk) -> None:
    opened(disk)
    writer = Writer(Store(storage := LateFolder(STORE, disk)))
    writer.save_all({SHARD: 110, OTHER: 5})
    storage.is_late = True
    with pytest.raises(StoreError):
        writer.save_all({SHARD: 120, OTHER: 6})
    for offset in (7, 8, 9):
        writer.save_all({OTHER: offset}, owned=[OTHER])
        assert restored(disk) == 120


def test_a_single_round_of_another_process_is_not_enough(disk: SimulatedDisk) -> None:
    Writer(opened(disk)).save_all({SHARD: 110, OTHER: 5})
    (ended,) = rounds(disk)
    Writer(opened(disk)).save(120)
    disk.now += GRACE + 1
    # Both of its rounds have the other shard.
    sweeper = Writer(opened(disk))
    for _ in range(70):
        sweeper.save_all({OTHER: 6})
    assert ended in rounds(disk)


def test_a_former_owner_that_is_slow_keeps_its_files(disk: SimulatedDisk) -> None:
    slow, owner = Writer(opened(disk)), Writer(opened(disk))
    slow.save(110)
    (name,) = rounds(disk)
    for offset in range(120, 300):
        owner.save(offset)
    assert name in rounds(disk)


@pytest.mark.parametrize("content", [b"", later_round(110)[1]], ids=["damaged", "later"])
def test_what_cannot_be_read_is_not_removed(disk: SimulatedDisk, content: bytes) -> None:
    Writer(opened(disk)).save(110)
    (path,) = (path for path in disk.files() if path.suffix == ".round")
    disk.overwrite(path, content)
    owner = Writer(opened(disk))
    disk.now += GRACE + 1
    for offset in range(120, 300):
        owner.save(offset)
    assert path in disk.files()
    assert restored(disk) == 299


def test_temporary_files_of_a_killed_process_are_removed(disk: SimulatedDisk) -> None:
    Writer(opened(disk)).save(110)
    (first,) = (path for path in disk.files() if path.suffix == ".round")
    for folder in (first.parent, first.parent.with_name("0" * 16)):
        if folder != first.parent:
            disk.make_folder(folder)
        disk.create(folder / f"{1:020d}.round.0123.tmp", [b"half"])
    owner = Writer(opened(disk))
    owner.save(120)
    disk.now += GRACE + 1
    for offset in range(130, 300):
        owner.save(offset)
    assert len(rounds(disk)) == 1
    assert not [path for path in disk.files() if path.suffix == ".tmp"]
    assert len(disk.names(STORE / "rounds")) == 1


def test_a_process_that_was_taken_for_dead_goes_on_under_another_name(
    disk: SimulatedDisk,
) -> None:
    slow, owner = Writer(opened(disk)), Writer(opened(disk))
    slow.save_all({SHARD: 110, OTHER: 5})
    (name,) = rounds(disk)
    disk.now += GRACE + 1
    for offset in range(120, 300):
        owner.save_all({SHARD: offset, OTHER: offset})
    assert name not in rounds(disk)
    with pytest.raises(StoreError, match="is missing; the next round writes it again"):
        slow.save(400)
    slow.save_all({SHARD: 400, OTHER: 400})
    assert len(rounds(disk)) == 2
    assert restored(disk) == 400


def test_shards_that_others_own_now_are_not_missed_when_their_files_are_gone(
    disk: SimulatedDisk,
) -> None:
    """Else a process that comes back would end over its first checkpoint of another shard."""
    slow, owner = Writer(opened(disk)), Writer(opened(disk))
    slow.save_all({SHARD: 110, OTHER: 5})
    disk.now += GRACE + 1
    for offset in range(120, 300):
        owner.save_all({SHARD: offset, OTHER: offset})
    assert len(rounds(disk)) == 1
    new = SHARD._replace(number=5)
    slow.save_all({new: 7}, owned=[new])
    assert whole(opened(disk).newest(new).saved, new) == 7
    assert restored(disk) == 299


def test_a_checkpoint_that_its_owner_has_forgotten_replaces_no_other(disk: SimulatedDisk) -> None:
    """Of the one with a higher offset, somebody has removed a file with parts of it."""
    former, owner = Writer(opened(disk)), Writer(opened(disk))
    former.save_all({SHARD: 110, OTHER: 5})
    (ours,) = rounds(disk)
    new = SHARD._replace(number=5)
    owner.save(120)
    owner.save(121)
    owner.save_all({new: 7}, owned=[new])
    (theirs,) = {*rounds(disk)} - {ours}
    disk.remove(STORE / round_key(theirs, 0))
    owner.save_all({new: 8}, owned=[new])
    for number in (6, 7, 8):
        former.save_all({OTHER: number}, owned=[OTHER])
    assert whole(opened(disk).newest(SHARD).saved) == 110


def test_what_replaces_the_files_of_others_is_made_durable_first() -> None:
    """Processes may be killed before the only round of each is durable."""

    def killed(step: Step) -> None:
        if step.call == "sync_folder" and step.path.parent == STORE / "rounds":
            raise Crash

    for seed in range(30):
        disk = SimulatedDisk(STORE.parent, seed=seed)
        Writer(opened(disk)).save(110)
        disk.now += GRACE + 1
        for offset in (120, 130):
            writer = Writer(opened(disk))
            with disk.failing(killed):
                writer.save(offset)
        Writer(opened(disk)).save_all({OTHER: 6})
        assert len(rounds(disk)) == 3
        disk.crash()
        assert restored(disk) is not None


def test_a_checkpoint_whose_file_is_missing_replaces_no_other(disk: SimulatedDisk) -> None:
    Writer(opened(disk)).save(110)
    (ended,) = rounds(disk)
    disk.now += GRACE + 1
    owner = Writer(opened(disk))
    owner.save(120)
    for offset in (5, 6):
        owner.save_all({OTHER: offset})
    (theirs,) = {*rounds(disk)} - {ended}
    disk.remove(STORE / round_key(theirs, 0))
    Writer(opened(disk)).save_all({OTHER: 7})
    assert whole(opened(disk).newest(SHARD).saved) == 110


def test_a_damaged_checkpoint_replaces_none_of_who_has_skipped_it(disk: SimulatedDisk) -> None:
    Writer(opened(disk)).save_all({SHARD: 110, OTHER: 5})
    (earliest,) = rounds(disk)
    damaged = Writer(opened(disk))
    damaged.save(200)
    damaged.save(200)
    (name,) = rounds(disk).keys() - {earliest}
    first = STORE / round_key(name, 0)
    content = disk.read(first, 0, disk.size(first))
    disk.overwrite(first, content.replace(b"one shop", b"two shop"))
    owner = Writer(opened(disk))
    assert whole(owner.store.newest(SHARD).saved) == 110
    owner.save(150)
    new = SHARD._replace(number=5)
    for number in range(5):
        owner.save_all({new: number}, owned=[new])
    assert whole(opened(disk).newest(SHARD).saved) == 150


def test_files_of_another_user_that_cannot_be_removed_keep_none_of_ours(
    disk: SimulatedDisk,
) -> None:
    Writer(opened(disk)).save(110)
    (ended,) = rounds(disk)
    owner = Writer(opened(disk))
    # Nobody else has the other shard, so each round looks what others have.
    owner.save_all({SHARD: 120, OTHER: 5})

    def refused(step: Step) -> None:
        if step.call == "remove" and ended in str(step.path):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(step.path))

    disk.before = refused
    disk.now += GRACE + 1
    for offset in range(130, 150):
        owner.save(offset, owned=[SHARD])
    assert "permission denied" in present(owner.store.cleanup_failure)
    result = rounds(disk)
    assert result.pop(ended) == [0]
    (numbers,) = result.values()
    assert len(numbers) <= 5


def test_a_listing_ends_although_others_write_while_it_reads(disk: SimulatedDisk) -> None:
    """While it reads ten rounds, the process whose turn is last writes one and removes one."""
    writers: dict[str, Writer] = {}
    for _ in range(40):
        writer = Writer(opened(disk))
        writer.save(110)
        writer.save(110)
        (name,) = rounds(disk).keys() - writers.keys()
        writers[name] = writer
    reads = count(1)

    def busy(step: Step) -> None:
        if step.call == "read" and step.path.suffix == ".round" and not next(reads) % 10:
            disk.before = lambda _: None
            writers[min(writers)].save(110)
            disk.before = busy

    reader = opened(disk)
    disk.before = busy
    assert reader.listing().writers.keys() == writers.keys()


def test_of_two_processes_of_one_name_the_second_goes_on_under_another(
    disk: SimulatedDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = iter([letter * 16 for letter in "aabc"])
    monkeypatch.setattr(rounds_module, "secrets", SimpleNamespace(token_hex=lambda _: next(names)))
    first, second = Writer(opened(disk)), Writer(opened(disk))
    first.save(110)
    with pytest.raises(StoreError, match="another process has written a round of this name"):
        second.save(120)
    second.save(120)
    first.save(130)
    assert rounds(disk) == {"a" * 16: [0, 1], "b" * 16: [0]}
    assert restored(disk) == 130


def test_a_failed_removal_is_reported_and_fails_no_save(disk: SimulatedDisk) -> None:
    writer = Writer(opened(disk))
    disk.before = refusing(errno.EACCES, "remove")
    for offset in (100, 200, 300, 400):
        writer.save(offset)
    assert "permission denied" in present(writer.store.cleanup_failure)
    disk.before = lambda _: None
    writer.save(500)
    assert writer.store.cleanup_failure is None
    (numbers,) = rounds(disk).values()
    assert len(numbers) <= 3
