"""The kinds of stores: a folder that all replicas can write, and a prefix of a bucket."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from streameval.checkpoints.disk import Disk
from streameval.checkpoints.files import CheckpointFile
from streameval.checkpoints.folder import FolderStore
from streameval.checkpoints.objects import CheckpointObject, ObjectStore
from streameval.checkpoints.settings import AS_ENVIRONMENT, SCHEMES, BucketOptions, is_url
from streameval.errors import MissingExtraError

AnyStore: TypeAlias = FolderStore | ObjectStore
Stored: TypeAlias = CheckpointFile | CheckpointObject
"""A checkpoint in one."""


def store_of(
    path: str,
    options: BucketOptions = AS_ENVIRONMENT,
    progress: Callable[[], None] = lambda: None,
) -> AnyStore:
    """The store that a [state] path names; nothing is read yet.

    `progress`: called for each piece that is read or written.

    Raises:
        MissingExtraError: it is a URL, and the extra is not installed.
        StoreError: the client of the bucket cannot be made.
    """
    if not is_url(path):
        return FolderStore(Path(path), Disk(progress))
    try:
        from streameval.checkpoints.bucket import opened  # noqa: PLC0415  an extra
    except ImportError as error:
        raise MissingExtraError(f"a state at {path}", "objectstore", error) from error
    return ObjectStore(opened(path, options, progress))


def is_store(path: str, options: BucketOptions = AS_ENVIRONMENT) -> bool:
    """Whether there is a store at a path.

    Raises:
        MissingExtraError: it is the URL of a bucket, and the extra is not installed.
        StoreError: it cannot be read.
    """
    if is_url(path) and path.partition(":")[0] not in SCHEMES:
        return False
    return store_of(path, options).claimed()
