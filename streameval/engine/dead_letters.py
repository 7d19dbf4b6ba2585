"""Invalid records: those that cannot be counted, dead letters, and limits that stop the daemon."""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Callable, Sequence
from pathlib import Path
from traceback import extract_tb
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeAlias, TypeVar, cast, get_args

import msgspec
import numpy as np

from streameval.decoding.columns import Decoded
from streameval.decoding.framing import with_invalid
from streameval.decoding.invalid import (
    REASONS,
    InvalidEvent,
    Reason,
    Unreadable,
    invalid_of,
    redact_invalid,
)
from streameval.events.errors import (
    InvalidEventError,
    OwnMetricError,
    OwnStatisticError,
    RefusedRecordsError,
    StreamevalError,
)
from streameval.events.previews import describe_error, preview, redact_detail
from streameval.events.records import Partition, RecordBatch

T = TypeVar("T")

ORIGINAL: Final = "streameval.original"
"""Header of a replayed record: the identity of the original."""

MESSAGE_BYTES: Final = 1_000
"""Most bytes of UTF-8 of a dead letter's message."""

EXAMPLES: Final = 3
"""Examples of each reason in the log of a process."""

_IDENTITY: Final = re.compile(r"(?s:(.+))/([0-9]{1,19})/([0-9]{1,19})")

Stage: TypeAlias = Literal["decode", "validate", "process"]
"""The step that failed: decoding the bytes, validating their content, or counting the event."""

_OF_DECODING: Final = frozenset(get_args(Unreadable))


class Identity(NamedTuple):
    """The identity of a record: topic, partition and offset.

    >>> str(Identity(Partition("events", 3), 14))
    'events/3/14'
    >>> Identity.of("events/3/14").partition
    Partition(topic='events', number=3)
    """

    partition: Partition
    offset: int

    def __str__(self) -> str:
        return f"{self.partition.topic}/{self.partition.number}/{self.offset}"

    @classmethod
    def of(cls, text: str) -> Identity:
        """Parse an identity.

        Raises:
            ValueError: the text is not TOPIC/PARTITION/OFFSET.
        """
        match = _IDENTITY.fullmatch(text)
        if match is None:
            raise ValueError(f"found {text!r}; write TOPIC/PARTITION/OFFSET")
        topic, number, offset = match.groups()
        return cls(Partition(topic, int(number)), int(offset))


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """An invalid record as it was written, and the reason.

    Attributes:
        timestamp_ms: of the record in its log, milliseconds since the epoch; None if unknown.
        message: the field and what was found there; at most `MESSAGE_BYTES` bytes of UTF-8.
        size: bytes of the record's value, if the dead letter is truncated; 0 if it has no content
            and the size is unknown; None if it is complete.
    """

    partition: Partition
    offset: int
    timestamp_ms: int | None
    key: bytes | None
    headers: tuple[tuple[str, bytes], ...]
    value: bytes
    stage: Stage
    reason: str
    message: str
    size: int | None = None

    @property
    def identity(self) -> Identity:
        """The identity of the record."""
        return Identity(self.partition, self.offset)

    @property
    def original(self) -> Identity:
        """The identity of the record that a replay copied; of this one if it is not a replay."""
        for name, value in self.headers:
            if name == ORIGINAL:
                try:
                    return Identity.of(value.decode())
                except ValueError:
                    return self.identity
        return self.identity

    @property
    def preview(self) -> str:
        r"""The beginning of its value as printable text, or its size where previews are hidden.

        Example:
            >>> dead = DeadLetter(partition=Partition("events", 3), offset=14, timestamp_ms=None,
            ...     key=None, headers=(), value=b'{"a":\x1b\xff', stage="decode",
            ...     reason="not_utf8", message="byte 6")
            >>> print(dead.preview)
            {"a":\x1b\xff
            >>> print(dead)
            events[3] offset 14: not_utf8: byte 6
        """
        return preview(self.value)

    @property
    def why(self) -> str:
        """Its message for people; without the quoted value if previews are hidden."""
        explained = REASONS.get(cast("Reason", self.reason), self.reason)
        return redact_detail(self.message, explained)

    def __str__(self) -> str:
        return f"{self.partition} offset {self.offset}: {self.reason}: {self.message}"


class DeadLetters(Protocol):
    """Takes dead letters, and delivers each at least once. Thread-safe."""

    @property
    def full(self) -> bool:
        """True if so many dead letters wait that no more records should be read."""
        ...

    @property
    def durable_count(self) -> int:
        """Number of dead letters that are durable, since the start of the process."""
        ...

    def send(self, dead_letters: Sequence[DeadLetter]) -> None:
        """Send dead letters; they are durable only after `flush`."""

    def flush(self) -> None:
        """Wait until all dead letters sent so far are durable.

        Raises:
            DeadLetterError: some are not; the next flush sends them again.
        """

    def close(self) -> None:
        """Close the destination without a flush; may be called twice."""


class Examples:
    """The first few invalid records of each reason."""

    def __init__(self) -> None:
        self._untaken: list[DeadLetter] = []
        self._seen: Counter[str] = Counter()

    def add(self, batch: RecordBatch, invalid: Sequence[tuple[int, InvalidEvent]]) -> None:
        """Collect invalid records of a batch, up to `EXAMPLES` of each reason."""
        for row, event in invalid:
            if self._seen[event.reason] < EXAMPLES:
                self._seen[event.reason] += 1
                self._untaken += dead_letters_in(batch, [(row, event)])

    def take(self) -> list[DeadLetter]:
        """The examples since the last call, oldest first."""
        examples, self._untaken = self._untaken, []
        return examples


def dead_letters_in(
    batch: RecordBatch, invalid: Sequence[tuple[int, InvalidEvent]]
) -> list[DeadLetter]:
    """A dead letter for each invalid record of a batch; `invalid`: rows and reasons."""
    dead_letters = []
    for row, event in invalid:
        stage: Stage = "decode" if event.reason in _OF_DECODING else "validate"
        headers = () if batch.headers is None else batch.headers(row)
        # Lone surrogates are escaped.
        message = redact_invalid(event).encode("utf-8", "backslashreplace")[:MESSAGE_BYTES]
        dead_letters.append(
            DeadLetter(
                partition=batch.partition,
                offset=batch.offsets[row],
                timestamp_ms=batch.timestamps[row] if batch.timestamps else None,
                key=batch.keys[row] if batch.keys else None,
                # Kafka allows headers without a value; the client cannot write them.
                headers=tuple((name, value or b"") for name, value in headers),
                value=batch.values[row] or b"",
                stage="process" if event.reason == "uncountable" else stage,
                reason=event.reason,
                message=message.decode("utf-8", "ignore"),
                size=0 if batch.values[row] is None else None,
            )
        )
    return dead_letters


def without_content(record: Identity) -> RecordBatch:
    """A batch with a record whose bytes are not in memory; its log has them."""
    return RecordBatch(
        partition=record.partition,
        values=[None],
        offsets=[record.offset],
        next_offset=record.offset + 1,
    )


WINDOW: Final = 10_000
"""Number of latest records over which the share of invalid ones is taken."""

FEWEST_IN_WINDOW: Final = 1_000
"""Number of records below which the share is not checked."""


class LimitExceeded(NamedTuple):
    """The limit that was exceeded.

    Attributes:
        of: number of latest records among which they are.
    """

    invalid: int
    of: int
    limit: str


def too_many_invalid(exceeded: LimitExceeded, example: str) -> RefusedRecordsError:
    """The error that stops consuming; `example`: the last invalid record."""
    invalid, of, limit = exceeded
    problem = (
        f"{invalid:,} of the last {of:,} records are invalid, more than {limit}: consuming "
        f"has stopped; no record was skipped. The last one: {example}. Check that [event] "
        "describes what producers write, or raise the limit under [dead_letters]."
    )
    return RefusedRecordsError(problem, limit=limit, found=invalid)


class Limits:
    """Checks all records of a process in reading order; independent of batches.

    `max_ratio`: highest share of invalid records of the last `WINDOW`, from `FEWEST_IN_WINDOW` on.
    `max_run`: most consecutive invalid records.

    >>> limits = Limits(max_ratio=1, max_run=2)
    >>> limits.observe(4, [0, 1, 3])
    >>> limits.observe(2, [0, 1]).limit
    '2 in a row (max_run)'
    """

    def __init__(self, max_ratio: float, max_run: int) -> None:
        self._max_ratio = max_ratio
        self._max_run = max_run
        self._seen = 0
        self._run = 0
        self._last = -1
        self._invalid: deque[int] = deque()
        self._exceeded: LimitExceeded | None = None

    def observe(self, records: int, rows: Sequence[int]) -> LimitExceeded | None:
        """Check the next records.

        `rows`: of the invalid ones among them, from 0 and ascending.

        Returns:
            The first limit that was exceeded so far, or None.
        """
        begin, self._seen = self._seen, self._seen + records
        for number in (begin + row for row in rows):
            self._check_first(number)
            self._run = self._run + 1 if number == self._last + 1 else 1
            self._last = number
            self._invalid.append(number)
            if self._run > self._max_run:
                self._find(self._run, self._run, f"{self._max_run:,} in a row (max_run)")
            self._check_ratio(number + 1)
        self._check_first(self._seen)
        return self._exceeded

    def _check_first(self, seen: int) -> None:
        """Check the first `FEWEST_IN_WINDOW` records, even if no later one is invalid."""
        if seen >= FEWEST_IN_WINDOW and (not self._invalid or self._last < FEWEST_IN_WINDOW):
            self._check_ratio(FEWEST_IN_WINDOW)

    def _check_ratio(self, seen: int) -> None:
        while self._invalid and self._invalid[0] < seen - WINDOW:
            self._invalid.popleft()
        invalid, of = len(self._invalid), min(seen, WINDOW)
        if of >= FEWEST_IN_WINDOW and invalid > self._max_ratio * of:
            self._find(invalid, of, f"{100 * self._max_ratio:g} % (max_ratio)")

    def _find(self, invalid: int, of: int, limit: str) -> None:
        if self._exceeded is None:
            self._exceeded = LimitExceeded(invalid=invalid, of=of, limit=limit)


def is_bug(error: Exception) -> bool:
    """True if an error while counting is a bug, and not a known limit.

    Bugs in metrics and statistics of the user's are among them.
    """
    if isinstance(error, (OwnMetricError, OwnStatisticError)):
        return True
    return not isinstance(error, (StreamevalError, MemoryError))


def describe_with_line(error: BaseException) -> str:
    """The type and message of an error, and where it was raised.

    Example:
        >>> describe_with_line(KeyError("x"))
        "KeyError: 'x'"
    """
    if isinstance(error, (OwnMetricError, OwnStatisticError)) and error.__cause__ is not None:
        return f"{describe_with_line(error.__cause__)}. {error.remedy}"
    last = extract_tb(error.__traceback__)[-1:]
    return "".join(
        [
            describe_error(error),
            *(f", {Path(frame.filename).name}:{frame.lineno}" for frame in last),
        ]
    )


def decode_valid(decode: Callable[[RecordBatch], Any], batch: RecordBatch) -> Any:
    """The decoded records of a batch; those on which `decode` raises are invalid.

    Raises:
        Exception: that of `decode`, if it succeeds for each record alone.
    """

    def alone(row: int) -> object:
        return decode(batch.piece(row, row + 1, batch.next_offset))

    decoded, failures = _without_failures(lambda: decode(batch), alone, len(batch.values))
    if not failures:
        return decoded
    values = [None if row in failures else value for row, value in enumerate(batch.values)]
    return with_invalid(decode(msgspec.structs.replace(batch, values=values)), failures)


def count_valid(decoded: Decoded, count: Callable[[Decoded], T]) -> tuple[Decoded, T]:
    """The events without those on which `count` raises, and the result of `count` for them.

    The other events are invalid: a metric may refuse a value, such as a word instead of a
    probability. `count` must change nothing if it raises.

    Raises:
        Exception: that of `count`, if it succeeds for each event alone.
    """

    def alone(row: int) -> object:
        return count(decoded.take(np.array([row])))

    counted, failures = _without_failures(lambda: count(decoded), alone, len(decoded.indices))
    if not failures:
        return decoded, counted
    rest = decoded.take(np.delete(np.arange(len(decoded.indices)), [*failures]))
    refused = {int(decoded.indices[row]): event for row, event in failures.items()}
    remaining = with_invalid(rest, refused)
    return remaining, count(remaining)


def _without_failures(
    together: Callable[[], Any], alone: Callable[[int], object], size: int
) -> tuple[Any, dict[int, InvalidEvent]]:
    """The result of `together` and no failures; or None, and the rows on which `alone` raises."""
    try:
        return together(), {}
    except Exception as error:
        if not (is_bug(error) or isinstance(error, InvalidEventError)):
            raise
        failures = {}
        for row in range(size):
            try:
                alone(row)
            except InvalidEventError as refusal:
                failures[row] = invalid_of(refusal)
            except Exception as bug:  # a bug may raise anything
                if not is_bug(bug):
                    raise
                failures[row] = InvalidEvent("uncountable", describe_with_line(bug))
        if not failures:
            raise
        return None, failures
