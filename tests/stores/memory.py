"""A store in memory; keeps the contract of every store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import TypeVar

from streameval.checkpoints.checkpoint import VERSION, Draft, Header, Place, Skip, Stop
from streameval.checkpoints.store import Found, SavedCheckpoint, Store
from streameval.errors import ForeignStoreError, StateVersionError

A = TypeVar("A")
B = TypeVar("B")


class MemorySaved(SavedCheckpoint):
    """See `SavedCheckpoint`."""

    def __init__(self, header: Header, parts: Mapping[str, bytes]) -> None:
        self.header = header
        self._bytes = parts

    @property
    def digests(self) -> Mapping[str, str]:
        return {n: blake2b(data, digest_size=32).hexdigest() for n, data in self._bytes.items()}

    def read(self, part: str) -> bytes:
        return self._bytes[part]


class MemoryStore(Store):
    """See `Store`.

    Attributes:
        saved: every checkpoint by place and offset.
        noted: what was noted of each place.
        skipped: what is to be skipped of each place.
        trouble: what a test says it is.
    """

    def __init__(self) -> None:
        self.saved: dict[Place, dict[int, MemorySaved]] = {}
        self.noted: dict[Place, list[Stop]] = {}
        self.skipped: dict[Place, list[Skip]] = {}
        self.trouble: str | None = None
        self._claimed_by: tuple[str, str] | None = None

    def claim(self, cluster: str, group: str) -> None:
        self._claimed_by = self._claimed_by or (cluster, group)
        for what, here, there in zip(
            ("cluster", "group"), (cluster, group), self._claimed_by, strict=True
        ):
            if here != there:
                raise ForeignStoreError("memory", what, here, there)

    def places(self) -> list[Place]:
        return sorted(self.saved)

    def newest(self, place: Place) -> Found:
        found = self.saved.get(place)
        if not found:
            return Found(saved=None)
        saved = found[max(found)]
        if saved.header.version != VERSION:
            raise StateVersionError(str(place), saved.header.version, VERSION)
        return Found(saved=saved)

    def save(self, draft: Draft) -> Mapping[str, str]:
        parts = {part.name: b"".join(part.content()) for part in draft.parts}
        saved = MemorySaved(draft.header, parts)
        self.saved.setdefault(draft.header.place, {})[draft.header.offset] = saved
        return saved.digests

    def note(self, place: Place, stop: Stop) -> None:
        self.noted.setdefault(place, []).append(stop)

    def skips(self, place: Place) -> Sequence[Skip]:
        return self.skipped.get(place, [])

    def gather(self, read: Callable[[A], B], items: Iterable[A]) -> list[B]:
        return [read(each) for each in items]

    def archive(self, place: Place) -> None:
        self.saved.pop(place, None)
