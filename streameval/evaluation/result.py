"""Where the doubts and the progress of an evaluation go, and its errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import NamedTuple, TypeAlias

from streameval.evaluation.options import Note
from streameval.events.errors import StreamevalError, UsageError


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
