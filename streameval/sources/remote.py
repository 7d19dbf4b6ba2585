"""Object stores, S3, Google Cloud Storage and Azure: their clients, and objects as files to read.

Needs the extra `objectstore`. Credentials and endpoints come from the environment, from files that
it names, or from the identity of the machine, pod or function, as with the tools of each cloud.
Functions that read raise SourceError for a missing or unreadable object, and MissingExtraError
without obstore.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import cache
from io import RawIOBase
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from streameval.events.errors import SourceError
from streameval.events.extras import import_extra

if TYPE_CHECKING:
    from obstore.store import ClientConfig, ObjectStore, RetryConfig

_CONNECT: Final = 5.0
_RETRIES: Final = 3
_LONGEST: Final = 1_000
_SCHEMES: Final = ("s3://", "gs://", "az://")


def is_remote(path: str) -> bool:
    """True if a path names an object, or objects by their prefix.

    Example:
        >>> is_remote("s3://logs/monday.parquet"), is_remote("logs/monday.parquet")
        (True, False)
    """
    return path.startswith(_SCHEMES)


def object_size(path: str) -> int:
    """The size of an object, in bytes."""
    with _as_source_errors(path):
        return int(_obstore().head(store(_bucket(path)), _key(path))["size"])


def object_reader(path: str) -> RawIOBase:
    """The object as a file of bytes, which fetches only the parts that are read."""
    with _as_source_errors(path):
        return _ObjectFile(_obstore().open_reader(store(_bucket(path)), _key(path)))


class _ObjectFile(RawIOBase):
    """A readable file for Arrow over the client's reader; errors are OSError."""

    def __init__(self, content: Any) -> None:
        self._content = content

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        return int(self._content.seek(offset, whence))

    def tell(self) -> int:
        return int(self._content.tell())

    def readinto(self, buffer: Any) -> int:
        try:
            block = self._content.read(len(buffer))
        except _obstore().exceptions.BaseError as error:
            raise OSError(reason(error)) from error
        buffer[: len(block)] = block
        return len(block)


def open_copy(path: str) -> int:
    """A descriptor of a copy of the object; closing it removes the copy."""
    with _as_source_errors(path), TemporaryFile() as copy:
        for block in _obstore().get(store(_bucket(path)), _key(path)).stream():
            copy.write(block)
        copy.seek(0)
        return os.dup(copy.fileno())


def below(path: str) -> Iterator[str]:
    """The paths of all objects in a folder and its subfolders."""
    bucket, folder = _bucket(path), _key(path).rstrip("/")
    with _as_source_errors(path):
        pages = _obstore().list(store(_bucket(path)), folder or None)
        yield from (f"{bucket}/{meta['path']}" for page in pages for meta in page)


class StoredObject(NamedTuple):
    """An object of a listing.

    Attributes:
        modified: seconds since the epoch.
        tag: changes whenever the content does.
    """

    url: str
    modified: float
    tag: str


def objects_below(path: str) -> Iterator[tuple[str, StoredObject]]:
    """The objects in a folder and its subfolders, with their names relative to it."""
    bucket, folder = _bucket(path), _key(path).rstrip("/")
    with _as_source_errors(path):
        for page in _obstore().list(store(_bucket(path)), folder or None):
            for meta in page:
                tag = f"{meta['size']} {meta.get('e_tag') or meta['last_modified']}"
                name = meta["path"].removeprefix(folder).lstrip("/")
                modified = meta["last_modified"].timestamp()
                yield name, StoredObject(f"{bucket}/{meta['path']}", modified, tag)


def _bucket(path: str) -> str:
    return path[: len(path) - len(_key(path))].rstrip("/")


def _key(path: str) -> str:
    return path.partition("://")[2].partition("/")[2]


@cache
def store(bucket: str) -> Any:
    """The client of a bucket; reads the environment on first use."""
    return connect_bucket(bucket)


@contextmanager
def _as_source_errors(path: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise SourceError(path, "no such object", "check the path; a folder ends with /") from error
    except (_obstore().exceptions.BaseError, OSError, ValueError) as error:
        problem = reason(error)
        remedy = "check the path, and the credentials and endpoint in the environment"
        raise SourceError(path, problem, remedy) from error


def _obstore() -> Any:
    return import_extra("obstore", "reading s3://, gs:// and az://", "objectstore")


def connect_bucket(
    url: str,
    *,
    endpoint: str | None = None,
    region: str | None = None,
    timeout: float = 60.0,
    allow_http: bool = False,
) -> ObjectStore:
    """The client of a bucket, or of a prefix in it.

    Args:
        url: "s3://bucket/prefix", "gs://..." or "az://...".
        endpoint: address of a compatible service; None for the cloud's own, or as the environment
            says. This and `region` override the environment.
        region: of the bucket.
        timeout: seconds for a request with its retries.
        allow_http: whether an endpoint may be without TLS.

    Raises:
        obstore.exceptions.BaseError: credentials or settings are not valid.
        ValueError: in the same cases.
        OSError: a file that the environment names cannot be read.
    """
    obstore = import_extra("obstore.store", f"a bucket as {url}", "objectstore")
    name = "base_url" if url.startswith("gs://") else "endpoint"
    overrides = {name: endpoint, "region": region}
    settings: dict[str, Any] = {key: value for key, value in overrides.items() if value is not None}
    client: ClientConfig = {
        "timeout": timedelta(seconds=timeout),
        "connect_timeout": timedelta(seconds=min(_CONNECT, timeout)),
    }
    # An endpoint without TLS in the environment is deliberate.
    allows_plain_text = endpoint is None and os.environ.get("AWS_ENDPOINT_URL", "").startswith(
        "http://"
    )
    # Settings passed to the client override those that it reads from the environment.
    if allow_http or allows_plain_text or os.environ.get("AWS_ALLOW_HTTP", "").lower() == "true":
        client["allow_http"] = True
    retry: RetryConfig = {
        "max_retries": _RETRIES,
        "retry_timeout": timedelta(seconds=timeout),
        "backoff": {"max_backoff": timedelta(seconds=2)},
    }
    opened: ObjectStore = obstore.from_url(
        url, client_options=client, retry_config=retry, **settings
    )
    return opened


def reason(error: Exception) -> str:
    r"""The client's sentence in one line, without the debug output that follows it.

    Example:
        >>> reason(OSError("Generic S3 error: no route\n\nDebug source:\nGeneric { ... }"))
        'Generic S3 error: no route'
    """
    line = " ".join(str(error).partition("\n\nDebug source:")[0].split())
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}..."
