"""A store in memory; keeps the contract of every store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b

import msgspec

from streameval.durability.checkpoint import VERSION, Draft, Header, Place
from streameval.durability.skipping import Skip, Stop
from streameval.durability.store import Saved
from streameval.errors import ForeignStoreError, StateVersionError


class MemorySaved:
    """See `Saved`."""

    def __init__(self, header: Header, parts: Mapping[str, bytes]) -> None:
        self.header = header
        self._parts = parts

    @property
    def digests(self) -> Mapping[str, str]:
        return {n: blake2b(data, digest_size=32).hexdigest() for n, data in self._parts.items()}

    def read(self, part: str) -> bytes:
        return self._parts[part]


class MemoryFound(msgspec.Struct, kw_only=True):
    """See `Found`."""

    saved: Saved | None
    passed_over: Sequence[str] = ()


class MemoryStore:
    """See `Store`.

    Attributes:
        saved: every checkpoint by place and offset.
        stops: what was noted of each place.
        skipped: what is to be skipped of each place.
    """

    def __init__(self) -> None:
        self.saved: dict[Place, dict[int, MemorySaved]] = {}
        self.stops: dict[Place, list[Stop]] = {}
        self.skipped: dict[Place, list[Skip]] = {}
        self._claim: tuple[str, str] | None = None

    def claim(self, cluster: str, group: str) -> None:
        self._claim = self._claim or (cluster, group)
        for what, here, there in zip(
            ("cluster", "group"), (cluster, group), self._claim, strict=True
        ):
            if here != there:
                raise ForeignStoreError("memory", what, here, there)

    def places(self) -> list[Place]:
        return sorted(self.saved)

    def newest(self, place: Place) -> MemoryFound:
        found = self.saved.get(place)
        if not found:
            return MemoryFound(saved=None)
        saved = found[max(found)]
        if saved.header.version != VERSION:
            raise StateVersionError(str(place), saved.header.version, VERSION)
        return MemoryFound(saved=saved)

    def save(self, draft: Draft) -> Mapping[str, str]:
        parts = {part.name: b"".join(part.content()) for part in draft.parts}
        saved = MemorySaved(draft.header, parts)
        self.saved.setdefault(draft.header.place, {})[draft.header.offset] = saved
        return saved.digests

    def note(self, place: Place, stop: Stop) -> None:
        self.stops.setdefault(place, []).append(stop)

    def skips(self, place: Place) -> Sequence[Skip]:
        return self.skipped.get(place, [])

    def set_aside(self, place: Place) -> None:
        self.saved.pop(place, None)
