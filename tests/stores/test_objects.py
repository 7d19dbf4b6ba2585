"""A store in a bucket needs few requests, and survives failed ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import count, repeat
from pathlib import Path
from typing import NamedTuple, TypeVar

import obstore
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import rule, run_state_machine_as_test
from obstore.store import MemoryStore, ObjectStore

from streameval.checkpoints import store as stores
from streameval.checkpoints.bucket import Bucket
from streameval.checkpoints.format import IDENTITY_FILE, CheckpointDraft, Shard
from streameval.checkpoints.restore import RestorePlanner
from streameval.checkpoints.settings import CheckpointSettings
from streameval.checkpoints.storage import Storage, StoredFile
from streameval.checkpoints.store import GRACE, Store, folder_store
from streameval.events.errors import RefusedStateError, StoreError
from streameval.events.records import Assignment, Partition
from tests.crashes.simulated_disk import Crash
from tests.durability.checkpointing import assignment
from tests.present import present
from tests.stores.drafts import NOON, SHARD, Writer, draft, header, part, whole
from tests.stores.histories import OFFSETS, PROCESSES, SOME, StoreHistories

A = TypeVar("A")
B = TypeVar("B")


class Request(NamedTuple):
    """One request. call: get, put, list, copy or delete; key: of the object or folder."""

    call: str
    key: str


class FaultyBucket(Bucket):
    """See `Bucket`.

    Attributes:
        client: holds the objects.
        requests: all requests so far.
        before: called before each request; if it raises, the request is lost.
        after: called after each request; if it raises, the response is lost.
        now: modification time of new objects.
        rounds: length of the critical path in requests, if all take equally long and
            `map_concurrently` is replaced by `map_with_workers`.
    """

    def __init__(self, client: ObjectStore | None = None) -> None:
        self.client = client or MemoryStore()
        super().__init__("s3://bucket/state", self.client)
        self.requests: list[Request] = []
        self.before: Callable[[Request], None] = lambda _: None
        self.after: Callable[[Request], None] = lambda _: None
        self.now = 1_000_000.0
        self.rounds = 0
        self._dates: dict[str, float] = {}

    def put_new(self, key: str, pieces: Iterable[bytes]) -> bool:
        self._dates.setdefault(key, self.now)
        return super().put_new(key, pieces)

    def files(self, folder: str = "") -> dict[str, StoredFile]:
        files_there = super().files(folder)
        return {
            name: file._replace(
                modified=self._dates.get(f"{folder}/{name}" if folder else name, self.now)
            )
            for name, file in files_there.items()
        }

    def stored(self) -> list[str]:
        return sorted(Bucket("", self.client).files(""))

    def map_with_workers(self, limit: int, read: Callable[[A], B], items: Iterable[A]) -> list[B]:
        """A sequential replacement of the thread pool that counts its rounds."""
        workers = [self.rounds] * limit
        results = []
        for item in items:
            worker = workers.index(min(workers))
            self.rounds = workers[worker]
            results.append(read(item))
            workers[worker] = self.rounds
        self.rounds = max(workers)
        return results

    @contextmanager
    def _request(self, call: str, key: str) -> Iterator[None]:
        request = Request(call, key)
        self.requests.append(request)
        self.rounds += 1
        self.before(request)
        with super()._request(call, key):
            yield
        self.after(request)


MOST = 4
"""Requests per round: list the own files, read one to absorb, write, delete."""
MOST_IN_SEQUENCE = 20
"""Sequential requests per restore."""


@pytest.fixture
def bucket() -> FaultyBucket:
    return FaultyBucket()


def opened(bucket: FaultyBucket) -> Store:
    store = Store(bucket)
    store.claim("c1", "g1")
    return store


def failing(number: int, make: Callable[[], BaseException]) -> Callable[[Request], None]:
    """A hook for `before` or `after` that fails the request of this number, counted from 0."""
    numbers = count()

    def fail(_: Request) -> None:
        if next(numbers) == number:
            raise make()

    return fail


class Histories(StoreHistories):
    """Histories on a bucket that may lose any request or response."""

    def __init__(self) -> None:
        self.bucket = FaultyBucket()
        super().__init__()

    def storage(self) -> Storage:
        return self.bucket

    @rule(
        process=PROCESSES,
        offset=OFFSETS,
        shards=SOME,
        owned=SOME,
        step=st.integers(0, 8),
        arrives=st.booleans(),
        dies=st.booleans(),
    )
    def save_amid_trouble(
        self,
        process: int,
        offset: int,
        shards: set[Shard],
        owned: set[Shard],
        step: int,
        *,
        arrives: bool,
        dies: bool,
    ) -> None:
        """A request or its response is lost; the process dies or continues."""
        heights = self.heights(process, offset, shards)
        for shard, height in heights.items():
            self.perhaps[shard].add(height)
        fail = failing(step, Crash if dies else lambda: StoreError("s3://bucket", "lost", "wait"))
        setattr(self.bucket, "after" if arrives else "before", fail)
        with suppress(Crash, StoreError):
            self.write(process, heights, owned)
        self.bucket.before = self.bucket.after = lambda _: None
        if dies:
            self.writers[process] = self.start(process)

    @rule()
    def time_passes(self) -> None:
        self.bucket.now += GRACE + 1


def test_the_highest_saved_checkpoint_survives_lost_requests() -> None:
    run_state_machine_as_test(Histories, settings=settings(stateful_step_count=20, deadline=None))


def panes(number: int, kept: int, shard: Shard = SHARD) -> CheckpointDraft:
    """A draft with one more pane than the previous one; the newest `kept` panes remain."""
    names = [f"labels/60/{pane:08}" for pane in range(max(0, number - kept), number)]
    new = [part(name, [f"{shard} {name}".encode() * 9]) for name in names]
    old = [part(name, None) for name in names[:-1]]
    meta = part("meta", [b"%d" % number])
    made = header(shard, number, written_at=NOON + number, partitions=8)
    return CheckpointDraft(header=made, parts=[*(old if number > 1 else []), *new[-1:], meta])


def pane_contents(number: int, kept: int, shard: Shard = SHARD) -> dict[str, bytes]:
    names = [f"labels/60/{pane:08}" for pane in range(max(0, number - kept), number)]
    return {name: f"{shard} {name}".encode() * 9 for name in names} | {"meta": b"%d" % number}


def test_a_round_takes_few_requests_for_any_number_of_panes(bucket: FaultyBucket) -> None:
    store = opened(bucket)
    for number in range(1, 150):
        bucket.now += 60
        bucket.requests.clear()
        store.save([panes(number, 100)])
        # Now and then it looks for files of processes that have ended.
        assert len(bucket.requests) <= MOST + 3 * (number % 60 == 1), bucket.requests
        assert [request.call for request in bucket.requests].count("put") == 1
    checkpoint = present(Store(bucket).newest(SHARD).saved)
    assert {name: checkpoint.read(name) for name in checkpoint.digests} == pane_contents(149, 100)
    assert len(bucket.stored()) <= 64 + 5


def test_a_round_of_many_shards_is_one_object(bucket: FaultyBucket) -> None:
    store = opened(bucket)
    bucket.requests.clear()
    store.save([panes(1, 100, SHARD._replace(number=number)) for number in range(64)])
    # Its first round also looks for files of processes that have ended.
    assert [request.call for request in bucket.requests] == ["list", "get", "list", "put"]


def test_a_round_that_is_larger_than_a_request_may_be_is_refused_before_it_is_sent(
    bucket: FaultyBucket,
) -> None:
    with pytest.raises(StoreError) as caught:
        bucket.put_new("rounds/0", repeat(bytes(1 << 20), 5_121))
    assert caught.value.problem == "it has 5,369,757,696 bytes, and one request takes 5,368,709,120"
    assert (bucket.requests, bucket.stored()) == ([], [])


class Conflicting(FaultyBucket):
    """Refuses rounds: a request for the same object, sent before, is still under way (409)."""

    refuses = False

    def put_new(self, key: str, pieces: Iterable[bytes]) -> bool:
        if not self.refuses:
            return super().put_new(key, pieces)
        b"".join(pieces)
        return False


def test_a_round_that_an_earlier_request_still_writes_has_failed_and_the_next_has_all() -> None:
    bucket = Conflicting()
    writer = Writer(opened(bucket))
    writer.save(110)
    bucket.refuses = True
    with pytest.raises(StoreError, match="still under way; the next round writes it again"):
        writer.save(120)
    bucket.refuses = False
    writer.save(130)
    assert whole(opened(bucket).newest(SHARD).saved) == 130
    assert len(opened(bucket).listing().writers) == 1


def test_a_restore_of_many_partitions_takes_few_requests_in_sequence(
    bucket: FaultyBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    shards = [Shard("events", "a", number) for number in range(8)]
    for shard in shards:
        store = opened(bucket)
        for number in range(1, 41):
            store.save([panes(number, 200, shard)])
    monkeypatch.setattr(stores, "map_concurrently", bucket.map_with_workers)
    restoring = Store(bucket)
    bucket.rounds = 0
    bucket.requests.clear()
    restoring.claim("c1", "g1")
    planner = RestorePlanner(restoring, _SETTINGS, {})
    plans = planner.plans([_assignment(shard) for shard in shards], restoring.listing())
    for plan in plans:
        assert plan.saved is not None
        assert [*plan.offsets.values()] == [40]
        parts = {name: plan.saved.read(name) for name in plan.saved.digests}
        assert parts == pane_contents(40, 200, plan.shard)
    assert bucket.rounds <= MOST_IN_SEQUENCE


_SETTINGS = CheckpointSettings(
    release="0.1.0", cluster=lambda: "c1", group="g1", fingerprint={}, interval=10.0
)


def _assignment(shard: Shard) -> Assignment:
    partition = Partition(shard.topic, shard.number)
    return assignment(partition=partition, identity=shard.identity, partitions=8)


class Repeating(FaultyBucket):
    """Its client loses each first answer and asks again: then the object exists."""

    def put_new(self, key: str, pieces: Iterable[bytes]) -> bool:
        data = b"".join(pieces)
        super().put_new(key, [data])
        return super().put_new(key, [data])


def test_a_round_whose_response_was_lost_is_the_one_that_was_written() -> None:
    bucket = Repeating()
    writer = Writer(opened(bucket))
    for offset in (10, 20):
        writer.save(offset)
    assert whole(Store(bucket).newest(SHARD).saved) == 20
    assert len({key.split("/")[1] for key in bucket.stored() if key.endswith(".round")}) == 1


def test_a_claim_whose_response_was_lost_belongs_to_its_process(bucket: FaultyBucket) -> None:
    lost = failing(0, lambda: StoreError("s3://bucket", "lost", "wait"))
    bucket.after = lambda request: lost(request) if request.call == "put" else None
    with pytest.raises(StoreError, match="lost"):
        Store(bucket).claim("c1", "g1")
    bucket.after = lambda _: None
    opened(bucket)
    with pytest.raises(RefusedStateError):
        Store(bucket).claim("c2", "g1")


def test_only_one_of_two_concurrent_claims_wins(bucket: FaultyBucket) -> None:
    def other(request: Request) -> None:
        if request == Request("put", IDENTITY_FILE):
            bucket.before = lambda _: None
            Store(bucket).claim("c2", "g2")

    bucket.before = other
    with pytest.raises(RefusedStateError, match="belongs to cluster 'c2'"):
        Store(bucket).claim("c1", "g1")


def test_a_store_claimed_and_written_during_a_listing_is_not_unclaimed(
    bucket: FaultyBucket,
) -> None:
    def other(request: Request) -> None:
        if request.call == "list":
            bucket.before = lambda _: None
            opened(bucket).save([draft(5)])

    bucket.before = other
    Store(bucket).claim("c1", "g1")


def test_a_bucket_can_be_copied_to_a_folder_and_back(bucket: FaultyBucket, tmp_path: Path) -> None:
    writer = Writer(opened(bucket))
    for offset in (110, 120, 230):
        writer.save(offset)
    for key in bucket.stored():
        (tmp_path / key).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / key).write_bytes(bucket.get(key))
    folder = folder_store(tmp_path)
    folder.claim("c1", "g1")
    assert whole(folder.newest(SHARD).saved) == 230
    assert [at.offset for at in folder.listing().shards[SHARD]] == [230, 120]
    Writer(folder).save(240)
    back = FaultyBucket()
    for file in (path for path in tmp_path.rglob("*") if path.is_file()):
        back.put_new(file.relative_to(tmp_path).as_posix(), [file.read_bytes()])
    again = opened(back)
    assert whole(again.newest(SHARD).saved) == 240
    again.save([draft(260)])
    assert whole(Store(back).newest(SHARD).saved) == 260


def test_other_objects_of_the_bucket_are_kept(bucket: FaultyBucket) -> None:
    others = ["notes.txt", "lost+found/a", "rounds/notes.txt", "events/a/b/c/d.parquet"]
    for key in others:
        bucket.put_new(key, [b"mine"])
    store = opened(bucket)
    for offset in range(100):
        bucket.now += GRACE + 1
        store.save([draft(offset)])
    assert set(others) <= set(bucket.stored())
    assert store.shards() == [SHARD]


@pytest.mark.parametrize("change", [lambda it: it[:-700], lambda it: it[:40], lambda _: b""])
def test_a_truncated_round_in_a_bucket_is_damaged(
    bucket: FaultyBucket, change: Callable[[bytes], bytes]
) -> None:
    writer = Writer(opened(bucket))
    for offset in (110, 220):
        writer.save(offset)
    newest = max(key for key in bucket.stored() if key.endswith(".round"))
    obstore.put(bucket.client, newest, change(bucket.get(newest)))
    found = Store(bucket).newest(SHARD)
    assert whole(found.saved) == 110
    assert found.damaged
    older = min(key for key in bucket.stored() if key.endswith(".round"))
    obstore.put(bucket.client, older, change(bucket.get(older)))
    assert Store(bucket).newest(SHARD).saved is None
