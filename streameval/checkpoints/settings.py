"""Settings of checkpoints, the policies of the [state] table, and log events."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple, TypeAlias
from urllib.parse import urlsplit

import msgspec

from streameval.events.errors import RefusedStateError


class Policies(msgspec.Struct, frozen=True, kw_only=True):
    """The policies of the [state] table; "restart" archives the state and starts over.

    Attributes:
        on_retention: the log has lost records that the state has not counted yet.
        on_recreated: the topic was deleted and recreated, or the file was truncated, rotated or
            replaced.
        on_truncated: the state has counted records that the log does not have.
        on_new_partitions: the topic has more partitions than when its state began.
        on_unknown_version: a newer release wrote the state.
        on_damaged: every checkpoint of a partition is damaged.
        on_other_settings: decoding, labels, panes or depth differ; if only decoding differs,
            "accept" continues counting.
        on_other_inputs: popularity, similarity or an attribute has another version or, without one,
            another content, or days are those of another time zone; "restart" empties only what was
            counted with it.
        on_foreign_progress: the group has committed more than any checkpoint covers; records
            below that rebuild the state, and never count in counters again.
    """

    on_retention: Literal["fail", "skip"] = "fail"
    on_recreated: Literal["fail", "restart"] = "fail"
    on_truncated: Literal["fail", "restart"] = "fail"
    on_new_partitions: Literal["fail", "accept"] = "fail"
    on_unknown_version: Literal["fail", "restart"] = "fail"
    on_damaged: Literal["fail", "restart"] = "fail"
    on_other_settings: Literal["fail", "restart", "accept"] = "fail"
    on_other_inputs: Literal["fail", "restart"] = "fail"
    on_foreign_progress: Literal["fail", "rebuild"] = "fail"

    def enforce(self, policy: str, where: str, problem: str) -> str:
        """Apply a policy to a problem.

        Returns:
            The choice: "skip", "restart", ...

        Raises:
            RefusedStateError: the choice is "fail".

        Example:
            >>> Policies(on_truncated="restart").enforce("on_truncated", "events[0]", "...")
            'restart'
        """
        choice: str = getattr(self, policy)
        if choice == "fail":
            remedy, choices = _REMEDIES.get(policy), CHOICES[policy]
            offered = " or ".join(f'{policy} = "{it}" ({does})' for it, does in choices.items())
            instead = "" if remedy is None else f"{remedy}, or "
            raise RefusedStateError(
                f"{where}: {problem}. To continue, {instead}set [state] {offered}.",
                where=where,
                problem=problem,
                policy=policy,
                choices=dict(choices),
            )
        return choice


_REMEDIES: Mapping[str, str] = MappingProxyType(
    {
        "on_other_settings": "restore the earlier settings",
        "on_other_inputs": "restore the earlier inputs, or give a changed table a new `version`",
    }
)
"""Other remedies for the problem of a policy."""

_RESTART = "the state is archived, and counting starts over at `start`"

CHOICES: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "on_retention": {"skip": "the gap is logged and never counted"},
        "on_recreated": {"restart": _RESTART},
        "on_truncated": {"restart": _RESTART},
        "on_new_partitions": {"accept": "new partitions are counted from their first record"},
        "on_unknown_version": {"restart": _RESTART},
        "on_damaged": {"restart": _RESTART},
        "on_other_settings": {
            "restart": _RESTART,
            "accept": "if only [event] differs: earlier counts stay, and counting continues",
        },
        "on_other_inputs": {
            "restart": "the metrics that were counted with it start over, and all others continue"
        },
        "on_foreign_progress": {
            "rebuild": "records up to the commit are counted again, without counters"
        },
    }
)
"""The choices of each policy besides "fail", and their effects."""


class CheckpointSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the checkpointer.

    Attributes:
        cluster: returns the id of the cluster; called at the first assignment.
        fingerprint: settings that must be the same to resume from a checkpoint; plain values.
        schema: families and metrics that are counted, enough to read the state without a
            configuration; plain values.
        interval: seconds between checkpoints.
        budget: seconds for the last checkpoints before partitions are revoked.
    """

    release: str
    cluster: Callable[[], str]
    group: str
    fingerprint: Mapping[str, Any]
    schema: Mapping[str, Any] = {}
    policies: Policies = Policies()
    interval: float = 10.0
    budget: float = 60.0


SCHEMES: Final = ("s3", "gs", "az")
"""URL schemes of object storage: Amazon S3 and compatible services, Google Cloud, Azure."""


class BucketOptions(NamedTuple):
    """The connection to object storage.

    Attributes:
        endpoint: URL of the service; None for that of the environment or the cloud.
        region: of the bucket; None for that of the environment.
        timeout: limit for a request and its retries, seconds.
    """

    endpoint: str | None = None
    region: str | None = None
    allow_http: bool = False
    timeout: float = 15.0


AS_ENVIRONMENT: Final = BucketOptions()
"""Options that take endpoint and region from the environment."""


def bucket_problems(path: str, options: BucketOptions) -> Iterator[tuple[str, str]]:
    """Problems of a [state] path and its connection: pairs of a key and a sentence."""
    if not is_url(path):
        connection = {"endpoint": options.endpoint, "region": options.region}
        for key in [key for key, value in connection.items() if value is not None]:
            yield key, f"it is for object storage only, and path is the folder {path!r}."
        if options.allow_http:
            yield "allow_http", f"it is for object storage only, and path is the folder {path!r}."
        return
    try:
        scheme = scheme_of(path)
    except ValueError as error:
        yield "path", str(error)
        return
    if options.region is not None and scheme != "s3":
        yield "region", f"it is for s3:// only, and path is {path!r}."
    if options.endpoint is not None:
        service = urlsplit(options.endpoint)
        if "@" in service.netloc:
            yield (
                "endpoint",
                "user information does not belong in a URL; use the variables of the cloud.",
            )
        elif service.scheme not in ("http", "https") or not service.netloc:
            yield "endpoint", f"found {options.endpoint!r}; give a URL, https://HOST:PORT."
        elif service.scheme == "http" and not options.allow_http:
            yield "endpoint", "http:// has no TLS; give https://, or set allow_http = true."


def is_url(path: str) -> bool:
    """True if a path is the URL of a bucket, not a folder.

    Example:
        >>> is_url("s3://bucket/prefix"), is_url("state"), is_url("s3:/x")
        (True, False, False)
    """
    return "://" in path


def scheme_of(path: str) -> str:
    """The scheme of a URL of object storage.

    Raises:
        ValueError: it is not one; the message says why.

    Example:
        >>> scheme_of("s3://events/streameval/shop/")
        's3'
    """
    how = "give a folder, or s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or az://CONTAINER/PREFIX"
    url = urlsplit(path)
    if url.scheme not in SCHEMES:
        raise ValueError(f"found {path!r}; {url.scheme}:// is not known: {how}.")
    if not url.netloc or url.query or url.fragment or "@" in url.netloc:
        raise ValueError(f"found {path!r}; that is not a bucket and prefix: {how}.")
    prefix = url.path.strip("/")
    if any(part in ("", ".", "..") for part in prefix.split("/") if prefix):
        raise ValueError(f"found {path!r}; its prefix has an empty part, '.' or '..': {how}.")
    return url.scheme


class LogEvent(NamedTuple):
    """A log line."""

    level: Literal["info", "warning", "error"]
    event: str
    fields: Mapping[str, Any]


LogSink: TypeAlias = Callable[[LogEvent], None]
"""Receives log events in order, on the polling thread."""
