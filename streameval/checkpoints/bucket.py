"""The requests a store makes to object storage: S3, Google Cloud Storage and Azure Blob Storage."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

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

from streameval.checkpoints.settings import BucketOptions, url_of
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


class StoredObject(NamedTuple):
    """An object in a bucket.

    Attributes:
        modified: when it was written, by the clock of the service; seconds since the epoch.
        tag: differs where the content does.
    """

    size: int
    modified: float
    tag: str


class Bucket:
    """The objects below one prefix of a bucket; keys are relative to the prefix.

    Each call is one request (a listing: one for each 1,000 objects), is safe on any thread, and
    raises StoreError where the service cannot be reached or refuses.

    `progress`: called after each request.
    """

    def __init__(
        self, url: str, client: ObjectStore, progress: Callable[[], None] = lambda: None
    ) -> None:
        self.url = url
        self._client = client
        self._progress = progress

    def get(self, key: str) -> bytes:
        """The bytes of an object.

        Raises:
            FileNotFoundError: there is none.
        """
        with self._request("get", key):
            return obstore.get(self._client, key).bytes().to_bytes()

    def get_range(self, key: str, start: int, size: int) -> bytes:
        """At least one byte of an object; fewer than `size` at its end.

        Raises:
            FileNotFoundError: there is none.
        """
        with self._request("get", key):
            return obstore.get_range(self._client, key, start=start, length=size).to_bytes()

    def put(self, key: str, data: bytes) -> str:
        """Write an object atomically, in place of an earlier one; returns its tag, if known."""
        with self._request("put", key):
            # In one request: parts of an upload that is cut off would stay, and be paid for.
            return obstore.put(self._client, key, data, use_multipart=False)["e_tag"] or ""

    def put_new(self, key: str, data: bytes) -> bool:
        """Write an object where there is none; returns whether this call did."""
        with self._request("put", key):
            try:
                obstore.put(self._client, key, data, mode="create", use_multipart=False)
            except AlreadyExistsError:
                return False
        return True

    def objects(self, folder: str) -> dict[str, StoredObject]:
        """Every object below a folder, by its key relative to the folder."""
        with self._request("list", folder):
            found = obstore.list(self._client, folder, chunk_size=_PAGE).collect()
        return {each["path"].removeprefix(f"{folder}/"): _stored(each) for each in found}

    def names(self, folder: str) -> tuple[list[str], list[str]]:
        """The names of folders and of objects in a folder, each sorted."""
        with self._request("list", folder):
            found = obstore.list_with_delimiter(self._client, folder or None)
        objects = [each["path"] for each in found["objects"]]
        folders, files = (
            sorted(path.rpartition("/")[2] for path in paths)
            for paths in (found["common_prefixes"], objects)
        )
        return folders, files

    def copy(self, source: str, target: str) -> None:
        """Copy an object within the bucket.

        Raises:
            FileNotFoundError: there is none.
        """
        with self._request("copy", source):
            obstore.copy(self._client, source, target)

    def delete(self, keys: Sequence[str]) -> None:
        """Delete objects; missing ones are ignored."""
        with self._request("delete", keys[0]), suppress(FileNotFoundError):
            obstore.delete(self._client, keys)

    def path_of(self, key: str) -> str:
        """The URL of an object."""
        return f"{self.url}/{key}" if key else self.url

    @contextmanager
    def _request(self, call: str, key: str) -> Iterator[None]:
        """Raise a StoreError for each failed request; names the call and the object."""
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


def opened(path: str, options: BucketOptions, progress: Callable[[], None]) -> Bucket:
    """The bucket and prefix of a URL.

    Credentials come from the environment, from the files that it names, or from the identity of
    the machine, pod or function, as the tools of each cloud find them.

    Raises:
        StoreError: the client cannot be made: credentials or options are not valid.
    """
    url = url_of(path)
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
            **_settings(url.scheme, options),
        )
    except (BaseError, ValueError, OSError) as error:
        raise _store_error(path.rstrip("/"), "connect", error) from error
    return Bucket(path.rstrip("/"), made, progress)


def _settings(scheme: str, options: BucketOptions) -> dict[str, Any]:
    endpoint = "base_url" if scheme == "gs" else "endpoint"
    given = {endpoint: options.endpoint, "region": options.region}
    return {key: value for key, value in given.items() if value is not None}


def _stored(found: Mapping[str, Any]) -> StoredObject:
    modified = found["last_modified"].timestamp()
    return StoredObject(found["size"], modified, found["e_tag"] or f"{modified}")


_ACCESS: Final = (
    "give its identity the right to list the bucket and to read, write and delete objects below "
    "the prefix"
)
_AWAY: Final = "check that the service is reachable from here, and [state] endpoint and region"
_REMEDIES: Final[Mapping[type[Exception], str]] = {
    PermissionDeniedError: _ACCESS,
    UnauthenticatedError: "give this process credentials that are valid",
    NotSupportedError: "use a service that supports conditional writes",
    UnknownConfigurationKeyError: "remove it",
}
_SAID: Final[Mapping[str, str]] = {
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
"""Words of a message -> what to do."""


def _store_error(where: str, call: str, error: Exception) -> StoreError:
    text = str(error)
    said = (remedy for words, remedy in _SAID.items() if words in text)
    remedy = next(said, _REMEDIES.get(type(error), _AWAY))
    return StoreError(where, f"{call} failed: {problem_of(text)}", remedy)


def problem_of(text: str) -> str:
    r"""The cause in a message of the client, in one line without its details.

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
