"""Finds the records of a batch that cannot be counted, so that all others can."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from traceback import extract_tb
from typing import Any, TypeVar

import msgspec
import numpy as np

from streameval.accumulator.formulas import MetricFailedError
from streameval.decoding.columns import Decoded
from streameval.decoding.framing import with_invalid
from streameval.decoding.invalid import InvalidEvent, invalid_of
from streameval.errors import InvalidEventError, MetricValueError, StreamevalError
from streameval.events.records import RecordBatch

T = TypeVar("T")


def is_bug(error: Exception) -> bool:
    """Whether an error while counting is a bug, here or in a user's metric, not a known limit."""
    if isinstance(error, MetricFailedError | MetricValueError):
        return True
    return not isinstance(error, (StreamevalError, MemoryError))


def described(error: BaseException) -> str:
    """The type and message of an error, and where it was raised.

    Example:
        >>> described(KeyError("x"))
        "KeyError: 'x'"
    """
    if isinstance(error, MetricFailedError) and error.__cause__ is not None:
        return f"{described(error.__cause__)}. {error.remedy}"
    text = " ".join(f"{type(error).__name__}: {error}".split())
    place = extract_tb(error.__traceback__)[-1:]
    return "".join([text, *(f", {Path(frame.filename).name}:{frame.lineno}" for frame in place)])


def decode_each(decode: Callable[[RecordBatch], Any], batch: RecordBatch) -> Any:
    """The decoded records of a batch; those on which `decode` raises are invalid.

    Raises:
        Exception: that of `decode`, if it succeeds for each record alone.
    """
    try:
        return decode(batch)
    except Exception as error:
        if not is_bug(error):
            raise
        places = range(len(batch.values))
        failures = _failures(lambda at: decode(batch.piece(at, at + 1, batch.next_offset)), places)
        if not failures:
            raise
    values = [None if at in failures else value for at, value in enumerate(batch.values)]
    return with_invalid(decode(msgspec.structs.replace(batch, values=values)), failures)


def count_each(decoded: Decoded, count: Callable[[Decoded], T]) -> tuple[Decoded, T]:
    """The events without those on which `count` raises, and the result of `count` for them.

    A metric refuses what only it knows to be wrong, such as a word instead of a chance.

    The others are invalid. `count` must change nothing if it raises.

    Raises:
        Exception: that of `count`, if it succeeds for each event alone.
    """
    try:
        return decoded, count(decoded)
    except Exception as error:
        if not (is_bug(error) or isinstance(error, InvalidEventError)):
            raise
        rows = range(len(decoded.places))
        failures = _failures(lambda row: count(decoded.take(np.array([row]))), rows)
        if not failures:
            raise
    countable = np.ones(len(decoded.places), dtype=np.bool_)
    countable[list(failures)] = False
    refused = {int(decoded.places[row]): event for row, event in failures.items()}
    remaining = with_invalid(decoded.keep(countable), refused)
    return remaining, count(remaining)


def _failures(attempt: Callable[[int], object], places: Iterable[int]) -> dict[int, InvalidEvent]:
    """The places for which `attempt` raises."""
    failures = {}
    for place in places:
        try:
            attempt(place)
        except InvalidEventError as error:
            failures[place] = invalid_of(error)
        except Exception as error:  # a bug may raise anything
            if not is_bug(error):
                raise
            failures[place] = InvalidEvent("uncountable", described(error))
    return failures
