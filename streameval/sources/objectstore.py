"""Clients of object stores: S3, Google Cloud Storage and Azure Blob Storage.

Needs obstore (extra `objectstore`). Credentials come from the environment, from files that it
names, or from the identity of the machine, pod or function, as with the tools of each cloud.
"""

from __future__ import annotations

import os
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from obstore.store import from_url

if TYPE_CHECKING:
    from obstore.store import ClientConfig, ObjectStore, RetryConfig

_CONNECT: Final = 5.0
_RETRIES: Final = 3
_LONGEST: Final = 1_000


def connect(
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
        ValueError: likewise.
        OSError: a file that the environment names cannot be read.
    """
    name = "base_url" if url.startswith("gs://") else "endpoint"
    given = {name: endpoint, "region": region}
    settings: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    client: ClientConfig = {
        "timeout": timedelta(seconds=timeout),
        "connect_timeout": timedelta(seconds=min(_CONNECT, timeout)),
    }
    # Settings given here override those that the client reads from the environment.
    if allow_http or os.environ.get("AWS_ALLOW_HTTP", "").lower() == "true":
        client["allow_http"] = True
    retry: RetryConfig = {
        "max_retries": _RETRIES,
        "retry_timeout": timedelta(seconds=timeout),
        "backoff": {"max_backoff": timedelta(seconds=2)},
    }
    return from_url(url, client_options=client, retry_config=retry, **settings)


def reason(error: Exception) -> str:
    r"""The client's sentence in one line, without the debug output that follows it.

    Example:
        >>> reason(OSError("Generic S3 error: no route\n\nDebug source:\nGeneric { ... }"))
        'Generic S3 error: no route'
    """
    line = " ".join(str(error).partition("\n\nDebug source:")[0].split())
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}..."
