"""Objects of S3, Google Cloud Storage and Azure as files to read: s3://, gs:// and az://.

Needs pyarrow. Credentials and endpoints come from the same environment variables as for the
services' own tools: AWS_..., GOOGLE_APPLICATION_CREDENTIALS, AZURE_STORAGE_ACCOUNT_NAME and _KEY.
Functions raise SourceError for a missing or unreadable object, and MissingExtraError without
pyarrow.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from tempfile import TemporaryFile
from typing import Any, Final

from streameval.errors import SourceError
from streameval.extras import imported

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
        found = _store(path).get_file_info(_key(path))
    if not found.is_file:
        raise SourceError(path, "no such object", "check the path; a folder ends with /")
    return int(found.size)


def reader(path: str) -> Any:
    """The object as an Arrow file, which fetches only the parts that are read."""
    with _as_source_errors(path):
        return _store(path).open_input_file(_key(path))


def opened(path: str) -> int:
    """A descriptor of a copy of the object; closing it removes the copy."""
    with _as_source_errors(path), TemporaryFile() as copy:
        with _store(path).open_input_stream(_key(path)) as stream:
            shutil.copyfileobj(stream, copy, 1 << 20)
        copy.seek(0)
        return os.dup(copy.fileno())


def below(path: str) -> list[str]:
    """The paths of all objects in a folder and its subfolders."""
    scheme, folder = path[: path.index("//") + 2], _key(path).rstrip("/")
    with _as_source_errors(path):
        chosen = _fs().FileSelector(folder, allow_not_found=True, recursive=True)
        found = _store(path).get_file_info(chosen)
        return [f"{scheme}{each.path}" for each in found if each.is_file]


def _key(path: str) -> str:
    """Bucket and key: Arrow's name of an object."""
    return path.partition("://")[2]


def _store(path: str) -> Any:
    return store(path[: path.index("//") + 2], _key(path).partition("/")[0])


@cache
def store(scheme: str, bucket: str) -> Any:
    """Arrow's file system of a bucket; reads the environment on first use."""
    if scheme == "az://":
        account = os.environ.get("AZURE_STORAGE_ACCOUNT_NAME", "")
        key = os.environ.get("AZURE_STORAGE_ACCOUNT_KEY")
        return _fs().AzureFileSystem(account_name=account, account_key=key)
    # A key may contain # and ?, which a URI would not keep, so only the bucket is passed.
    return _fs().FileSystem.from_uri(f"{scheme}{bucket}")[0]


@contextmanager
def _as_source_errors(path: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:
        problem = " ".join(str(error).split())
        remedy = "check the path, and the credentials and endpoint in the environment"
        raise SourceError(path, problem, remedy) from error


def _fs() -> Any:
    return imported("pyarrow.fs", "reading s3://, gs:// and az://", "parquet")
