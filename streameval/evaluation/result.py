"""What an evaluation counted: readings by slice and span, and where its doubts go."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import NamedTuple, Protocol, TypeAlias

from streameval.accumulator import Accumulator
from streameval.catalogue.reading import Reading
from streameval.evaluation.options import Note
from streameval.evaluation.values import EventChunk
from streameval.events.errors import StreamevalError, UsageError
from streameval.events.ids import IdKind


class NoEventsError(StreamevalError):
    """There is no valid event, so there is no value."""


Progress: TypeAlias = Callable[[int | None], AbstractContextManager[Callable[[int, int], None]]]
"""Begins with the number of bytes, None if unknown; then takes bytes read and events counted."""


class Surroundings(NamedTuple):
    """What the engine tells while it counts.

    Attributes:
        note: takes each doubt, a sentence or several lines.
        progress: shows how far it is.
    """

    note: Callable[[Note | str], None]
    progress: Progress

    def about(self, name: str) -> Surroundings:
        """The surroundings with a name before each doubt."""

        def named(doubt: Note | str) -> None:
            parts = doubt.parts if isinstance(doubt, Note) else (doubt,)
            self.note(Note(f"{name}: ", *parts))

        return self._replace(note=named)


@contextmanager
def as_usage_error(*kinds: type[StreamevalError]) -> Iterator[None]:
    """Turn these errors, such as a missing file, into usage errors."""
    try:
        yield
    except kinds as error:
        raise UsageError(str(error)) from error


class EvaluationRow(NamedTuple):
    """The reading of one metric in one slice and span.

    Attributes:
        start: start of the span, microseconds since the epoch; None for all time.
        labels: label -> value of the slice.
        window: window that ends at the newest event; "lifetime" for all.
        reading: value and evidence.
        users: number of users; None if unknown.
    """

    start: int | None
    labels: Mapping[str, str]
    window: str
    reading: Reading
    users: float | None


class EvaluationCounts(Protocol):
    """Counts from which an evaluation is read.

    Attributes:
        names: of the files and frames.
        labels: by which the events are split.
        is_doubtful: whether most records with interactions are invalid.
        ids: kind of the ids; None if there are none.
    """

    @property
    def ids(self) -> IdKind | None: ...  # noqa: D102  above

    @property
    def names(self) -> Sequence[str]: ...  # noqa: D102  above

    @property
    def labels(self) -> Sequence[str]: ...  # noqa: D102  above

    @property
    def is_doubtful(self) -> bool: ...  # noqa: D102  above

    def rows(self) -> Sequence[EvaluationRow]:
        """The readings, by start, metric and labels."""

    def accumulator(self, labels: Sequence[str]) -> Accumulator | None:
        """The counts of a slice; None if there is no such slice, or spans split it."""

    def empty(self) -> Accumulator:
        """An accumulator of the metrics without intervals."""

    def chunks(self) -> Iterator[EventChunk]:
        """The events again, each with its labels and span."""
