"""Decodes each record with its own schema, which is fetched when its first record comes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, NoReturn, TypeVar

from streameval.decoding.framing import HEADER, Encoding, ToText, check_framed, schema_id
from streameval.decoding.invalid import Refusal
from streameval.events.extras import imports_of
from streameval.events.records import RecordBatch
from streameval.sources.schemas.registry import (
    ANSWER_SECONDS,
    Registry,
    RegistryError,
    RejectedSchemaError,
)

_PAUSE_SECONDS: Final = 1.0
"""Least seconds until the next query of a registry that gave no answer."""

_RETRY_SECONDS: Final = 60.0
"""Seconds until the next query for a schema that a registry did not have."""

_MAX_REFUSED: Final = 20_000
"""Ids without a usable schema that are remembered; random bytes name a new one each."""

T = TypeVar("T")


class Schemas:
    """The schemas of the records of some topics; an id without a usable schema is remembered.

    `encodings`: topic -> encoding of its records, for topics that need schemas.

    Attributes:
        failures: number of failed queries.
    """

    def __init__(
        self,
        registry: Registry,
        encodings: Mapping[str, Encoding],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._registry = registry
        self._encodings = encodings
        self._clock = clock
        with imports_of("format = 'avro'", "schemas"):
            from streameval.sources.schemas import avro  # noqa: PLC0415  needs an extra
        self._read_avro = avro.reader
        self._readers: dict[Encoding, dict[bytes, ToText]] = {}
        self._refused_until: dict[tuple[Encoding, bytes], float] = {}
        self._away: RegistryError | None = None
        self._ask_at = 0.0
        self._answered = False
        self.failures = 0

    def to_text(self, encoding: Encoding) -> ToText:
        """A converter that reads each record with its own schema.

        It raises RegistryError for a record that was not prepared, while the registry is away.
        """
        readers = self._readers.setdefault(encoding, {})

        def convert(value: bytes) -> bytes:
            reader = readers.get(value[:HEADER])
            if reader is None:
                check_framed(value)
                reader = self._reader(encoding, value[:HEADER])
            return reader(value)

        return convert

    @property
    def resting(self) -> bool:
        """True if the registry gave no answer, and is not queried for a while."""
        return self._away is not None and self._clock() < self._ask_at

    def silence(self) -> str | None:
        """The reason why the registry has never answered, which this queries; None once it has."""
        try:
            if not self._answered:
                self._ask(self._registry.check)
        except RegistryError as error:
            return str(error).rstrip(".")
        return None

    def prepare(self, batch: RecordBatch) -> tuple[int, str | None]:
        """Fetch the schemas of a batch, for as long as one answer may take.

        Returns:
            The number of first records that can be decoded, and the reason why the next one cannot,
            if known.
        """
        count, encoding = len(batch.values), self._encodings.get(batch.partition.topic)
        if encoding is None:
            return count, None
        until, prepared = self._clock() + ANSWER_SECONDS, set[bytes]()
        for index, value in enumerate(batch.values):
            header = (value or b"")[:HEADER]
            if header in prepared or len(header) < HEADER or header[0] != 0:
                continue
            if self._clock() > until:
                return index, None
            try:
                self._reader(encoding, header)
            except RegistryError as error:
                return index, f"{str(error).rstrip('.')}; schema {schema_id(header)} is needed"
            prepared.add(header)
        return count, None

    def close(self) -> None:
        """Close the connection."""
        self._registry.close()

    def _reader(self, encoding: Encoding, header: bytes) -> ToText:
        """The reader of the schema in a header; fetches the schema unless it is cached."""
        key, now = (encoding, header), self._clock()
        readers = self._readers.setdefault(encoding, {})
        reader = readers.get(header)
        if reader is not None and self._refused_until.get(key, now) >= now:
            return reader
        refusal: RejectedSchemaError | None = None
        try:
            definition = self._ask(lambda: self._registry.definition(schema_id(header)))
            reader = self._read_avro(definition, encoding.time_unit)
        except RejectedSchemaError as error:
            reader, refusal = partial(_refuse, error, schema_id(header)), error
        readers[header] = reader
        self._refused_until.pop(key, None)
        if refusal is not None:
            self._refused_until[key] = self._clock() + _RETRY_SECONDS
        if len(self._refused_until) > _MAX_REFUSED:
            # Random bytes may hold any id: only the newest are remembered.
            oldest, oldest_header = next(iter(self._refused_until))
            del self._refused_until[oldest, oldest_header], self._readers[oldest][oldest_header]
        return reader

    def _ask(self, request: Callable[[], T]) -> T:
        """The answer to a request; raises the last error for a while after there was none."""
        if self._away is not None and self.resting:
            raise self._away.with_traceback(None)
        began, away = self._clock(), None
        try:
            return request()
        except RegistryError as error:
            away = error
            self.failures += 1
            # A silent registry holds up records that do not need it half of the time at most.
            self._ask_at = self._clock() + max(self._clock() - began, _PAUSE_SECONDS)
            raise
        finally:
            self._away, self._answered = away, self._answered or away is None


def _refuse(error: RejectedSchemaError, schema: int, _value: bytes) -> NoReturn:
    """Read a record whose schema is missing or unusable."""
    raise Refusal(error.reason, f"schema {schema}: {error}")
