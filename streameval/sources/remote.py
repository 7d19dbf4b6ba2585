"""Objects of S3, Google Cloud Storage and Azure as files to read: s3://, gs:// and az://.

Needs the extra `objectstore`. Credentials and endpoints come from the same environment variables as
for the services' own tools: AWS_..., GOOGLE_APPLICATION_CREDENTIALS, AZURE_STORAGE_ACCOUNT_NAME and
_KEY. Functions raise SourceError for a missing or unreadable object, and MissingExtraError without
obstore.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from io import RawIOBase
from tempfile import TemporaryFile
from typing import Any, Final

from streameval.events.errors import SourceError
from streameval.events.extras import import_extra

_SCHEMES: Final = ("s3://", "gs://", "az://")


def is_remote(path: str) -> bool:
    """Whether a path names an object, or objects by their prefix.

    Example:
        >>> is_remote("s3://logs/monday.parquet"), is_remote("logs/monday.parquet")
        (True, False)
    """
    return path.startswith(_SCHEMES)


def size(path: str) -> int:
    """The size of an object, in bytes."""
    with _as_source_errors(path):
        return int(_obstore().head(_store(path), _key(path))["size"])


def reader(path: str) -> RawIOBase:
    """The object as a file of bytes, which fetches only the parts that are read."""
    with _as_source_errors(path):
        return _ObjectFile(_obstore().open_reader(_store(path), _key(path)))


class _ObjectFile(RawIOBase):
    """What Arrow asks of a file and the client's own reader lacks; errors are OSError."""

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
            raise OSError(_objectstore().reason(error)) from error
        buffer[: len(block)] = block
        return len(block)


def open_copy(path: str) -> int:
    """A descriptor of a copy of the object; closing it removes the copy."""
    with _as_source_errors(path), TemporaryFile() as copy:
        for block in _obstore().get(_store(path), _key(path)).stream():
            copy.write(block)
        copy.seek(0)
        return os.dup(copy.fileno())


def below(path: str) -> list[str]:
    """The paths of all objects in a folder and its subfolders."""
    bucket, folder = _bucket(path), _key(path).rstrip("/")
    with _as_source_errors(path):
        pages = _obstore().list(_store(path), folder or None)
        return [f"{bucket}/{meta['path']}" for page in pages for meta in page]


def _bucket(path: str) -> str:
    """The path's scheme and bucket."""
    return path[: len(path) - len(_key(path))].rstrip("/")


def _key(path: str) -> str:
    """The name of an object in its bucket."""
    return path.partition("://")[2].partition("/")[2]


def _store(path: str) -> Any:
    return store(_bucket(path))


@cache
def store(bucket: str) -> Any:
    """The client of a bucket; reads the environment on first use."""
    # Who names an endpoint without TLS in the environment wants one.
    plain = os.environ.get("AWS_ENDPOINT_URL", "").startswith("http://")
    return _objectstore().connect(bucket, allow_http=plain)


@contextmanager
def _as_source_errors(path: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise SourceError(path, "no such object", "check the path; a folder ends with /") from error
    except (_obstore().exceptions.BaseError, OSError, ValueError) as error:
        problem = _objectstore().reason(error)
        remedy = "check the path, and the credentials and endpoint in the environment"
        raise SourceError(path, problem, remedy) from error


def _obstore() -> Any:
    return import_extra("obstore", "reading s3://, gs:// and az://", "objectstore")


def _objectstore() -> Any:
    return import_extra(
        "streameval.sources.objectstore", "reading s3://, gs:// and az://", "objectstore"
    )
