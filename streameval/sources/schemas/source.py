"""A source that holds records back until a second thread has fetched their schemas."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final, NamedTuple, NoReturn

import msgspec

from streameval.decoding.framing import HEADER, Encoding, ToText, schema_id
from streameval.decoding.invalid import Refusal
from streameval.events.extras import import_extra
from streameval.events.records import Assignment, CommitAnswer, Owner, Partition, RecordBatch
from streameval.sources.schemas.registry import (
    FAILURES,
    Registry,
    RegistryError,
    RejectedSchemaError,
)
from streameval.sources.source import Positions, Source, SourceStatus

_FIRST_PAUSE: Final = 0.25
_LONGEST_PAUSE: Final = 8.0
_RETRY_SECONDS: Final = 60.0
"""Seconds until the registry is queried again for a schema that it did not have."""

_MAX_REFUSED: Final = 20_000
"""Ids without a usable schema that are remembered; random bytes name a new one each."""

_SILENCE: Final = 1.0
"""Seconds that a request may take before `trouble` says so."""

_STEP: Final = 0.05
"""Seconds between polls of other partitions while records of some wait."""

_NEVER: Final = float("inf")

_NAMED: Final = 5
"""Most partitions that `trouble` lists."""


class SchemaRequest(NamedTuple):
    """A request for the schema of records with this header."""

    encoding: Encoding
    header: bytes

    def __str__(self) -> str:
        return f"schema {schema_id(self.header)}"


class Schemas:
    """The schemas of a registry, fetched on a separate thread.

    Attributes:
        failures: number of failed queries, by reason.
        answered: whether the registry has ever answered.
        waiting: partitions whose next record waits for its schema.
    """

    def __init__(self, registry: Registry, clock: Callable[[], float] = time.monotonic) -> None:
        self._registry = registry
        self._clock = clock
        self._readers: dict[Encoding, dict[bytes, ToText]] = {}
        self._refused_until: dict[SchemaRequest, float] = {}
        self._requested: dict[SchemaRequest, None] = {}
        self._changed = threading.Condition()
        self._closed = False
        self._thread: threading.Thread | None = None
        self._problem: str | None = None
        self._asked: tuple[str, float] | None = None
        self.failures: dict[str, int] = dict.fromkeys(FAILURES, 0)
        self.answered = False
        self.waiting = 0

    @property
    def trouble(self) -> str | None:
        """One sentence while the registry cannot be queried or is silent, else None."""
        if self._problem is not None or self._asked is None:
            return self._problem
        what, since = self._asked
        if self._clock() - since < _SILENCE:
            return None
        return f"the schema registry at {self._registry.url} has not answered for {what} yet"

    def start(self) -> None:
        """Start the thread, which checks that the registry answers, and then serves requests."""
        with self._changed:
            if self._thread is None and not self._closed:
                self._problem = f"the schema registry at {self._registry.url} has not answered yet"
                self._thread = threading.Thread(target=self._run, name="schemas", daemon=True)
                self._thread.start()

    def readers(self, encoding: Encoding) -> Mapping[bytes, ToText]:
        """Header -> reader of records with this encoding; grows as schemas are fetched."""
        _avro()
        return self._readers.setdefault(encoding, {})

    def missing(
        self, encoding: Encoding, values: Iterable[bytes | None]
    ) -> dict[SchemaRequest, None]:
        """The schemas that must be fetched before these records can be read, in their order."""
        readers, now = self._readers.setdefault(encoding, {}), self._clock()
        headers = dict.fromkeys(value[:HEADER] for value in values if value is not None)
        requests = (SchemaRequest(encoding, header) for header in headers)
        return {
            request: None
            for request in requests
            if len(request.header) == HEADER and request.header[0] == 0
            if request.header not in readers or self._refused_until.get(request, _NEVER) < now
        }

    def request(self, requests: Iterable[SchemaRequest]) -> None:
        """Fetch these instead of those wanted before."""
        with self._changed:
            self._requested = dict.fromkeys(requests)
            if self.answered and not self._requested:
                self._problem = None
            self._changed.notify_all()

    def wait(self, seconds: float) -> None:
        """Wait until all that was requested is there."""
        with self._changed:
            self._changed.wait_for(lambda: not self._requested or self._closed, seconds)

    def load(self, encoding: Encoding, values: Sequence[bytes | None], seconds: float) -> bool:
        """Wait until these records can be read; returns whether they can."""
        self.start()
        self.request(self.missing(encoding, values))
        self.wait(seconds)
        self.request(())
        return not self.missing(encoding, values)

    def close(self) -> None:
        """Stop fetching; a pending query ends by its deadline, and then the connection."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread is None:
            self._registry.close()
        else:
            self._thread.join(timeout=2.0)

    def _run(self) -> None:
        pause = _FIRST_PAUSE
        while (ask := self._next()) is not None:
            try:
                ask()
            except Exception as error:  # noqa: BLE001  a caller waits for it, whatever it is
                self._record_failure(error)
                with self._changed:
                    self._changed.wait_for(lambda: self._closed, pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
            else:
                pause, self._problem, self.answered = _FIRST_PAUSE, None, True
        self._registry.close()

    def _next(self) -> Callable[[], object] | None:
        """What to ask next; before the first answer, anything; None after `close`."""
        with self._changed:
            self._asked = None
            self._changed.wait_for(lambda: self._requested or self._closed or not self.answered)
            request = next(iter(self._requested), None)
            self._asked = (str(request or "the types of schemas"), self._clock())
            if self._closed:
                return None
        return self._registry.kinds if request is None else partial(self._fetch, request)

    def _record_failure(self, error: Exception) -> None:
        failure, problem = "other", f"{type(error).__name__}: {error}"
        if isinstance(error, RegistryError):
            failure, problem = error.failure, str(error)
        self.failures[failure] += 1
        needed = next(iter(self._requested), None)
        self._problem = problem if needed is None else f"{problem}; {needed} is needed"

    def _fetch(self, request: SchemaRequest) -> None:
        retry = None
        try:
            definition = self._registry.definition(schema_id(request.header))
            reader: ToText = _avro().reader(definition, request.encoding.time_unit)
        except RejectedSchemaError as error:
            reader, retry = _refusing(error, request), self._clock() + _RETRY_SECONDS
        with self._changed:
            self._refused_until.pop(request, None)
            if retry is not None:
                self._refused_until[request] = retry
            self._readers[request.encoding][request.header] = reader
            if len(self._refused_until) > _MAX_REFUSED:
                # Of ids that mean nothing, only the newest are remembered.
                oldest = next(iter(self._refused_until))
                del self._refused_until[oldest], self._readers[oldest.encoding][oldest.header]
            self._requested.pop(request, None)
            self._changed.notify_all()


def _avro() -> Any:
    return import_extra("streameval.sources.schemas.avro", "format = 'avro'", "schemas")


def _refusing(error: RejectedSchemaError, request: SchemaRequest) -> ToText:
    """The reader of records whose schema is missing or unusable."""

    def refuse(_value: bytes) -> NoReturn:
        raise Refusal(error.reason, f"{request}: {error}")

    return refuse


class SchemaSource:
    """Holds records back until their schemas have been fetched; delivers all others at once.

    While the registry does not answer, partitions whose next record needs a schema are paused: no
    record is lost or counted as invalid. It owns the partitions of the source itself, for the
    owner: waiting records of a partition that is given up are dropped.
    """

    def __init__(self, source: Source, schemas: Schemas, encodings: Mapping[str, Encoding]) -> None:
        self._source = source
        self._schemas = schemas
        self._encodings = encodings
        self._owner: Owner = Positions()
        self._waiting: dict[Partition, deque[RecordBatch]] = {}
        self._asked: frozenset[Partition] = frozenset()
        self._paused: frozenset[Partition] = frozenset()
        self.name, self.budget = source.name, source.budget

    @property
    def cluster(self) -> str:
        """See `Source.cluster`."""
        return self._source.cluster

    @property
    def status(self) -> SourceStatus:
        """That of the source; trouble is also that of a registry that never answered or is needed.

        Logs whose last records wait have not ended.
        """
        status = self._source.status
        return msgspec.structs.replace(
            status,
            finished=status.finished and not self._waiting,
            ended=[log for log in status.ended if log not in self._waiting],
            trouble=status.trouble or self._trouble,
        )

    @property
    def _trouble(self) -> str | None:
        why = self._schemas.trouble
        if why is None:
            return None
        if not self._waiting:
            return None if self._schemas.answered else f"{why}; still trying."
        waiting = ", ".join(map(str, sorted(self._waiting)[:_NAMED]))
        more = f" and {len(self._waiting) - _NAMED} more" if len(self._waiting) > _NAMED else ""
        return f"{why}; records of {waiting}{more} wait for it; still trying."

    def open(self, owner: Owner) -> None:
        """See `Source.open`."""
        self._owner = owner
        self._waiting.clear()
        self._schemas.start()
        self._source.open(self)

    def assigned(self, assignments: Sequence[Assignment]) -> Mapping[Partition, int]:
        """See `Owner.assigned`."""
        return self._owner.assigned(assignments)

    def revoked(self, partitions: Sequence[Partition]) -> None:
        """See `Owner.revoked`."""
        self._owner.revoked(partitions)
        self._drop(partitions)

    def lost(self, partitions: Sequence[Partition]) -> None:
        """See `Owner.lost`."""
        self._owner.lost(partitions)
        self._drop(partitions)

    def poll(self, seconds: float) -> Sequence[RecordBatch]:
        """See `Source.poll`; a record is delivered once its schema is known."""
        if self._waiting:
            self._schemas.wait(min(seconds, _STEP))
        # Poll the source first: it may revoke partitions whose records wait here.
        new = self._source.poll(0.0 if self._waiting else seconds)
        deliverable = [piece for log in list(self._waiting) for piece in self._next_of(log)]
        delivered = {batch.partition for batch in deliverable}
        for batch in new:
            self._waiting.setdefault(batch.partition, deque()).append(batch)
            if len(self._waiting[batch.partition]) == 1 and batch.partition not in delivered:
                deliverable += self._next_of(batch.partition)
        self._request_schemas()
        return deliverable

    def commit(
        self, positions: Mapping[Partition, int], *, wait: bool = True
    ) -> str | CommitAnswer | None:
        """See `Source.commit`."""
        return self._source.commit(positions, wait=wait)

    def pause(self, partitions: Collection[Partition]) -> None:
        """See `Source.pause`."""
        self._asked = frozenset(partitions)
        self._pause()

    def close(self) -> None:
        """See `Source.close`."""
        self._source.close()
        self._schemas.close()

    def _next_of(self, partition: Partition) -> list[RecordBatch]:
        """The deliverable part of the first waiting batch of a partition; the rest waits on."""
        waiting = self._waiting[partition]
        batch = waiting.popleft()
        headers = {request.header for request in self._missing(batch)}
        places = enumerate(batch.values) if headers else ()
        stop = next((place for place, value in places if value and value[:HEADER] in headers), None)
        if stop is not None:
            waiting.appendleft(batch.piece(stop, len(batch.values), batch.next_offset))
        elif not waiting:
            del self._waiting[partition]
        if stop is None:
            return [batch]
        return [batch.piece(0, stop, batch.offsets[stop])] if stop else []

    def _missing(self, batch: RecordBatch) -> Iterable[SchemaRequest]:
        encoding = self._encodings.get(batch.partition.topic)
        return () if encoding is None else self._schemas.missing(encoding, batch.values)

    def _request_schemas(self) -> None:
        self._schemas.waiting = len(self._waiting)
        if not self._waiting and not self._paused:
            return
        # More at once would push out ids before the records in front of them are delivered.
        share = _MAX_REFUSED // (2 * len(self._waiting) or 1) or 1
        self._schemas.request(
            request
            for waiting in self._waiting.values()
            for request in islice(self._missing(waiting[0]), share)
        )
        self._pause()

    def _pause(self) -> None:
        request = self._asked.union(self._waiting)
        if request or self._paused:
            self._source.pause(request)
        self._paused = request

    def _drop(self, partitions: Sequence[Partition]) -> None:
        for partition in partitions:
            self._waiting.pop(partition, None)
