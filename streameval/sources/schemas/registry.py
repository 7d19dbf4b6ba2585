"""Confluent's client of a schema registry, with one deadline for a whole answer.

Functions raise RegistryError if the registry cannot be queried, and RejectedSchemaError if it has
no such schema.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Literal, TypeAlias, TypeVar, get_args

import msgspec

from streameval.decoding.invalid import Reason
from streameval.events.errors import ConfigError, OptionError, SourceError, StreamevalError
from streameval.events.extras import import_extra
from streameval.events.problems import check_types
from streameval.sources.secrets import substitute

Failure: TypeAlias = Literal["unreachable", "certificate", "authentication", "other"]
FAILURES: Final[tuple[Failure, ...]] = get_args(Failure)
"""Reasons why a registry cannot be queried; values of a label."""

_USER_IN_URL: Final = "user information does not belong in a URL; give the keys user and password."
_SECONDS: Final = 10.0
"""Until an answer must be complete; a registry may also send it a byte at a time."""

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
        check_types(self)
        if "@" in self.url:
            raise OptionError("url", _USER_IN_URL)


class SchemaDefinition(msgspec.Struct, frozen=True):
    """A registered schema.

    Attributes:
        references: name -> text of all direct and indirect references, dependencies first.
    """

    kind: str
    text: str
    references: Mapping[str, str] = {}


class RegistryError(StreamevalError):
    """The registry cannot be queried, possibly only for now."""

    def __init__(self, failure: Failure, url: str, problem: str) -> None:
        self.failure, self.url, self.problem = failure, url, problem
        super().__init__(f"the schema registry at {url}: {problem}")


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
        self._refusal: type[Exception] = library.SchemaRegistryError
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

    def kinds(self) -> list[str]:
        """The types of schemas that the registry supports."""
        return self._ask(_kinds)

    def check(self) -> str:
        """Query the registry once; returns one sentence."""
        try:
            kinds = self.kinds()
        except (RegistryError, RejectedSchemaError) as error:
            problem = getattr(error, "problem", str(error)).rstrip(".")
            remedy = "start it, or correct url in [registry]"
            raise SourceError(f"the schema registry at {self.url}", problem, remedy) from error
        return f"The schema registry at {self.url} answers: {', '.join(sorted(kinds))}."

    def close(self) -> None:
        """Close the connection."""
        self._disconnect()
        self._runner.close()

    def _settings(self) -> dict[str, Any]:
        system = ssl.get_default_verify_paths()
        trusted = self._options.ca_file or system.cafile or system.capath
        # Callers repeat a request for as long as they need it, and report each failure.
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
            mapped = self._mapped(error)
            if isinstance(mapped, RegistryError):
                self._disconnect()
            raise mapped from error

    def _disconnect(self) -> None:
        """The next request reads the credentials again, and finds nothing cached."""
        client, self._client = self._client, None
        if client is not None:
            self._runner.run(client.aclose())

    def _mapped(self, error: Exception) -> StreamevalError:
        match error:
            case ConfigError():
                failure: Failure = "authentication"
                problem = error.problem.rstrip(".")
            case TimeoutError():
                failure, problem = "unreachable", f"no whole answer within {_SECONDS:g} s"
            case self._refusal():
                return self._refused(error)
            case ValueError() | TypeError() | LookupError() | AttributeError():
                failure, problem = "other", f"the server is not a schema registry ({error})"
            case _:
                failure, problem = _explanation(error)
        return RegistryError(failure, self.url, problem)

    def _refused(self, error: Any) -> StreamevalError:
        status: int = error.http_status_code
        if status == 404 and error.error_code in _NOT_FOUND:
            told = str(error.error_message).rstrip(".")
            return RejectedSchemaError("unknown_schema", f"the registry says: {told}")
        failure: Failure = "other"
        problem = f"it answers with status {status}"
        if status in {401, 403}:
            failure, problem = "authentication", f"it rejects this user ({status})"
        if status == 404:
            problem = "no schema registry API: 404"
        return RegistryError(failure, self.url, problem)


async def _kinds(client: Any) -> list[str]:
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


def _explanation(error: Exception) -> tuple[Failure, str]:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            problem = f"its certificate is not trusted ({cause.verify_message})"
            return "certificate", f"{problem}; give the authority as ca_file in [registry]"
        cause = cause.__cause__ or cause.__context__
    return "unreachable", f"it cannot be reached ({error})"
