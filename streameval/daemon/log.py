"""Structured logs: one line of key=value pairs per event, on standard error."""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, TextIO

_LOG: Final = logging.getLogger("streameval")
_BARE: Final = re.compile(r"[^\s\"=\\\x00-\x1f\x7f]+")


def emit(level: int, event: str, **fields: Any) -> None:
    """Log an event by its name, with its data.

    `event`: a name that never changes, such as "invalid_records"; what one searches for. `fields`:
    shown in the order given; None is left out.
    """
    _LOG.log(level, "%s", event, extra={"fields": fields})


class Logfmt(logging.Formatter):
    """`ts=... level=... event=...` and the event's own fields, each line parsable.

    Lines of other libraries carry event=message, their logger and their sentence.

    Example:
        >>> record = logging.makeLogRecord({"msg": "on", "created": 0, "levelname": "INFO"})
        >>> record.fields = {"source": "a topic"}
        >>> Logfmt().format(record)
        'ts=1970-01-01T00:00:00.000Z level=info event=on source="a topic"'
    """

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line."""
        pairs = {"ts": _moment(record.created), "level": record.levelname.lower()}
        pairs |= _content(record)
        if record.exc_info:
            pairs["error"] = self.formatException(record.exc_info)
        return " ".join(f"{key}={_quoted(value)}" for key, value in pairs.items())


def configure(level: int = logging.INFO, stream: TextIO | None = None) -> None:
    """Send every log of this process, warnings included, to one stream.

    The web server's own messages of starting and stopping are left out; the daemon logs them.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(Logfmt())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    logging.getLogger("uvicorn").setLevel(max(level, logging.WARNING))
    logging.captureWarnings(capture=True)


def level_of(name: str) -> int:
    """The level of `logging` with this name.

    >>> level_of("warning")
    30
    """
    return logging.getLevelNamesMapping()[name.upper()]


def _moment(seconds: float) -> str:
    text = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def _content(record: logging.LogRecord) -> Mapping[str, Any]:
    fields = getattr(record, "fields", None)
    if fields is None:
        return {"event": "message", "logger": record.name, "message": record.getMessage()}
    given = {key: value for key, value in fields.items() if value is not None}
    return {"event": record.getMessage(), **given}


def _quoted(value: object) -> str:
    if isinstance(value, Mapping | list | tuple):
        value = json.dumps(value, ensure_ascii=False, default=str)
    text = str(value)
    return text if _BARE.fullmatch(text) else json.dumps(text, ensure_ascii=False)
