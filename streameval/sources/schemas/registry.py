"""Client of a schema registry with Confluent's API (Confluent, Apicurio, Karapace, Redpanda).

Functions raise RegistryError if the registry cannot be queried, and UnknownSchemaError if it has no
such schema.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args
from urllib.parse import quote

import msgspec

from streameval.errors import ConfigError, OptionError, SourceError, StreamevalError
from streameval.extras import imported
from streameval.sources.secrets import substitute

if TYPE_CHECKING:
    import httpx

Failure: TypeAlias = Literal["unreachable", "certificate", "authentication", "other"]

FAILURES: Final[tuple[Failure, ...]] = get_args(Failure)
"""Reasons why a registry cannot be queried; values of a label."""

_USER_IN_URL: Final = "user information does not belong in a URL; give the keys user and password."

_SECONDS: Final = 10.0
_NOT_FOUND: Final = frozenset({40401, 40402, 40403})
"""Error codes of the API for a missing subject, version or schema."""

_MAX_REFERENCES: Final = 1_000


class RegistryOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A schema registry with Confluent's API.

    Attributes:
        url: its address with the path of the API; Apicurio's is "http://HOST:8080/apis/ccompat/v7".
            In url, user and password ${NAME} is taken from the environment, and ${file:PATH} from a
            file, for user and password again for each request.
        user: name for basic authentication, or an API key.
        password: its password.
        ca_file: certificates of authorities; None: the system's.
    """

    url: str
    user: str | None = None
    password: str | None = None
    ca_file: str | None = None

    def __post_init__(self) -> None:
        if "@" in self.url:
            raise OptionError("url", _USER_IN_URL)


class Definition(msgspec.Struct, frozen=True):
    """A registered schema.

    Attributes:
        kind: "AVRO", "PROTOBUF" or "JSON".
        text: the schema; for Protobuf possibly a FileDescriptorProto in base64.
        references: name -> schema of all direct and indirect references, dependencies first.
    """

    kind: str
    text: str
    references: Mapping[str, str] = {}


class RegistryError(StreamevalError):
    """The registry cannot be queried, possibly only for now."""

    def __init__(self, failure: Failure, url: str, problem: str) -> None:
        self.failure = failure
        self.url = url
        self.problem = problem
        super().__init__(f"the schema registry at {url}: {problem}")


class UnknownSchemaError(StreamevalError):
    """The registry has no such schema."""


class UnusableSchemaError(StreamevalError):
    """A schema cannot be used to decode records."""


class _Reference(msgspec.Struct):
    name: str
    subject: str
    version: int


class _Answer(msgspec.Struct, rename="camel"):
    schema: str
    schema_type: str = "AVRO"
    references: list[_Reference] | None = None


class _Refusal(msgspec.Struct):
    error_code: int
    message: str = ""


class Registry:
    """Fetches schemas; one request at a time, each with a time limit."""

    def __init__(self, options: RegistryOptions, environment: Mapping[str, str]) -> None:
        client = imported("httpx", "a schema registry", "schemas").Client
        self._options = options
        self._environment = environment
        self.url = self._filled("url").rstrip("/")
        if "@" in self.url:
            raise ConfigError("[registry]", "url", _USER_IN_URL)
        self._auth()
        try:
            trusted = ssl.create_default_context(cafile=options.ca_file)
        except OSError as error:
            problem = f"{options.ca_file} has no certificates ({error})."
            raise ConfigError("[registry]", "ca_file", problem) from error
        self._client = client(verify=trusted, timeout=_SECONDS, follow_redirects=True)

    def definition(self, number: int) -> Definition:
        """The schema with this id, including its references."""
        answer = self._schema(f"/schemas/ids/{number}")
        references: dict[str, str] = {}
        self._add_references(answer, references, ())
        return Definition(answer.schema_type, answer.schema, references)

    def kinds(self) -> list[str]:
        """The types of schemas that the registry supports."""
        found: list[str] = self._get("/schemas/types", list[str])
        return found

    def check(self) -> str:
        """Query the registry once; returns one sentence."""
        try:
            kinds = self.kinds()
        except (RegistryError, UnknownSchemaError) as error:
            problem = getattr(error, "problem", str(error)).rstrip(".")
            remedy = "start it, or correct url in [registry]"
            raise SourceError(f"the schema registry at {self.url}", problem, remedy) from error
        return f"The schema registry at {self.url} answers: {', '.join(sorted(kinds))}."

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def _add_references(
        self, answer: _Answer, found: dict[str, str], within: tuple[str, ...]
    ) -> None:
        """Add the references of a schema, dependencies first."""
        for each in answer.references or ():
            if each.name in found or each.name in within:
                continue
            if len(found) >= _MAX_REFERENCES:
                raise UnknownSchemaError(f"it refers to more than {_MAX_REFERENCES:,} others")
            subject = quote(each.subject, safe="")
            other = self._schema(f"/subjects/{subject}/versions/{each.version}")
            self._add_references(other, found, (*within, each.name))
            found[each.name] = other.schema

    def _schema(self, path: str) -> _Answer:
        found: _Answer = self._get(path, _Answer)
        return found

    def _get(self, path: str, kind: Any) -> Any:
        with self._as_registry_errors():
            answer = self._client.get(f"{self.url}{path}", auth=self._auth())
        if answer.status_code == 404:
            raise self._missing(answer)
        if answer.status_code in {401, 403}:
            raise self._error("authentication", f"it rejects this user ({answer.status_code})")
        if answer.status_code != 200:
            raise self._error("other", f"it answers with status {answer.status_code}")
        try:
            return msgspec.json.decode(answer.content, type=kind)
        except msgspec.DecodeError as error:
            problem = f"the server is not a schema registry ({error})"
            raise self._error("other", problem) from None

    def _missing(self, answer: httpx.Response) -> StreamevalError:
        """Tell a missing schema, with a code of the API, from the 404 of a wrong path."""
        try:
            refusal = msgspec.json.decode(answer.content, type=_Refusal)
        except msgspec.DecodeError:
            refusal = None
        if refusal is not None and refusal.error_code in _NOT_FOUND:
            return UnknownSchemaError(f"the registry says: {refusal.message.rstrip('.')}")
        path = answer.request.url.path
        return self._error("other", f"no schema registry API: 404 for {path}")

    def _auth(self) -> tuple[str, str] | None:
        if self._options.user is None:
            return None
        return self._filled("user"), self._filled("password")

    def _filled(self, key: str) -> str:
        try:
            return substitute(getattr(self._options, key) or "", self._environment)
        except ValueError as error:
            raise ConfigError("[registry]", key, f"{error}.") from error

    @contextmanager
    def _as_registry_errors(self) -> Iterator[None]:
        import httpx  # noqa: PLC0415  an extra, imported where it is used

        try:
            yield
        except httpx.TimeoutException:
            problem = f"it does not answer within {_SECONDS:g} s"
            raise self._error("unreachable", problem) from None
        except httpx.HTTPError as error:
            raise self._error(*_explanation(error)) from error
        except ConfigError as error:
            raise self._error("authentication", error.problem.rstrip(".")) from error

    def _error(self, failure: Failure, problem: str) -> RegistryError:
        return RegistryError(failure, self.url, problem)


def _explanation(error: Exception) -> tuple[Failure, str]:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            problem = f"its certificate is not trusted ({cause.verify_message})"
            return "certificate", f"{problem}; give the authority as ca_file in [registry]"
        cause = cause.__cause__ or cause.__context__
    return "unreachable", f"it cannot be reached ({error})"
