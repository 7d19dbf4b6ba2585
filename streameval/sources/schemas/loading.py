"""Fetches schemas beside the polling thread, and keeps their decoders."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Literal, NamedTuple, NoReturn

from streameval.decoding.framing import HEADER, Encoding, ToText, schema_id
from streameval.decoding.invalid import Reason, Refusal
from streameval.errors import MissingExtraError
from streameval.sources.schemas.registry import (
    FAILURES,
    Definition,
    Registry,
    RegistryError,
    UnknownSchemaError,
    UnusableSchemaError,
)

_KINDS: Final = {"avro": "AVRO", "protobuf": "PROTOBUF"}
_FIRST_PAUSE: Final = 0.25
_LONGEST_PAUSE: Final = 8.0
_REFUSED_SECONDS: Final = 60.0
"""After which the registry is asked again for a schema that it did not have."""

_MOST_REFUSED: Final = 1_000


class Wanted(NamedTuple):
    """What reads some records is wanted."""

    encoding: Encoding
    header: bytes


class Schemas:
    """The schemas of a registry, fetched on a thread of its own while the caller waits for them.

    Attributes:
        failures: how often the registry could not be asked, by reason.
        answered: whether the registry has answered once.
        trouble: why it cannot be asked, while it cannot; else None.
    """

    def __init__(self, registry: Registry, clock: Callable[[], float] = time.monotonic) -> None:
        self._registry = registry
        self._clock = clock
        self._readers: dict[Encoding, dict[bytes, ToText]] = {}
        self._definitions: dict[int, Definition] = {}
        self._refused_until: dict[Wanted, float] = {}
        self._wanted: dict[Wanted, None] = {}
        self._changed = threading.Condition()
        self._closed = False
        self._thread: threading.Thread | None = None
        self.failures: dict[str, int] = dict.fromkeys(FAILURES, 0)
        self.answered = False
        self.trouble: str | None = None

    def start(self) -> None:
        """Begin to ask: first whether the registry answers at all, and then for what is wanted."""
        with self._changed:
            if self._thread is None and not self._closed:
                self.trouble = f"the schema registry at {self._registry.url} has not answered yet"
                self._thread = threading.Thread(target=self._run, name="schemas", daemon=True)
                self._thread.start()

    def readers(self, encoding: Encoding) -> Mapping[bytes, ToText]:
        """What reads records of this encoding, by their header; grows as schemas are fetched."""
        _compiler(encoding)
        return self._readers.setdefault(encoding, {})

    def missing(self, encoding: Encoding, values: Sequence[bytes | None]) -> set[Wanted]:
        """What must be fetched before these records can be read."""
        readers = self._readers.setdefault(encoding, {})
        headers = {value[:HEADER] for value in values if value is not None}
        new = {Wanted(encoding, each) for each in headers if each not in readers}
        if self._refused_until:
            known = {Wanted(encoding, each) for each in headers}
            new |= {each for each in known if self._refused_until.get(each, _NEVER) < self._clock()}
        return {each for each in new if len(each.header) == HEADER and each.header[0] == 0}

    def want(self, wanted: Iterable[Wanted]) -> None:
        """Fetch these instead of those wanted before."""
        with self._changed:
            self._wanted = dict.fromkeys(wanted)
            if self.answered and not self._wanted:
                self.trouble = None
            self._changed.notify_all()

    def load(self, encoding: Encoding, values: Sequence[bytes | None], seconds: float) -> bool:
        """Wait until these records can be read; whether they can."""
        self.start()
        self.want(self.missing(encoding, values))
        with self._changed:
            found = self._changed.wait_for(lambda: not self.missing(encoding, values), seconds)
        self.want(())
        return found

    def close(self) -> None:
        """Stop fetching; a request that is under way ends by its own time limit."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(timeout=2.0)
        self._registry.close()

    def _run(self) -> None:
        pause = _FIRST_PAUSE
        while (wanted := self._next()) is not None:
            try:
                if wanted == "anything":
                    self._registry.kinds()
                else:
                    self._found(wanted, self._reader(wanted))
            except Exception as error:  # noqa: BLE001  a caller waits for it, whatever it is
                self._tell(error, wanted)
                with self._changed:
                    self._changed.wait_for(lambda: self._closed, pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
            else:
                pause, self.trouble, self.answered = _FIRST_PAUSE, None, True

    def _tell(self, error: Exception, wanted: Wanted | Literal["anything"]) -> None:
        failure, problem = "other", f"{type(error).__name__}: {error}"
        if isinstance(error, RegistryError):
            failure, problem = error.failure, str(error)
        self.failures[failure] += 1
        needed = "" if wanted == "anything" else f"; schema {schema_id(wanted.header)} is needed"
        self.trouble = f"{problem}{needed}"

    def _next(self) -> Wanted | Literal["anything"] | None:
        """The first wanted one, or the first answer if there was none yet; None at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._wanted or self._closed or not self.answered)
            return None if self._closed else next(iter(self._wanted), "anything")

    def _found(self, wanted: Wanted, reader: ToText) -> None:
        with self._changed:
            self._refused_until.pop(wanted, None)
            if isinstance(reader, _Refused):
                self._refuse(wanted)
            self._readers[wanted.encoding][wanted.header] = reader
            self._wanted.pop(wanted, None)
            self._changed.notify_all()

    def _refuse(self, wanted: Wanted) -> None:
        """Ask again later; of ids that mean nothing, only the newest are remembered."""
        self._refused_until[wanted] = self._clock() + _REFUSED_SECONDS
        if len(self._refused_until) > _MOST_REFUSED:
            oldest = next(iter(self._refused_until))
            del self._refused_until[oldest], self._readers[oldest.encoding][oldest.header]

    def _reader(self, wanted: Wanted) -> ToText:
        number = schema_id(wanted.header)
        try:
            if number not in self._definitions:
                self._definitions[number] = self._registry.definition(number)
            return _compiled(self._definitions[number], wanted.encoding)
        except UnknownSchemaError as error:
            return _Refused("unknown_schema", f"schema {number}: {error}")
        except UnusableSchemaError as error:
            return _Refused("unusable_schema", f"schema {number}: {error}")


_NEVER: Final = float("inf")


class _Refused:
    """In place of what reads records, where nothing does."""

    def __init__(self, reason: Reason, detail: str) -> None:
        self._reason: Reason = reason
        self._detail = detail

    def __call__(self, _value: bytes) -> NoReturn:
        raise Refusal(self._reason, self._detail)


def _compiled(definition: Definition, encoding: Encoding) -> ToText:
    if definition.kind != _KINDS[encoding.format]:
        problem = f"it is of type {definition.kind}, and the stream's format is {encoding.format!r}"
        raise UnusableSchemaError(problem)
    return _compiler(encoding)(definition, encoding.time_unit)


def _compiler(encoding: Encoding) -> Callable[..., ToText]:
    try:
        if encoding.format == "avro":
            from streameval.sources.schemas import avro  # noqa: PLC0415  an extra

            return avro.reader
        from streameval.sources.schemas import protobuf  # noqa: PLC0415  an extra
    except ImportError as error:
        raise MissingExtraError(f"format = {encoding.format!r}", "schemas", error) from error
    return protobuf.reader
