"""Which answers of a consumer no waiting will mend."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kafka.errors import (
    CorruptRecordError,
    FencedInstanceIdError,
    InconsistentGroupProtocolError,
    InvalidSessionTimeoutError,
    LogTruncationError,
    OffsetOutOfRangeError,
    UnsupportedCodecError,
)

from streameval.errors import SourceError
from streameval.records import Partition

_GONE = (
    "retention deleted records before they were read, or the topic was made again; "
    "start anew where `start` says, and give the topic a longer retention"
)

_MEMBERSHIP: Final = {
    FencedInstanceIdError: (
        "another process has joined the group under the name of this one",
        "give each process a `member` of its own in [source]",
    ),
    InconsistentGroupProtocolError: (
        "the group has members of another kind, which share partitions in another way",
        "choose another `group` in [source]",
    ),
    InvalidSessionTimeoutError: (
        "the broker does not allow this session_timeout_ms",
        "choose one within its group.min.session.timeout.ms and group.max.session.timeout.ms",
    ),
}


def permanent(error: Exception) -> SourceError | None:
    """The error to raise for `error`; None where it may pass."""
    if isinstance(error, OffsetOutOfRangeError | LogTruncationError):
        return _outside(error)
    if isinstance(error, CorruptRecordError):
        remedy = "restore the record, or start after it"
        return SourceError("kafka", f"a record fails its checksum ({error})", remedy)
    if isinstance(error, UnsupportedCodecError):
        return SourceError("kafka", f"a compression is not supported ({error})", "install it")
    for kind, (problem, remedy) in _MEMBERSHIP.items():
        if isinstance(error, kind):
            return SourceError("kafka", problem, remedy)
    return None


def _outside(error: Exception) -> SourceError:
    """Both errors carry partition -> offset."""
    found = error.args[0] if error.args and isinstance(error.args[0], Mapping) else {}
    where = ", ".join(str(Partition(*partition)) for partition in found) or "kafka"
    offsets = ", ".join(str(offset) for offset in found.values()) or "that is read"
    return SourceError(where, f"offset {offsets} is no longer in the log", _GONE)
