"""A bucket in memory that records requests, and loses requests or their responses."""

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
