"""Storage in a bucket: S3, Google Cloud Storage or Azure Blob Storage."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import obstore
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    NotSupportedError,
    PermissionDeniedError,
    UnauthenticatedError,
    UnknownConfigurationKeyError,
)

from streameval.checkpoints.settings import BucketOptions
from streameval.checkpoints.storage import StoredFile, missing_file
from streameval.events.errors import StoreError
from streameval.sources.remote import connect_bucket, reason

if TYPE_CHECKING:
    from obstore.store import ObjectStore

_PAGE: Final = 1000
_LIMITS: Final[Mapping[str, int]] = {"s3": 5 << 30, "az": 5_000 << 20, "gs": 5 << 40}
"""Most bytes of a request that writes an object."""


class Bucket:
    """The objects below one prefix of a bucket; see `Storage`.

    Each call is one request, except that a listing takes one for 1,000 objects.

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

    def put_new(self, key: str, pieces: Iterable[bytes]) -> bool:
        """See `Storage.put_new`."""
        # One request: parts of an interrupted multipart upload would remain and be billed.
        pieces = [*pieces]
        size, limit = sum(map(len, pieces)), _LIMITS[urlsplit(self.path).scheme]
        if size > limit:
            raise StoreError(
                self.path_of(key),
                f"it has {size:,} bytes, and one request takes {limit:,}",
                "give more replicas, so that each has fewer partitions, or keep state in a folder",
            )
        data = b"".join(pieces)
        with self._request("put", key):
            try:
                obstore.put(self._client, key, data, mode="create", use_multipart=False)
            except AlreadyExistsError:
                return False
        return True

    def files(self, folder: str = "") -> dict[str, StoredFile]:
        """See `Storage.files`."""
        with self._request("list", folder):
            entries = obstore.list(self._client, folder or None, chunk_size=_PAGE).collect()
        return {entry["path"].removeprefix(f"{folder}/"): _store(entry) for entry in entries}

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
            raise missing_file(where) from error
        except (BaseError, OSError) as error:
            raise _store_error(where, call, error) from error
        self._progress()


def open_bucket(path: str, options: BucketOptions, progress: Callable[[], None]) -> Bucket:
    """Open the bucket and prefix of a URL; see `remote.connect` for its credentials.

    Raises:
        StoreError: credentials or options are invalid.
    """
    path = path.rstrip("/")
    try:
        client = connect_bucket(
            path,
            endpoint=options.endpoint,
            region=options.region,
            timeout=options.timeout,
            allow_http=options.allow_http,
        )
    except (BaseError, ValueError, OSError) as error:
        raise _store_error(path, "connect", error) from error
    return Bucket(path, client, progress)


def _store(meta: Mapping[str, Any]) -> StoredFile:
    modified = meta["last_modified"].timestamp()
    return StoredFile(meta["size"], modified, meta["e_tag"] or f"{modified}")


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
_REMEDIES_BY_CODE: Final[Mapping[str, str]] = {
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
"""Code in the answer of a service, or the address of the machine's identity -> remedy."""


def _store_error(where: str, call: str, error: Exception) -> StoreError:
    remedies = (remedy for code, remedy in _REMEDIES_BY_CODE.items() if code in str(error))
    remedy = next(remedies, _REMEDIES.get(type(error), _UNREACHABLE))
    return StoreError(where, f"{call} failed: {reason(error)}", remedy)
