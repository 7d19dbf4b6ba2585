"""Writes the rounds of one process; a round is one file, and supersedes earlier ones."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

import msgspec

from streameval.checkpoints.format import (
    FIRST_LINE,
    ROUNDS,
    CheckpointDraft,
    Directory,
    Header,
    Part,
    Region,
    Row,
    Shard,
    StateSettings,
    digest_of,
    end_of_round,
    record_of,
    round_key,
    round_of,
)
from streameval.checkpoints.storage import Storage, StoredFile
from streameval.events.errors import StoreError

_REWRITTEN: Final = "the next round writes it again"
_MOST_FILES: Final = 64
"""Most files that the newest round refers to; beyond it, each round absorbs the smallest one."""


class Retained:
    """The newest checkpoint of a shard in the rounds of this process.

    Attributes:
        needs: round -> bytes in it that this checkpoint needs.
    """

    def __init__(self, header: Header, rows: Sequence[Row], region: Region) -> None:
        self.header, self.rows, self.region = header, rows, region
        self.needs = Counter({region.round: region.record})
        for row in rows:
            self.needs[row.round] += row.size


class RoundWriter:
    """Writes rounds under a name that no other process has; see decision 26.

    A round refers to rounds of the same writer only: a shard that was taken over is copied once,
    with all parts. So only the writer removes its files, and no other process can remove a part
    that they need.

    `folder`: of the store in the storage; ends in a slash, or is empty.

    Attributes:
        name: of this process in the store.
        retained: the shards in the directory of the newest round.
    """

    def __init__(self, storage: Storage, folder: str = "") -> None:
        self._storage = storage
        self._folder = folder
        self._begin()

    def _begin(self) -> None:
        """Go on under a new name, with an empty directory."""
        self.name = secrets.token_hex(8)
        self._number = 0
        self.retained: dict[Shard, Retained] = {}
        self._needed: list[frozenset[int]] = []
        self._sizes: dict[int, int] = {}
        # Of the next round: each may still land, so its number stays until one of them has.
        self._attempts: list[_Encoder] = []

    def write(
        self,
        drafts: Sequence[CheckpointDraft],
        files: Mapping[int, StoredFile],
        owned: Collection[Shard],
        dropped: Collection[Shard],
        enough: Callable[[], bool],
    ) -> tuple[frozenset[Shard], list[str]]:
        """Write a round with these checkpoints, durably and at once.

        Args:
            drafts: the checkpoints.
            files: the existing rounds of this process.
            owned: the shards of this process; no parts of other shards are copied.
            dropped: shards that leave the directory.
            enough: returns True if the other drafts must wait; called before each but the first.

        Returns:
            The shards that were saved, and the keys that the round supersedes.

        Raises:
            StoreError: nothing was written, or the result is unknown.
        """
        drafted = {draft.header.shard for draft in drafts}
        if self._attempts and self._number in files:
            self._adopt(self._key(self._number))
        self._forget_missing(files, {*owned} - drafted)
        key = self._key(self._number)
        retained = {
            shard: retained for shard, retained in self.retained.items() if shard not in dropped
        }
        encoder = _Encoder(self.name, self._number, retained, self._storage.path_of(key))
        absorbed = self._absorb(files, owned)
        try:
            is_new = self._storage.put_new(key, encoder.pieces(drafts, enough, absorbed))
        finally:
            if encoder.seal:
                self._attempts.append(encoder)
        landed = encoder if is_new else self._adopt(key)
        if landed is not encoder:
            file = StoredFile(landed.size, modified=0.0, tag="")
            return self.write(drafts, {**files, landed.number: file}, owned, dropped, enough)
        self._note(encoder)
        keep = frozenset[int]().union(*self._needed)
        superseded = [self._key(number) for number in files if number not in keep]
        self._sizes = {number: self._sizes[number] for number in keep}
        return encoder.saved, superseded

    def _note(self, encoder: _Encoder) -> None:
        """Record a durable round; the next one refers to it."""
        self._number, self._attempts = encoder.number + 1, []
        self.retained = encoder.retained
        self._sizes[encoder.number] = encoder.size
        needed = frozenset(
            {encoder.number}.union(*(retained.needs for retained in self.retained.values()))
        )
        self._needed = [*self._needed[-1:], needed]

    def files(self) -> dict[int, StoredFile]:
        """The existing rounds of this process, by number."""
        folder = f"{ROUNDS}/{self.name}"
        files = self._storage.files(self._folder + folder)
        keys = {round_of(f"{folder}/{name}"): file for name, file in files.items()}
        # A file of another size is torn, and counts as missing.
        return {
            key[1]: file
            for key, file in keys.items()
            if key is not None and self._sizes.get(key[1], file.size) == file.size
        }

    def _forget_missing(self, files: Collection[int], needed: Collection[Shard]) -> None:
        """Forget shards of which a file is missing, so that all their parts are written again.

        `needed`: shards of this process that the next round does not write.

        Raises:
            StoreError: one of these is missing.
        """
        missing = {
            shard: number
            for shard, retained in self.retained.items()
            for number in retained.needs
            if number not in files
        }
        if missing and not files:
            # Other processes counted this one as ended, and have removed its folder.
            self._begin()
        for shard in missing:
            self.retained.pop(shard, None)
        for shard in missing.keys() & needed:
            path = self._storage.path_of(self._key(missing[shard]))
            raise StoreError(path, f"the file of a part of {shard} is missing", _REWRITTEN)

    def _key(self, number: int) -> str:
        return self._folder + round_key(self.name, number)

    def _absorb(self, files: Mapping[int, StoredFile], owned: Collection[Shard]) -> _Absorbed:
        """Read the needed parts of one round; the next round copies them, and it can be removed.

        A file qualifies if less than half of it is needed, or if there are too many files; of
        these, the one with the fewest needed bytes.
        """
        needed = Counter[int]()
        for shard, retained in self.retained.items():
            if shard in owned:
                needed += retained.needs
        used = frozenset[int]().union(*(retained.needs for retained in self.retained.values()))
        many = len(used) >= _MOST_FILES
        candidates = [n for n in needed if many or 2 * needed[n] < files[n].size]
        number = min(candidates, key=lambda number: needed[number], default=None)
        rows = [
            row
            for shard in owned
            if shard in self.retained
            for row in self.retained[shard].rows
            if row.round == number and row.size
        ]
        data, begin = b"", min((row.start for row in rows), default=0)
        end = max((row.start + row.size for row in rows), default=0)
        if number is not None and rows:
            with suppress(FileNotFoundError):
                data = self._storage.get_range(self._key(number), begin, end - begin)

        def read(shard: Shard, row: Row) -> bytes:
            content = data[row.start - begin : row.start - begin + row.size] if row.size else b""
            if digest_of(content) != row.digest:
                self.retained.pop(shard, None)
                problem = f"part {row.name!r} of {shard} is not what was written"
                raise StoreError(self._storage.path_of(self._key(row.round)), problem, _REWRITTEN)
            return content

        return _Absorbed(number, owned, read)

    def _adopt(self, key: str) -> _Encoder:
        """Record the attempt that has landed although its write seemed to fail.

        Others may have resumed from it, so it must not be removed as if it were nobody's.

        Raises:
            StoreError: the file is that of another process, or is not there yet.
        """
        try:
            content = self._storage.get(key)
        except FileNotFoundError as error:
            problem = "a request that writes it is still under way"
            raise StoreError(self._storage.path_of(key), problem, _REWRITTEN) from error
        for attempt in self._attempts:
            if content.endswith(attempt.seal):
                self._note(attempt)
                return attempt
        self._begin()
        problem = "another process has written a round of this name"
        raise StoreError(self._storage.path_of(key), problem, _REWRITTEN)


class _Absorbed(NamedTuple):
    """The round whose parts are copied, or None; shards with such parts; and a reader of parts."""

    round: int | None
    owned: Collection[Shard]
    read: Callable[[Shard, Row], bytes]


class _Encoder:
    """Encodes one round; `path`: of its file, for messages.

    Attributes:
        retained: the shards in its directory.
        saved: the shards of its drafts.
        size: of its bytes so far.
        seal: its last bytes.
    """

    def __init__(
        self, writer: str, number: int, retained: dict[Shard, Retained], path: str
    ) -> None:
        self.number = number
        self.retained = retained
        self.saved: frozenset[Shard] = frozenset()
        self.seal = b""
        self._writer = writer
        self._path = path
        self.size = 0

    def pieces(
        self,
        drafts: Sequence[CheckpointDraft],
        enough: Callable[[], bool],
        absorbed: _Absorbed,
    ) -> Iterator[bytes]:
        """Yield the bytes of the round; the content of a part is encoded when it is needed."""
        yield from self._count_bytes([FIRST_LINE])
        for draft in drafts:
            if self.saved and enough():
                break
            yield from self._count_bytes(self._shard(draft, absorbed))
            self.saved |= {draft.header.shard}
        for shard in sorted(self.retained.keys() - self.saved):
            retained = self.retained[shard]
            if absorbed.round in retained.needs and shard in absorbed.owned:
                parts = [Part(name=row.name, content=None) for row in retained.rows]
                draft = CheckpointDraft(header=retained.header, parts=parts)
                yield from self._count_bytes(self._shard(draft, absorbed))
        settings: list[StateSettings] = []
        shards: list[Region] = []
        for shard in sorted(self.retained):
            of_shard = self.retained[shard].header.state
            if of_shard not in settings:
                settings.append(of_shard)
            at = settings.index(of_shard)
            shards.append(msgspec.structs.replace(self.retained[shard].region, settings=at))
        directory = Directory(
            release=settings[0].release if settings else "",
            writer=self._writer,
            number=self.number,
            settings=settings,
            shards=shards,
        )
        end = end_of_round(directory, self.size)
        self.seal = end[-1]
        yield from self._count_bytes(end)

    def _count_bytes(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        for piece in pieces:
            self.size += len(piece)
            yield piece

    def _shard(self, draft: CheckpointDraft, absorbed: _Absorbed) -> Iterator[bytes]:
        """The parts of a shard that the round has, and its record."""
        header, start = draft.header, self.size
        retained = self.retained.get(header.shard)
        before = {} if retained is None else {row.name: row for row in retained.rows}
        rows = []
        for part in draft.parts:
            row = before.get(part.name)
            if part.content is not None:
                content = b"".join(part.content())
            elif row is None:
                problem = f"the file of part {part.name!r} of {header.shard} is missing"
                raise StoreError(self._path, problem, _REWRITTEN)
            elif row.round == absorbed.round:
                content = absorbed.read(header.shard, row)
            else:
                rows.append(row)
                continue
            digest = digest_of(content)
            if row is None or row.digest != digest or row.round == absorbed.round:
                row = Row(
                    name=part.name,
                    size=len(content),
                    digest=digest,
                    start=self.size,
                    round=self.number,
                )
                yield content
            rows.append(row)
        record = record_of(header, rows)
        region = Region(
            shard=header.shard,
            generation=header.generation,
            offset=header.offset,
            written_at=header.written_at,
            settings=0,
            round=self.number,
            start=start,
            size=self.size + len(record) - start,
            record=len(record),
            digest=digest_of(record),
        )
        self.retained[header.shard] = Retained(header, rows, region)
        yield record
