"""A minimal pipeline, its records, and what a process has in memory."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeVar

import msgspec

from streameval.accumulator import Accumulator
from streameval.checkpoints.checkpointer import Checkpointer
from streameval.checkpoints.format import digest_of
from streameval.checkpoints.scheduler import ProcessClock
from streameval.checkpoints.settings import CheckpointSettings
from streameval.checkpoints.store import Store
from streameval.decoding.decode import Decoder
from streameval.decoding.fields import EventFields
from streameval.engine.clock import ClockRule
from streameval.engine.dead_letters import DeadLetter, Identity
from streameval.engine.evidence import EvidenceReader
from streameval.engine.ingest import EventFrontend, Frontend, Ingest
from streameval.engine.partition import Layout
from streameval.engine.windows.family import FamilySpec
from streameval.engine.windows.labels import LabelCapOptions
from streameval.engine.windows.times import Windowing
from streameval.events.errors import DeadLetterError, StreamevalError
from streameval.events.records import CommitAnswer, Partition

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
            label_caps=LabelCapOptions(cap=2),
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
    return Ingest(
        EventFrontend(Decoder(FIELDS, ["variant", "country"]), layout), keep_dead_letters=True
    )


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


class DeadLetterLog:
    """Dead letters that wait in memory until they are flushed."""

    full = False

    def __init__(self, safe: set[Identity]) -> None:
        self.failing = False
        self._safe = safe
        self._waiting: list[DeadLetter] = []

    @property
    def durable_count(self) -> int:
        return len(self._safe)

    def send(self, letters: Sequence[DeadLetter]) -> None:
        self._waiting.extend(letters)

    def flush(self) -> None:
        if self.failing:
            self.failing = False
            raise DeadLetterError("events.dlq", "no broker answers", "see that it runs")
        self._safe.update(dead_letter.identity for dead_letter in self._waiting)
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
        spans: tuple[int, ...] = TIMES.spans,
        frontend: Frontend | None = None,
        **settings: Any,
    ) -> None:
        self.now = self.spent = 0.0
        self.ingest = ingest(spans) if frontend is None else Ingest(frontend)
        self.letters = DeadLetterLog(safe)
        self.checkpointer = Checkpointer(
            self.ingest,
            store,
            msgspec.structs.replace(SETTINGS, **settings),
            commit=self.commit,
            evidence=EvidenceReader(self.ingest),
            dead_letters=self.letters,
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
