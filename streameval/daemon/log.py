"""Structured logs: one line of key=value pairs per event, on standard error."""

from __future__ import annotations

import json
import logging
import re
import sys
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, TextIO

from streameval.events.previews import are_hidden, describe_traceback
from streameval.events.printable import printable_json, without_user

_LOG: Final = logging.getLogger("streameval")
_BARE: Final = re.compile(r"[^\s\"=\\]+")


def emit(level: int, event: str, **fields: Any) -> None:
    """Log an event with its fields.

    `event`: a stable name to search for, such as "invalid_records". `fields`: written in the given
    order; None is left out.
    """
    _LOG.log(level, "%s", event, extra={"fields": fields})


class Onsets:
    """Logs a warning about each thing that is there and was not there when it looked last.

    `event`: see `emit`. `once`: whether what was there before is never logged again; then several
    threads may observe.
    """

    def __init__(self, event: str, *, once: bool = False) -> None:
        self._event, self._once = event, once
        self._before = set[Any]()

    def observe(self, things: Mapping[Any, Mapping[str, Any]]) -> None:
        """Log the fields of the things that are new."""
        for thing in things:
            if thing not in self._before:
                emit(logging.WARNING, self._event, **things[thing])
        if not self._once:
            self._before.clear()
        self._before.update(things)


class Logfmt(logging.Formatter):
    """Formats lines as `ts=... level=... event=...` followed by the fields of the event.

    Lines of other libraries have event=message, logger and message.

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
            pairs["error"] = describe_traceback(record.exc_info[1])
        return " ".join(f"{key}={_quote(value)}" for key, value in pairs.items())


def configure(level: int = logging.INFO, stream: TextIO | None = None) -> None:
    """Send every log of this process, including Python's warnings, to one stream.

    The web server's messages about starting and stopping are dropped, as the daemon logs its own,
    and the HTTP client's line for each request.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(Logfmt())
    if are_hidden():
        sys.excepthook = _log_uncaught
        threading.excepthook = lambda raised: _log_uncaught(None, raised.exc_value, None)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for name in ("uvicorn", "httpx", "httpx2", "httpcore", "httpcore2"):
        logging.getLogger(name).setLevel(max(level, logging.WARNING))
    logging.captureWarnings(capture=True)


def _log_uncaught(_kind: object, error: BaseException | None, _traceback: object) -> None:
    """Write what Python would write of an error that nobody caught, without its message."""
    sys.stderr.write(f"{describe_traceback(error)}\n")


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
        return {
            "event": "message",
            "logger": record.name,
            "message": without_user(record.getMessage()),
        }
    present = {key: value for key, value in fields.items() if value is not None}
    return {"event": record.getMessage(), **present}


def _quote(value: object) -> str:
    if isinstance(value, Mapping | list | tuple):
        value = json.dumps(value, ensure_ascii=False, default=str)
    text = str(value)
    is_bare = text.isprintable() and _BARE.fullmatch(text)
    return text if is_bare else printable_json(json.dumps(text, ensure_ascii=False))
