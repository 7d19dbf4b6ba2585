"""One contract, kept by every store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import blake2b
from itertools import product
from pathlib import Path

import msgspec
import pytest
from obstore.store import MemoryStore as ObjectsInMemory

from streameval.checkpoints.bucket import Bucket
from streameval.checkpoints.format import Place
from streameval.checkpoints.store import Store, folder_store, store_of
from streameval.events.errors import ForeignStoreError, StateVersionError
from tests.crashes.simulated_disk import SimulatedDisk
from tests.present import present
from tests.stores import s3
from tests.stores.drafts import PLACE, contents, draft, part, whole

Opened = Callable[[], Store]
"""The same store once more, as another process has it."""


def _folder(path: Path) -> Opened:
    return lambda: folder_store(path / "deep" / "store")


def _simulated(path: Path) -> Opened:
    disk = SimulatedDisk(path)
    return lambda: folder_store(path / "deep" / "store", disk)


def _objects(_: Path) -> Opened:
    client = ObjectsInMemory()
    return lambda: Store(Bucket("s3://bucket/state", client))


def _s3(_: Path) -> Opened:
    path, options = s3.new_path(), s3.options()
    return lambda: store_of(path, options)


CASES: dict[str, Callable[[Path], Opened]] = {
    "folder": _folder,
    "folder on the simulated disk": _simulated,
    "objects in memory": _objects,
    "S3": _s3,
}


PLACES = [
    Place("", "", 0),
    Place("..", ".", 0),
    Place("/data/day 1%2F.ndjson", "2049:77", 0),
    Place("ünicode\n", "", 10),
    Place("shop.events", "a", 2),
    Place("shop.events", "a", 10),
    Place("shop.events", "b", 2),
    Place("store.json", "x", 1),
]


_NIGHTLY = ("S3",)
"""It takes seconds to start, and speaks the protocol of the objects in memory."""


@pytest.fixture(
    params=[
        pytest.param(name, marks=[pytest.mark.nightly] if name in _NIGHTLY else [])
        for name in CASES
    ]
)
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Opened:
    made = CASES[request.param](tmp_path)
    made().claim("c1", "g1")
    return made


def test_an_empty_store_has_nothing(opened: Opened) -> None:
    assert opened().places() == []
    newest = opened().newest(PLACE)
    assert newest.saved is None
    assert list(newest.damaged) == []


def test_what_was_saved_is_found_by_another_process(opened: Opened) -> None:
    given = draft(17)
    opened().save(given)
    saved = present(opened().newest(PLACE).saved)
    assert saved.header == given.header
    assert whole(saved) == 17


def test_the_table_of_a_save_is_that_which_is_found(opened: Opened) -> None:
    given = opened().save(draft(17))
    saved = present(opened().newest(PLACE).saved)
    assert saved.entries == given
    assert saved.digests == {
        name: blake2b(b"".join(pieces), digest_size=32).hexdigest()
        for name, pieces in contents(PLACE, 17).items()
    }


def test_the_highest_offset_wins_whatever_came_last(opened: Opened) -> None:
    for offset in (5, 20, 7):
        opened().save(draft(offset))
    assert whole(opened().newest(PLACE).saved) == 20


def test_the_same_offset_once_more_takes_the_place_of_the_first(opened: Opened) -> None:
    store = opened()
    store.save(draft(20, counted=3))
    store.save(draft(20, counted=9))
    saved = present(store.newest(PLACE).saved)
    assert saved.header.counted == 9


def test_places_are_kept_apart(opened: Opened) -> None:
    for number, place in enumerate(PLACES):
        opened().save(draft(number, place))
    assert opened().places() == sorted(PLACES)
    for number, place in enumerate(PLACES):
        assert whole(opened().newest(place).saved, place) == number


def test_the_first_claim_decides(opened: Opened) -> None:
    opened().claim("c1", "g1")
    with pytest.raises(ForeignStoreError, match="belongs to cluster 'c1'") as wrong:
        opened().claim("c2", "g1")
    assert (wrong.value.what, wrong.value.here, wrong.value.there) == ("cluster", "c2", "c1")
    with pytest.raises(ForeignStoreError, match="belongs to group 'g1'"):
        opened().claim("c1", "g2")
    opened().claim("c1", "g1")


def test_an_unknown_version_of_the_newest_is_refused(opened: Opened) -> None:
    opened().save(draft(20))
    opened().save(draft(30, version=99))
    with pytest.raises(StateVersionError, match="99 is not known; this release reads version 3"):
        opened().newest(PLACE)
    opened().save(draft(40))
    assert whole(opened().newest(PLACE).saved) == 40


def test_content_is_pulled_piece_by_piece_and_only_while_saving(opened: Opened) -> None:
    pulled: list[str] = []
    plain = draft(3)

    def watched(name: str) -> Callable[[], Iterator[bytes]]:
        def content() -> Iterator[bytes]:
            pulled.append(name)
            yield b"x"

        return content

    parts = [msgspec.structs.replace(part(n, []), content=watched(n)) for n in ("a", "b")]
    given = msgspec.structs.replace(plain, parts=parts)
    assert not pulled
    opened().save(given)
    assert pulled == ["a", "b"]


def test_a_failing_part_leaves_the_state_before(opened: Opened) -> None:
    store = opened()
    store.save(draft(10))

    def broken() -> Iterator[bytes]:
        yield b"half"
        raise RuntimeError

    for settled in (False, True):
        bad = msgspec.structs.replace(part("z", [], settled=settled), content=broken)
        given = draft(20)
        with pytest.raises(RuntimeError):
            store.save(msgspec.structs.replace(given, parts=[*given.parts, bad]))
        assert whole(opened().newest(PLACE).saved) == 10
    store.save(draft(30))
    assert whole(opened().newest(PLACE).saved) == 30


def test_a_listing_has_the_checkpoints_of_all_places_and_the_newest_first(opened: Opened) -> None:
    for place, offset in product(PLACES, (5, 20)):
        opened().save(draft(offset, place))
    listing = opened().listing()
    assert [*listing.places] == sorted(PLACES)
    for place, locations in listing.places.items():
        assert [(at.place, at.offset) for at in locations] == [(place, 20), (place, 5)]
        assert listing.damage(place) == []
        for at in locations:
            assert whole(opened().read(at), place) == at.offset


def test_a_location_is_that_of_before_until_its_bytes_change(opened: Opened) -> None:
    store = opened()
    store.save(draft(20))
    store.save(draft(7, PLACES[0]))
    before = store.listing().places
    assert opened().listing().places == before
    store.save(draft(30))
    after = store.listing().places
    assert after[PLACES[0]] == before[PLACES[0]]
    assert before[PLACE][0] in after[PLACE][1:]
    assert after[PLACE][0] != before[PLACE][0]


def test_only_the_wanted_parts_are_read(opened: Opened) -> None:
    opened().save(draft(20))
    (location,) = opened().listing().places[PLACE]
    saved = opened().read(location, lambda entry: entry.name in {"meta", "labels/2"})
    expected = contents(PLACE, 20)
    assert sorted(saved.digests) == sorted(expected)
    for name in ("meta", "labels/2"):
        assert saved.read(name) == b"".join(expected[name])


def test_a_checkpoint_that_was_superseded_after_the_listing_is_missing(opened: Opened) -> None:
    store = opened()
    store.save(draft(10))
    (location,) = opened().listing().places[PLACE]
    for offset in (20, 30, 40):
        store.save(draft(offset))
    with pytest.raises(FileNotFoundError):
        opened().read(location)


def test_listing_and_reading_write_nothing(opened: Opened) -> None:
    opened().save(draft(20))
    before = opened().listing().places[PLACE]
    (location,) = before
    opened().read(location)
    (again,) = opened().listing().places[PLACE]
    assert (again, again.modified) == (location, location.modified)
