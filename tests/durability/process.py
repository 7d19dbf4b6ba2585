"""A minimal pipeline, its records, and a process with injected kills and failures."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeVar

import msgspec

from streameval.accumulator import Accumulator
from streameval.checkpoints.format import digest_of
from streameval.checkpoints.owners import Checkpointer
from streameval.checkpoints.scheduler import ProcessClock
from streameval.checkpoints.settings import CheckpointSettings
from streameval.checkpoints.store import Store, folder_store
from streameval.decoding.decode import Decoder
from streameval.decoding.fields import EventFields
from streameval.engine.clock import ClockRule
from streameval.engine.dead_letters import DeadLetter, Identity
from streameval.engine.evidence import EvidenceReader, Totals
from streameval.engine.ingest import EventFrontend, Frontend, Ingest
from streameval.engine.partition import Layout
from streameval.engine.windows.family import FamilySpec
from streameval.engine.windows.labels import FoldingOptions
from streameval.engine.windows.times import Windowing
from streameval.events.errors import DeadLetterError, StreamevalError
from streameval.events.records import CommitAnswer, Partition, RecordBatch
from tests.crashes.simulated_disk import SimulatedDisk
from tests.logs.group import Group
from tests.logs.source import LogSource

MINUTE = 60_000_000
START = 1_700_000_000 // 60
"""The minute in which event time begins."""

TIMES = Windowing(pane=MINUTE, spans=(3 * MINUTE,), lateness=MINUTE)
FIELDS = EventFields(time="ts", time_unit="s", event_id="id")

EAGER = ClockRule(voters=1)
"""A clock that follows every event at once."""

METRIC = "hit_rate@1"
_HITS = Accumulator(METRIC)


def ingest(spans: tuple[int, ...] = TIMES.spans) -> Ingest:
    windowing = msgspec.structs.replace(TIMES, spans=spans)
    families = [
        FamilySpec(
            name="labels",
            dimensions=("variant",),
            columns=(0,),
            spans=spans,
            metrics=_HITS.metrics,
            table=_HITS.table,
            folding=FoldingOptions(cap=2),
        ),
        FamilySpec(
            name="country",
            metrics=_HITS.metrics,
            table=_HITS.table,
            dimensions=("country",),
            columns=(1,),
        ),
    ]
    layout = Layout(families=families, windowing=windowing, dedup=600 * MINUTE, clock=EAGER)
    return Ingest(EventFrontend(Decoder(FIELDS, ["variant", "country"]), layout), keep_letters=True)


def record(number: int, *, minute: int, variant: str, hit: bool = True) -> bytes:
    """An event; its number is its id."""
    return msgspec.json.encode(
        {
            "recommendations": ["a"],
            "interactions": ["a" if hit else "b"],
            "ts": (START + minute) * 60,
            "id": str(number),
            "variant": variant,
            "country": "nl" if number % 2 else "de",
        }
    )


def digests(of: Ingest, partition: Partition) -> Mapping[str, str]:
    return {section.name: digest_of(*section.content()()) for section in of.sections(partition)}


P = ParamSpec("P")
R = TypeVar("R")


class Inline(Executor):
    """Runs work when it is submitted.

    Example:
        >>> Inline().submit(lambda: 42).result()
        42
    """

    def submit(self, work: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """Run it now; other errors than our own simulate a crash and are raised."""
        future: Future[R] = Future()
        try:
            future.set_result(work(*args, **kwargs))
        except StreamevalError as error:
            future.set_exception(error)
        return future


DISK: Final = Path("/disk")
STORE: Final = DISK / "state"
SETTINGS: Final = CheckpointSettings(
    release="0.1.0", cluster=lambda: "c1", group="g1", fingerprint={"pane": "1m"}, interval=10.0
)

Passing = Callable[[str], None]
"""Called with the name of each point that is passed; may raise."""


class Letters:
    """Dead letters that wait in memory until they are flushed."""

    full = False

    def __init__(self, safe: set[Identity], passing: Passing) -> None:
        self.failing = False
        self._safe = safe
        self._passing = passing
        self._waiting: list[DeadLetter] = []

    @property
    def written(self) -> int:
        return len(self._safe)

    def send(self, letters: Sequence[DeadLetter]) -> None:
        self._waiting.extend(letters)

    def flush(self) -> None:
        self._passing("letters: before")
        if self.failing:
            self.failing = False
            raise DeadLetterError("events.dlq", "no broker answers", "see that it runs")
        half = len(self._waiting) // 2
        self._safe.update(letter.identity for letter in self._waiting[:half])
        self._passing("letters: half")
        self._safe.update(letter.identity for letter in self._waiting[half:])
        self._waiting = []

    def close(self) -> None:
        pass


class Member:
    """What one process has in memory, with clocks moved by hand.

    Attributes:
        now: seconds of the wall.
        spent: seconds of a processor.
        letters: its dead letters.
    """

    def __init__(
        self,
        store: Store,
        safe: set[Identity],
        passing: Passing = lambda _: None,
        spans: tuple[int, ...] = TIMES.spans,
        frontend: Frontend | None = None,
        **settings: Any,
    ) -> None:
        self.now = self.spent = 0.0
        self.ingest = ingest(spans) if frontend is None else Ingest(frontend)
        self.letters = Letters(safe, passing)
        self.checkpointer = Checkpointer(
            self.ingest,
            store,
            msgspec.structs.replace(SETTINGS, **settings),
            commit=self.commit,
            evidence=EvidenceReader(self.ingest),
            letters=self.letters,
            clock=ProcessClock(
                wall=lambda: 1_000.0 + self.now,
                monotonic=lambda: self.now,
                busy=lambda: self.spent,
            ),
            worker=Inline(),
        )

    @abstractmethod
    def commit(
        self, positions: Mapping[Partition, int], *, wait: bool
    ) -> str | CommitAnswer | None:
        """Commit them to the group; the failure, or None."""


class Process(Member):
    """One member of the group, with a simulated disk."""

    def __init__(
        self, name: str, group: Group, disk: SimulatedDisk, safe: set[Identity], passing: Passing
    ) -> None:
        super().__init__(folder_store(STORE, disk), safe, passing)
        self.name = name
        self.source = LogSource(group, name)
        self.last: RecordBatch | None = None
        self._group = group
        self._passing = passing
        self.source.open(self.checkpointer)
        group.hold(name)

    @property
    def positions(self) -> Mapping[Partition, int]:
        return self.ingest.positions

    @property
    def counted(self) -> Totals:
        return self.checkpointer.counted

    def work(self, partition: Partition | None = None, count: int = 0) -> None:
        if partition is not None:
            self._group.deliver(self.name, partition, count)
        for batch in self.source.poll(0):
            self.checkpointer.apply(batch)
            self.last = batch

    def checkpoint(self) -> None:
        self.now += SETTINGS.interval
        # The group answers the commit of each at a second call.
        for _ in range(2 * (len(self.positions) + 1)):
            self.checkpointer.advance()

    def end(self) -> None:
        """End in order, as after SIGTERM."""
        self.checkpointer.finish()
        self.source.close()

    def commit(
        self, positions: Mapping[Partition, int], *, wait: bool
    ) -> str | CommitAnswer | None:
        self._passing("commit: before")
        answer = self.source.commit(positions, wait=wait)
        self._passing("commit: after")
        return answer
