"""A bucket in memory that counts requests, and whose requests are lost where it is told so."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, TypeVar

from obstore.store import MemoryStore, ObjectStore

from streameval.checkpoints.bucket import Bucket
from streameval.checkpoints.storage import StoredFile

A = TypeVar("A")
B = TypeVar("B")


class Request(NamedTuple):
    """One request. call: get, put, list, copy or delete; key: of the object or folder."""

    call: str
    key: str


class WatchedBucket(Bucket):
    """See `Bucket`.

    Attributes:
        client: holds the objects.
        requests: all so far.
        before: is called with each request before it is sent; may raise: it is lost.
        after: is called with each request that was carried out; may raise: its answer is lost.
        now: what objects are dated with.
        rounds: how many requests were made one after the other, if each takes equally long and
            the pool is `in_lanes`.
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

    def put(self, key: str, *pieces: bytes) -> str:
        self._dates[key] = self.now
        return super().put(key, *pieces)

    def files(self, folder: str) -> dict[str, StoredFile]:
        found = super().files(folder)
        return {
            name: each._replace(modified=self._dates.get(f"{folder}/{name}", self.now))
            for name, each in found.items()
        }

    def stored(self) -> list[str]:
        """The keys of all objects."""
        return sorted(Bucket("", self.client).files(""))

    def in_lanes(self, limit: int, read: Callable[[A], B], items: Iterable[A]) -> list[B]:
        """In place of the pool of threads: equal results, in as many rounds as it would take."""
        lanes = [self.rounds] * limit
        results = []
        for item in items:
            lane = lanes.index(min(lanes))
            self.rounds = lanes[lane]
            results.append(read(item))
            lanes[lane] = self.rounds
        self.rounds = max(lanes)
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
