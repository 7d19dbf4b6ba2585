"""One partition as it is kept: what its last checkpoint held, and the next one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from typing import NamedTuple

import msgspec

from streameval.durability.checkpoint import Draft, Header, Part, Place
from streameval.durability.needs import Counts, Evidence, Fold, Totals
from streameval.durability.outbox import Outbox
from streameval.durability.resuming import Resumption
from streameval.durability.store import Saved, Store
from streameval.durability.terms import Terms
from streameval.errors import StoreError
from streameval.records import Partition, RecordBatch
from streameval.windows.sections import Section


class Mark(NamedTuple):
    """What a piece of state was when it was last saved.

    Attributes:
        version: of its section.
        digest: of its bytes.
        apart: whether the store was given it as settled, and so keeps it by itself.
    """

    version: int
    digest: str
    apart: bool


class Outcome(msgspec.Struct, frozen=True):
    """A checkpoint that is durable.

    Attributes:
        offset: that it covers.
        offsets: of each log behind it.
        marks: of its pieces, by name.
        totals: evidence in the whole state; None where counters do not show it.
        fold: how the partition folded when it was made.
    """

    offset: int
    offsets: Mapping[Partition, int]
    marks: Mapping[str, Mark]
    totals: Totals | None
    fold: Fold


class Cut(NamedTuple):
    """A partition at one offset, copied; all that is slow is still to be done.

    Attributes:
        draft: to be saved.
        offsets: of each log behind it.
        versions: of its sections, by name.
        totals: reads the evidence in the whole state; None where counters do not show it.
        fold: how the partition folds.
    """

    draft: Draft
    offsets: Mapping[Partition, int]
    versions: Mapping[str, int]
    totals: Callable[[], Totals] | None
    fold: Fold

    def save(self, store: Store, outbox: Outbox) -> Outcome:
        """Dead letters first, then the checkpoint.

        Raises:
            DeadLetterError: letters that it passes are not safe.
            StoreError: it could not be written.
        """
        outbox.flush()
        digests = store.save(self.draft)
        apart = {part.name: part.settled for part in self.draft.parts}
        return Outcome(
            offset=self.draft.header.offset,
            offsets=self.offsets,
            marks={
                name: Mark(version, digests[name], apart[name])
                for name, version in self.versions.items()
            },
            totals=None if self.totals is None else self.totals(),
            fold=self.fold,
        )


class Holding:
    """What is known of one partition's checkpoints.

    Attributes:
        resumption: how it began.
        offset: covered by the newest checkpoint; None where there is none yet.
        durable: the same, of each log behind it.
        counted: records below it are never shown in counters.
        showing: whether its counters have begun.
        job: the checkpoint that is being written.
    """

    def __init__(
        self, resumption: Resumption, counts: Counts, evidence: Evidence, store: Store
    ) -> None:
        self.resumption = resumption
        self.partition = resumption.assignment.partition
        self.offset: int | None = None
        self.durable: Mapping[Partition, int] = {}
        self.counted = resumption.counted
        self.showing = False
        self.job: Future[Outcome] | None = None
        self._counts = counts
        self._evidence = evidence
        self._store = store
        self._saved: Saved | None = None
        self._marks: Mapping[str, Mark] = {}

    @property
    def position(self) -> int:
        """The next offset to be counted; of several logs, what grows with them."""
        return self._counts.partitions[self.partition].position

    @property
    def offsets(self) -> dict[Partition, int]:
        """The next offset of each log behind it."""
        found = self._counts.partitions[self.partition].progress()
        return {log: each.position for log, each in found.items()}

    @property
    def joined(self) -> bool:
        """Whether several logs are counted as one."""
        return bool(self.resumption.assignment.members)

    def passes(self, batch: RecordBatch) -> bool:
        """Whether what is counted now was in no counter before."""
        if self.position >= self.counted:
            return True
        return not self.joined and batch.next_offset > self.counted

    @property
    def changed(self) -> bool:
        """Whether there is something to save."""
        return self.position != self.offset

    def restored(self, saved: Saved) -> None:
        """The state is what this checkpoint holds."""
        versions = {section.name: section.version for section in self._sections()}
        self._saved = saved
        self._marks = {
            name: Mark(versions[name], digest, apart=False)
            for name, digest in saved.digests.items()
            if name in versions
        }
        self.offset = saved.header.offset
        self.durable = self.offsets

    def took(self, outcome: Outcome) -> None:
        """A checkpoint is durable."""
        self.offset, self._marks, self._saved = outcome.offset, outcome.marks, None
        self.durable = outcome.offsets

    def forget_marks(self) -> None:
        """Something went wrong: the next checkpoint brings all of its content."""
        self._marks, self._saved = {}, None

    def totals_now(self) -> Totals:
        """All evidence counted so far, read at once."""
        return self._evidence.totals(self.partition)()

    def cut(self, terms: Terms, written_at: float) -> Cut:
        """Copy what a checkpoint at this position needs; milliseconds."""
        sections = self._sections()
        header = self._header(terms, written_at)
        return Cut(
            draft=Draft(header=header, parts=[self._part(section) for section in sections]),
            offsets=self.offsets,
            versions={section.name: section.version for section in sections},
            totals=self._evidence.totals(self.partition) if self.showing else None,
            fold=self._evidence.folding(self.partition),
        )

    def _sections(self) -> list[Section]:
        return list(self._counts.sections(self.partition))

    def _header(self, terms: Terms, written_at: float) -> Header:
        return Header(
            release=terms.release,
            cluster=terms.cluster(),
            group=terms.group,
            place=self.resumption.place,
            offset=self.position,
            counted=max(self.position, self.counted),
            clock=self._counts.partitions[self.partition].clock,
            settings=terms.settings,
            schema=terms.schema,
            written_at=written_at,
            partitions=self.resumption.partitions,
            offsets={str(log): offset for log, offset in self.offsets.items()}
            if self.joined
            else {},
        )

    def _part(self, section: Section) -> Part:
        mark = self._marks.get(section.name)
        if mark is None or mark.version != section.version:
            return Part(name=section.name, content=section.content())
        content = self._content(section, mark)
        return Part(name=section.name, content=content, settled=True, digest=mark.digest)

    def _content(self, section: Section, mark: Mark) -> Callable[[], Iterator[bytes]]:
        name, saved, place = section.name, self._saved, self.resumption.place
        if saved is not None:
            return lambda: iter([saved.read(name)])
        # A store that has it by its digest asks for no content: copying it would be for nothing.
        return (lambda: _again(self._store, place, name)) if mark.apart else section.content()


def _again(store: Store, place: Place, part: str) -> Iterator[bytes]:
    saved = store.newest(place).saved
    if saved is None or part not in saved.digests:
        problem = f"{part} of {place}, which an earlier checkpoint wrote, is gone"
        raise StoreError("state", problem, "the next checkpoint writes it again")
    yield saved.read(part)
