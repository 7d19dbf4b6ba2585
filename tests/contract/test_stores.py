"""One contract, kept by every store."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from hashlib import blake2b
from itertools import product
from pathlib import Path

import msgspec
import pytest
from obstore.store import MemoryStore as ObjectsInMemory

from streameval.checkpoints.bucket import Bucket, open_bucket
from streameval.checkpoints.format import ARCHIVE, IDENTITY_FILE, Entry, Shard, round_of
from streameval.checkpoints.storage import Disk, Folder, Storage
from streameval.checkpoints.store import Store
from streameval.events.errors import RefusedStateError, StateVersionError
from tests.crashes.simulated_disk import SimulatedDisk
from tests.present import present
from tests.stores import s3
from tests.stores.drafts import SHARD, contents, draft, later_round, part, whole

Opened = Callable[[], Store]
"""The same store once more, as another process has it."""

Storages = Callable[[], Storage]


def _folder(path: Path) -> Storages:
    return lambda: Folder(path / "deep" / "store", Disk())


def _simulated(path: Path) -> Storages:
    disk = SimulatedDisk(path)
    return lambda: Folder(path / "deep" / "store", disk)


def _objects(_: Path) -> Storages:
    client = ObjectsInMemory()
    return lambda: Bucket("s3://bucket/state", client)


def _s3(_: Path) -> Storages:
    path, options = s3.new_path(), s3.options()
    return lambda: open_bucket(path, options, lambda: None)


CASES: dict[str, Callable[[Path], Storages]] = {
    "folder": _folder,
    "folder on the simulated disk": _simulated,
    "objects in memory": _objects,
    "S3": _s3,
}


SHARDS = [
    Shard("", "", 0),
    Shard("..", ".", 0),
    Shard("/data/day 1%2F.ndjson", "2049:77", 0),
    Shard("ünicode\n", "", 10),
    Shard("shop.events", "a", 2),
    Shard("shop.events", "a", 10),
    Shard("shop.events", "b", 2),
    Shard("store.json", "x", 1),
]


_NIGHTLY = ("S3",)
"""It takes seconds to start, and speaks the protocol of the objects in memory."""


@pytest.fixture(
    params=[
        pytest.param(name, marks=[pytest.mark.nightly] if name in _NIGHTLY else [])
        for name in CASES
    ]
)
def storages(request: pytest.FixtureRequest, tmp_path: Path) -> Storages:
    made: Storages = CASES[request.param](tmp_path)
    Store(made()).claim("c1", "g1")
    return made


@pytest.fixture
def opened(storages: Storages) -> Opened:
    return lambda: Store(storages())


def test_an_empty_store_has_nothing(opened: Opened) -> None:
    assert opened().shards() == []
    newest = opened().newest(SHARD)
    assert newest.saved is None
    assert list(newest.damaged) == []


def test_what_was_saved_is_found_by_another_process(opened: Opened) -> None:
    inputs = draft(17)
    opened().save([inputs])
    saved = present(opened().newest(SHARD).saved)
    assert saved.header == inputs.header
    assert present(opened().last()).state.settings == inputs.header.state.settings
    assert whole(saved) == 17
    assert saved.digests == {
        name: blake2b(b"".join(pieces), digest_size=32).hexdigest()
        for name, pieces in contents(SHARD, 17).items()
    }


def test_the_highest_offset_wins_whatever_came_last(opened: Opened) -> None:
    for offset in (5, 20, 7):
        opened().save([draft(offset)])
    assert whole(opened().newest(SHARD).saved) == 20


def test_the_same_offset_once_more_takes_the_place_of_the_first(opened: Opened) -> None:
    store = opened()
    store.save([draft(20, counted={"events[0]": 3})])
    store.save([draft(20, counted={"events[0]": 9})])
    saved = present(store.newest(SHARD).saved)
    assert saved.header.counted == {"events[0]": 9}


def test_the_first_claim_decides(opened: Opened) -> None:
    opened().claim("c1", "g1")
    with pytest.raises(RefusedStateError, match="belongs to cluster 'c1'") as wrong:
        opened().claim("c2", "g1")
    assert wrong.value.owner == ("cluster", "c2", "c1")
    with pytest.raises(RefusedStateError, match="belongs to group 'g1'"):
        opened().claim("c1", "g2")
    opened().claim("c1", "g1")


@pytest.mark.parametrize("name", ["folder", pytest.param("S3", marks=pytest.mark.nightly)])
def test_only_one_of_many_concurrent_claims_wins(tmp_path: Path, name: str) -> None:
    made = CASES[name](tmp_path)

    def claimed(number: int) -> str | None:
        with suppress(RefusedStateError):
            Store(made()).claim(f"c{number}", "g")
            return f"c{number}"
        return None

    with ThreadPoolExecutor(8) as pool:
        won = [claim for claim in pool.map(claimed, range(40)) if claim is not None]
    assert won == [Store(made()).identity().cluster]
    assert [*made().files()] == [IDENTITY_FILE]


def test_an_unknown_version_of_the_newest_is_refused(storages: Storages) -> None:
    Store(storages()).save([draft(20)])
    key, content = later_round(30)
    storages().put_new(key, [content])
    with pytest.raises(StateVersionError, match="6 is not known; this release reads version 5"):
        Store(storages()).newest(SHARD)
    Store(storages()).save([draft(40)])
    assert whole(Store(storages()).newest(SHARD).saved) == 40


def test_content_is_pulled_piece_by_piece_and_only_while_saving(opened: Opened) -> None:
    pulled: list[str] = []
    plain = draft(3)

    def watched(name: str) -> Callable[[], Iterator[bytes]]:
        def content() -> Iterator[bytes]:
            pulled.append(name)
            yield b"x"

        return content

    parts = [msgspec.structs.replace(part(n, []), content=watched(n)) for n in ("a", "b")]
    inputs = msgspec.structs.replace(plain, parts=parts)
    assert not pulled
    opened().save([inputs])
    assert pulled == ["a", "b"]


def test_a_failing_part_leaves_the_state_before(opened: Opened) -> None:
    store = opened()
    store.save([draft(10)])

    def broken() -> Iterator[bytes]:
        yield b"half"
        raise RuntimeError

    bad = msgspec.structs.replace(part("z", []), content=broken)
    inputs = draft(20)
    with pytest.raises(RuntimeError):
        store.save([msgspec.structs.replace(inputs, parts=[*inputs.parts, bad])])
    assert whole(opened().newest(SHARD).saved) == 10
    store.save([draft(30)])
    assert whole(opened().newest(SHARD).saved) == 30


def test_a_round_has_the_checkpoints_of_many_shards(opened: Opened) -> None:
    opened().save([draft(number, shard) for number, shard in enumerate(SHARDS)])
    for number, shard in enumerate(SHARDS):
        assert whole(opened().newest(shard).saved, shard) == number


def test_what_did_not_change_is_written_once(opened: Opened) -> None:
    store, large = opened(), part("large", [b"x" * 10_000])
    plain = draft(1)
    store.save([msgspec.structs.replace(plain, parts=[*plain.parts, large])])
    (before,) = (at for at in _entries(store) if at.name == "large")
    for number in range(2, 20):
        plain = draft(number)
        same = msgspec.structs.replace(large, content=None if number % 2 else large.content)
        store.save([msgspec.structs.replace(plain, parts=[*plain.parts, same])])
    assert [at for at in _entries(opened()) if at.name == "large"] == [before]


def _entries(store: Store) -> Sequence[Entry]:
    return present(store.newest(SHARD).saved).entries


def test_a_shard_that_is_saved_no_longer_stays_in_the_directory(opened: Opened) -> None:
    store = opened()
    store.save([draft(20), draft(7, SHARDS[0])])
    for offset in range(21, 30):
        store.save([draft(offset)])
    store.save([])
    assert whole(opened().newest(SHARDS[0]).saved, SHARDS[0]) == 7
    assert whole(opened().newest(SHARD).saved) == 29


def test_what_starts_over_wins_and_what_was_before_is_kept_aside(storages: Storages) -> None:
    first = Store(storages())
    first.save([draft(500)])
    # A process that was killed in between does so once more.
    Store(storages()).archive(SHARD)
    other = Store(storages())
    other.archive(SHARD)
    other.save([draft(3, generation=1)])
    assert whole(Store(storages()).newest(SHARD).saved) == 3
    first.save([draft(600)])
    assert whole(Store(storages()).newest(SHARD).saved) == 3
    (claim,) = (
        key for key in storages().files() if key.startswith(ARCHIVE) and IDENTITY_FILE in key
    )
    assert storages().get(claim) == storages().get(IDENTITY_FILE)
    aside = claim.removesuffix(IDENTITY_FILE)
    rounds = [key for key in storages().files() if key.startswith(aside) and key != claim]
    assert [round_of(key.removeprefix(aside)) is None for key in rounds] == [False]


def test_a_listing_has_the_checkpoints_of_all_shards_and_the_newest_first(opened: Opened) -> None:
    for shard, offset in product(SHARDS, (5, 20)):
        opened().save([draft(offset, shard)])
    listing = opened().listing()
    assert opened().shards() == [*listing.shards] == sorted(SHARDS)
    for shard, locations in listing.shards.items():
        assert [(at.shard, at.offset) for at in locations] == [(shard, 20), (shard, 5)]
        assert listing.damage(shard) == []
        for at in locations:
            assert whole(opened().read(at), shard) == at.offset
        assert whole(opened().newest(shard).saved, shard) == 20


def test_a_location_is_that_of_before_until_its_bytes_change(opened: Opened) -> None:
    store = opened()
    store.save([draft(20)])
    store.save([draft(7, SHARDS[0])])
    before = store.listing().shards
    assert opened().listing().shards == before
    store.save([draft(30)])
    after = store.listing().shards
    assert after[SHARDS[0]] == before[SHARDS[0]]
    assert before[SHARD][0] in after[SHARD][1:]
    assert after[SHARD][0] != before[SHARD][0]


def test_only_the_wanted_parts_are_read(opened: Opened) -> None:
    opened().save([draft(20)])
    (location,) = opened().listing().shards[SHARD]
    saved = opened().read(location, lambda entry: entry.name in {"meta", "labels/2"})
    expected = contents(SHARD, 20)
    assert sorted(saved.digests) == sorted(expected)
    for name in ("meta", "labels/2"):
        assert saved.read(name) == b"".join(expected[name])


def test_a_checkpoint_that_was_superseded_after_the_listing_is_missing(opened: Opened) -> None:
    store = opened()
    store.save([draft(10)])
    (location,) = opened().listing().shards[SHARD]
    for offset in (200, 300, 400):
        store.save([draft(offset)])
    with pytest.raises(FileNotFoundError):
        opened().read(location)


def test_listing_and_reading_write_nothing(opened: Opened) -> None:
    opened().save([draft(20)])
    before = opened().listing().shards[SHARD]
    (location,) = before
    opened().read(location)
    (again,) = opened().listing().shards[SHARD]
    assert (again, again.modified) == (location, location.modified)
