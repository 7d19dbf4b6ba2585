"""The schemas of a registry, by Confluent's client; each answer has one deadline.

Functions raise RegistryError if the registry cannot be queried, and RejectedSchemaError if it has
no such schema.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, Final, TypeVar

import msgspec

from streameval.decoding.invalid import Reason
from streameval.events.errors import ConfigError, SourceError, StreamevalError, named_fields
from streameval.events.extras import import_extra
from streameval.events.problems import check_types
from streameval.events.secrets import substitute

_USER: Final = "correct user and password in [registry]"
_USER_IN_URL: Final = "user information does not belong in a URL; give the keys user and password."
ANSWER_SECONDS: Final = 5.0
"""Seconds until an answer must be complete; a registry may send it a byte at a time."""

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


@named_fields
class RejectedSchemaError(StreamevalError):
    """The registry has no such schema, or it cannot be used to decode records."""

    reason: Reason


class Registry:
    """Fetches schemas; used by one thread at a time."""

    def __init__(self, options: RegistryOptions, environment: Mapping[str, str]) -> None:
        library = import_extra("confluent_kafka.schema_registry", "a schema registry", "schemas")
        self._new_client: Callable[[dict[str, Any]], Any] = library.AsyncSchemaRegistryClient
        self._refusal: Any = library.SchemaRegistryError
        self._options, self._environment = options, environment
        self._runner = asyncio.Runner()
        self.url = self._substitute("url").rstrip("/")
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
                f"the ids of a registry end at {_LARGEST_ID:,}", reason="unknown_schema"
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
            user = f"{self._substitute('user')}:{self._substitute('password')}"
            settings["basic.auth.user.info"] = user
        return settings

    def _substitute(self, key: str) -> str:
        try:
            return substitute(getattr(self._options, key) or "", self._environment)
        except ValueError as error:
            raise ConfigError("[registry]", key, f"{error}.") from error

    def _ask(self, request: Callable[[Any], Awaitable[T]]) -> T:
        async def answer() -> T:
            return await asyncio.wait_for(request(self._client), ANSWER_SECONDS)

        try:
            if self._client is None:
                self._client = self._new_client(self._settings())
            return self._runner.run(answer())
        except MemoryError:
            raise
        except Exception as error:
            missing = self._missing(error)
            if missing is not None:
                raise RejectedSchemaError(missing, reason="unknown_schema") from error
            self._disconnect()
            where = f"the schema registry at {self.url}"
            raise RegistryError(where, *self._explain(error)) from error

    def _disconnect(self) -> None:
        """Drop the client, so that the next request reads the credentials again and no cache."""
        client, self._client = self._client, None
        if client is not None:
            self._runner.run(client.aclose())

    def _missing(self, error: Any) -> str | None:
        """The message of the registry if it has no such schema, else None."""
        refused = isinstance(error, self._refusal)
        if not refused or error.http_status_code != 404 or error.error_code not in _NOT_FOUND:
            return None
        return f"the registry says: {str(error.error_message).rstrip('.')}"

    def _explain(self, error: Any) -> tuple[str, str]:
        remedy = "start it, or correct url in [registry]"
        certificate = _certificate_error(error)
        status = error.http_status_code if isinstance(error, self._refusal) else None
        if certificate is not None:
            problem = f"its certificate is not trusted ({certificate.verify_message})"
            remedy = "give the authority as ca_file in [registry]"
        elif isinstance(error, TimeoutError):
            problem = f"no whole answer within {ANSWER_SECONDS:g} s"
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
