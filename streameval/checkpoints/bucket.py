"""Storage in a bucket: S3, Google Cloud Storage or Azure Blob Storage."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import obstore
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    NotSupportedError,
    PermissionDeniedError,
    UnauthenticatedError,
    UnknownConfigurationKeyError,
)
from obstore.store import from_url

from streameval.checkpoints.settings import BucketOptions, scheme_of
from streameval.checkpoints.storage import StoredFile
from streameval.errors import StoreError

if TYPE_CHECKING:
    from obstore.store import ClientConfig, ObjectStore, RetryConfig

_CONNECT: Final = timedelta(seconds=5)
_RETRIES: Final = 3
_PAGE: Final = 1000
_LONGEST: Final = 300
_GENERIC: Final = re.compile(r"^Generic \w+ error: ")
_FAILED: Final = re.compile(
    r".*Error performing \w+ \S+ in [^ ,]+(, after (?P<retries>\d+) retries,.*?)? +- "
    r"(Server returned non-2xx status code: |HTTP error: )?(?P<cause>.*)"
)
_CODE: Final = re.compile(r"<Code>(\w+)</Code>")


class Bucket:
    """The objects below one prefix of a bucket; see `Storage`.

    Each call is one request, except that a listing takes one for 1,000 objects, and a move two.

    `progress`: called after each request.
    """

    remedy = "check bucket and prefix"
    remote = True

    def __init__(
        self, path: str, client: ObjectStore, progress: Callable[[], None] = lambda: None
    ) -> None:
        self.path = path
        self._client = client
        self._progress = progress

    def get(self, key: str) -> bytes:
        """See `Storage.get`."""
        with self._request("get", key):
            return obstore.get(self._client, key).bytes().to_bytes()

    def get_range(self, key: str, start: int, size: int) -> bytes:
        """See `Storage.get_range`."""
        with self._request("get", key):
            return obstore.get_range(self._client, key, start=start, length=size).to_bytes()

    def put(self, key: str, *pieces: bytes) -> str:
        """See `Storage.put`."""
        with self._request("put", key):
            # One request: parts of an interrupted multipart upload would remain and be billed.
            return (
                obstore.put(self._client, key, b"".join(pieces), use_multipart=False)["e_tag"] or ""
            )

    def put_new(self, key: str, data: bytes) -> bool:
        """See `Storage.put_new`."""
        with self._request("put", key):
            try:
                obstore.put(self._client, key, data, mode="create", use_multipart=False)
            except AlreadyExistsError:
                return False
        return True

    def files(self, folder: str) -> dict[str, StoredFile]:
        """See `Storage.files`."""
        with self._request("list", folder):
            found = obstore.list(self._client, folder, chunk_size=_PAGE).collect()
        return {each["path"].removeprefix(f"{folder}/"): _stored(each) for each in found}

    def names(self, folder: str) -> list[str]:
        """See `Storage.names`."""
        with self._request("list", folder):
            found = obstore.list_with_delimiter(self._client, folder or None)
        objects = [each["path"] for each in found["objects"]]
        return sorted(path.rpartition("/")[2] for path in (*found["common_prefixes"], *objects))

    def move(self, source: str, target: str) -> None:
        """See `Storage.move`."""
        with self._request("copy", source):
            obstore.copy(self._client, source, target)
        self.delete([source])

    def delete(self, keys: Sequence[str]) -> None:
        """See `Storage.delete`."""
        with self._request("delete", keys[0]), suppress(FileNotFoundError):
            obstore.delete(self._client, keys)

    def sync(self, folder: str) -> None:
        """Do nothing: objects are durable."""

    def path_of(self, key: str) -> str:
        """See `Storage.path_of`."""
        return f"{self.path}/{key}" if key else self.path

    @contextmanager
    def _request(self, call: str, key: str) -> Iterator[None]:
        """Raise StoreError, with the call and the object, for a failed request."""
        where = self.path_of(key)
        try:
            yield
        except FileNotFoundError as error:
            if "NoSuchBucket" in str(error) or "ContainerNotFound" in str(error):
                raise _store_error(where, call, error) from error
            raise FileNotFoundError(where) from error
        except (BaseError, OSError) as error:
            raise _store_error(where, call, error) from error
        self._progress()


def open_bucket(path: str, options: BucketOptions, progress: Callable[[], None]) -> Bucket:
    """Open the bucket and prefix of a URL.

    Credentials come from the environment, from files that it names, or from the identity of the
    machine, pod or function, as with the tools of each cloud.

    Raises:
        StoreError: credentials or options are invalid.
    """
    endpoint = "base_url" if scheme_of(path) == "gs" else "endpoint"
    given = {endpoint: options.endpoint, "region": options.region}
    settings: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    client: ClientConfig = {
        "timeout": timedelta(seconds=options.timeout),
        "connect_timeout": min(_CONNECT, timedelta(seconds=options.timeout)),
    }
    # Settings given here override those that the client reads from the environment.
    if options.allow_http or os.environ.get("AWS_ALLOW_HTTP", "").lower() == "true":
        client["allow_http"] = True
    retry: RetryConfig = {
        "max_retries": _RETRIES,
        "retry_timeout": timedelta(seconds=options.timeout),
        "backoff": {"max_backoff": timedelta(seconds=2)},
    }
    try:
        made = from_url(
            path.rstrip("/"),
            client_options=client,
            retry_config=retry,
            **settings,
        )
    except (BaseError, ValueError, OSError) as error:
        raise _store_error(path.rstrip("/"), "connect", error) from error
    return Bucket(path.rstrip("/"), made, progress)


def _stored(found: Mapping[str, Any]) -> StoredFile:
    modified = found["last_modified"].timestamp()
    return StoredFile(found["size"], modified, found["e_tag"] or f"{modified}")


_ACCESS: Final = (
    "give its identity the right to list the bucket and to read, write and delete objects below "
    "the prefix"
)
_UNREACHABLE: Final = "check that the service is reachable, and [state] endpoint and region"
_REMEDIES: Final[Mapping[type[Exception], str]] = {
    PermissionDeniedError: _ACCESS,
    UnauthenticatedError: "give this process credentials that are valid",
    NotSupportedError: "use a service that supports conditional writes",
    UnknownConfigurationKeyError: "remove it",
}
_REMEDIES_BY_TEXT: Final[Mapping[str, str]] = {
    "NoSuchBucket": "create the bucket, or name another one under [state] path",
    "ContainerNotFound": "create the container, or name another one under [state] path",
    "AccessDenied": _ACCESS,
    "NotImplemented": "use a service that supports conditional writes",
    "PermanentRedirect": "name the region of the bucket under [state] region",
    "AuthorizationHeaderMalformed": "name the region of the bucket under [state] region",
    "169.254.169.254": (
        "give this process credentials, in the environment or by the identity of the machine"
    ),
    "BadScheme": "set [state] allow_http = true for an endpoint without TLS",
}
"""Text in a message -> remedy."""


def _store_error(where: str, call: str, error: Exception) -> StoreError:
    text = str(error)
    found = (remedy for part, remedy in _REMEDIES_BY_TEXT.items() if part in text)
    remedy = next(found, _REMEDIES.get(type(error), _UNREACHABLE))
    return StoreError(where, f"{call} failed: {problem_of(text)}", remedy)


def problem_of(text: str) -> str:
    r"""The cause in a message of the client, in one line.

    Example:
        >>> problem_of("Generic S3 error: no route\n\nDebug source:\nGeneric { ... }")
        'no route'
        >>> problem_of("Generic S3 error: 503: <Error><Code>SlowDown</Code><Id>7</Id></Error>")
        '503: SlowDown'
    """
    cause, _, details = text.partition("\n\nDebug source:")
    cause, _, answer = cause.partition("<")
    line = f"{' '.join(cause.split())} {''.join(_CODE.findall(answer)[:1])}".strip(" :")
    found = _FAILED.fullmatch(line)
    if found is None:
        line = _GENERIC.sub("", line)
    else:
        line = "no answer in time" if "kind: Timeout" in details else found["cause"]
        line += f", after {found['retries']} retries" if found["retries"] else ""
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}..."
