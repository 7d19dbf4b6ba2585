"""The schemas of a registry, by Confluent's client; each answer has one deadline.

Functions raise RegistryError if the registry cannot be queried, and RejectedSchemaError if it has
no such schema.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, Final, NoReturn, TypeVar

import msgspec

from streameval.decoding.framing import HEADER, Encoding, ToText, check_framed, schema_id
from streameval.decoding.invalid import Reason, Refusal
from streameval.events.errors import ConfigError, SourceError, StreamevalError
from streameval.events.extras import import_extra
from streameval.events.problems import check_types
from streameval.events.records import RecordBatch
from streameval.sources.secrets import substitute

_USER: Final = "correct user and password in [registry]"
_USER_IN_URL: Final = "user information does not belong in a URL; give the keys user and password."
_SECONDS: Final = 5.0
"""Until an answer must be complete; a registry may also send it a byte at a time."""

_PAUSE_SECONDS: Final = 1.0
"""Least time until a registry that gave no answer is asked again."""

_RETRY_SECONDS: Final = 60.0
"""Until a registry is asked again for a schema that it did not have."""

_MAX_REFUSED: Final = 20_000
"""Ids without a usable schema that are remembered; random bytes name a new one each."""

_LARGEST_ID: Final = 2**31 - 1
_NOT_FOUND: Final = frozenset({40401, 40402, 40403})
"""Error codes of the API for a missing subject, version or schema."""

T = TypeVar("T")


class RegistryOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A schema registry with Confluent's API.

    Attributes:
        url: its address with the path of the API; Apicurio's is "http://HOST:8080/apis/ccompat/v7".
            In url, user and password ${NAME} is taken from the environment, and ${file:PATH} from a
            file, for user and password again after each failed request.
        user: name for basic authentication, or an API key.
        password: its password.
        ca_file: certificates of authorities; None: the system's.
    """

    url: str
    user: str | None = None
    password: str | None = None
    ca_file: str | None = None

    def __post_init__(self) -> None:
        check_types(self, self._problems())

    def _problems(self) -> Iterator[tuple[str, str]]:
        """A URL of another kind, or with a user; a user without a password."""
        if "@" in self.url:
            yield "url", _USER_IN_URL
        elif not self.url.startswith(("http://", "https://", "${")):
            yield "url", f"found {self.url!r}; give an http:// or https:// URL."
        if (self.user is None) != (self.password is None):
            yield "", "give both user and password, or neither."


class SchemaDefinition(msgspec.Struct, frozen=True):
    """A registered schema.

    Attributes:
        references: name -> text of all direct and indirect references, dependencies first.
    """

    kind: str
    text: str
    references: Mapping[str, str] = {}


class RegistryError(SourceError):
    """The registry cannot be queried, possibly only for now."""


class RejectedSchemaError(StreamevalError):
    """The registry has no such schema, or it cannot be used to decode records."""

    def __init__(self, reason: Reason, problem: str) -> None:
        self.reason: Reason = reason
        super().__init__(problem)


class Registry:
    """Fetches schemas; used by one thread at a time."""

    def __init__(self, options: RegistryOptions, environment: Mapping[str, str]) -> None:
        library = import_extra("confluent_kafka.schema_registry", "a schema registry", "schemas")
        self._new_client: Callable[[dict[str, Any]], Any] = library.AsyncSchemaRegistryClient
        self._refusal: Any = library.SchemaRegistryError
        self._options, self._environment = options, environment
        self._runner = asyncio.Runner()
        self.url = self._substituted("url").rstrip("/")
        if "@" in self.url:
            raise ConfigError("[registry]", "url", _USER_IN_URL)
        try:
            self._client: Any = self._new_client(self._settings())
        except OSError as error:
            problem = f"{options.ca_file} has no certificates ({error})."
            raise ConfigError("[registry]", "ca_file", problem) from error

    def definition(self, number: int) -> SchemaDefinition:
        """The schema with this id, including its references."""
        if number > _LARGEST_ID:
            raise RejectedSchemaError(
                "unknown_schema", f"the ids of a registry end at {_LARGEST_ID:,}"
            )
        return self._ask(lambda client: _fetch(client, number))

    def check(self) -> str:
        """Query the registry once; returns one sentence."""
        kinds = self._ask(_types)
        return f"The schema registry at {self.url} answers: {', '.join(sorted(kinds))}."

    def close(self) -> None:
        """Close the connection."""
        self._disconnect()
        self._runner.close()

    def _settings(self) -> dict[str, Any]:
        system = ssl.get_default_verify_paths()
        trusted = self._options.ca_file or system.cafile or system.capath
        # Callers repeat a request for as long as they need it.
        settings = {"url": self.url, "ssl.ca.location": trusted, "max.retries": 0}
        if self._options.user is not None:
            user = f"{self._substituted('user')}:{self._substituted('password')}"
            settings["basic.auth.user.info"] = user
        return settings

    def _substituted(self, key: str) -> str:
        try:
            return substitute(getattr(self._options, key) or "", self._environment)
        except ValueError as error:
            raise ConfigError("[registry]", key, f"{error}.") from error

    def _ask(self, request: Callable[[Any], Awaitable[T]]) -> T:
        async def answer() -> T:
            return await asyncio.wait_for(request(self._client), _SECONDS)

        try:
            if self._client is None:
                self._client = self._new_client(self._settings())
            return self._runner.run(answer())
        except MemoryError:
            raise
        except Exception as error:
            missing = self._missing(error)
            if missing is not None:
                raise RejectedSchemaError("unknown_schema", missing) from error
            self._disconnect()
            where = f"the schema registry at {self.url}"
            raise RegistryError(where, *self._explained(error)) from error

    def _disconnect(self) -> None:
        """The next request reads the credentials again, and finds nothing cached."""
        client, self._client = self._client, None
        if client is not None:
            self._runner.run(client.aclose())

    def _missing(self, error: Any) -> str | None:
        """What the registry says if it has no such schema, else None."""
        refused = isinstance(error, self._refusal)
        if not refused or error.http_status_code != 404 or error.error_code not in _NOT_FOUND:
            return None
        return f"the registry says: {str(error.error_message).rstrip('.')}"

    def _explained(self, error: Any) -> tuple[str, str]:
        """The problem and its remedy."""
        remedy = "start it, or correct url in [registry]"
        certificate = _certificate_error(error)
        status = error.http_status_code if isinstance(error, self._refusal) else None
        if certificate is not None:
            problem = f"its certificate is not trusted ({certificate.verify_message})"
            remedy = "give the authority as ca_file in [registry]"
        elif isinstance(error, TimeoutError):
            problem = f"no whole answer within {_SECONDS:g} s"
        elif isinstance(error, ConfigError):
            problem, remedy = error.problem.rstrip("."), _USER
        elif status in {401, 403}:
            problem, remedy = f"it rejects this user ({status})", _USER
        elif status == 404:
            problem = "no schema registry API: 404"
        elif status is not None:
            problem = f"it answers with status {status}"
        elif isinstance(error, ValueError | TypeError | LookupError | AttributeError):
            problem = f"the server is not a schema registry ({error})"
        else:
            problem = f"it cannot be reached ({error})"
        return problem, remedy


def _certificate_error(error: BaseException | None) -> ssl.SSLCertVerificationError | None:
    while error is not None and not isinstance(error, ssl.SSLCertVerificationError):
        error = error.__cause__ or error.__context__
    return error


async def _types(client: Any) -> list[str]:
    return msgspec.convert(await client.get_schema_types(), list[str])


async def _fetch(client: Any, number: int) -> SchemaDefinition:
    schema = await client.get_schema(number)
    references: dict[str, str] = {}
    await _add_references(client, schema, references, ())
    return SchemaDefinition(schema.schema_type, _text(schema), references)


async def _add_references(
    client: Any, schema: Any, references: dict[str, str], within: tuple[str, ...]
) -> None:
    """Add the references of a schema, dependencies first."""
    for reference in schema.references or ():
        name: str = reference.name
        if name not in references and name not in within:
            registered = await client.get_version(
                reference.subject, reference.version, deleted=True
            )
            await _add_references(client, registered.schema, references, (*within, name))
            references[name] = _text(registered.schema)


def _text(schema: Any) -> str:
    if not isinstance(schema.schema_str, str):
        raise TypeError("its answer has no schema")
    return schema.schema_str


class Schemas:
    """The schemas of the records of some topics; an id without a usable schema is asked for once.

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
        self._avro: Any = import_extra(
            "streameval.sources.schemas.avro", "format = 'avro'", "schemas"
        )
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
        """Whether the registry gave no answer, and is not asked for a while."""
        return self._away is not None and self._clock() < self._ask_at

    def silence(self) -> str | None:
        """Why the registry has never answered; None once it has, until when this asks it."""
        try:
            if not self._answered:
                self._ask(self._registry.check)
        except RegistryError as error:
            return str(error).rstrip(".")
        return None

    def prepare(self, batch: RecordBatch) -> tuple[int, str | None]:
        """How many of the first records can be decoded, and why the next one cannot, if known.

        Asks for missing schemas, for as long as one answer may take.
        """
        count, encoding = len(batch.values), self._encodings.get(batch.partition.topic)
        if encoding is None:
            return count, None
        until, prepared = self._clock() + _SECONDS, set[bytes]()
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
        """The reader of the schema in a header, which is asked for if it is not known."""
        key, now = (encoding, header), self._clock()
        readers = self._readers.setdefault(encoding, {})
        reader = readers.get(header)
        if reader is not None and self._refused_until.get(key, now) >= now:
            return reader
        refusal: RejectedSchemaError | None = None
        try:
            definition = self._ask(lambda: self._registry.definition(schema_id(header)))
            reader = self._avro.reader(definition, encoding.time_unit)
        except RejectedSchemaError as error:
            reader, refusal = _refusing(error, header), error
        readers[header] = reader
        self._refused_until.pop(key, None)
        if refusal is not None:
            self._refused_until[key] = self._clock() + _RETRY_SECONDS
        if len(self._refused_until) > _MAX_REFUSED:
            # Of ids that mean nothing, only the newest are remembered.
            oldest, oldest_header = next(iter(self._refused_until))
            del self._refused_until[oldest, oldest_header], self._readers[oldest][oldest_header]
        return reader

    def _ask(self, request: Callable[[], T]) -> T:
        """An answer of the registry, which is left alone for a while after it gave none."""
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


def _refusing(error: RejectedSchemaError, header: bytes) -> ToText:
    """The reader of records whose schema is missing or unusable."""

    def refuse(_value: bytes) -> NoReturn:
        raise Refusal(error.reason, f"schema {schema_id(header)}: {error}")

    return refuse
