"""Which answers of a consumer no waiting will mend."""

from __future__ import annotations

from kafka.errors import (
    CorruptRecordError,
    LogTruncationError,
    OffsetOutOfRangeError,
    UnsupportedCodecError,
)

from streameval.errors import SourceError

_GONE = (
    "retention deleted records before they were read, or the topic was made again; "
    "start anew where `start` says, and give the topic a longer retention"
)


def permanent(error: Exception) -> SourceError | None:
    """The error to raise for `error`; None where it may pass."""
    if isinstance(error, OffsetOutOfRangeError | LogTruncationError):
        return SourceError("kafka", f"a position lies outside its log ({error})", _GONE)
    if isinstance(error, CorruptRecordError):
        remedy = "restore the record, or start after it"
        return SourceError("kafka", f"a record fails its checksum ({error})", remedy)
    if isinstance(error, UnsupportedCodecError):
        return SourceError("kafka", f"a compression is not supported ({error})", "install it")
    return None
