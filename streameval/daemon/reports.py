"""What the log says of a stream that goes on for months: each thing once, or with a count."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from streameval.daemon.log import emit
from streameval.durability.news import News
from streameval.pipeline.dead_letters import DeadLetter

_IN_FULL = 3
_SECONDS = 10.0
_PATIENCE = 2.0


class InvalidRecords:
    """Tells of the first few invalid records of each reason, and of the others by their number.

    Args:
        clock: seconds that only grow; a summary comes every 10 of them, at most.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._told: Counter[str] = Counter()
        self._in_full: Counter[str] = Counter()
        self._next = clock()

    def observe(self, examples: Sequence[DeadLetter], counts: Mapping[str, int]) -> None:
        """What the pipeline has seen.

        Args:
            examples: some of the records since the last call.
            counts: how many there were in all, by reason.
        """
        for record in examples:
            if self._in_full[record.reason] < _IN_FULL:
                self._in_full[record.reason] += 1
                self._told[record.reason] += 1
                _tell(record)
        if self._clock() >= self._next:
            self.summarize(counts)

    def summarize(self, counts: Mapping[str, int]) -> None:
        """Give the number of those not told of yet, if there are any."""
        more = {reason: count - self._told[reason] for reason, count in counts.items()}
        more = {reason: count for reason, count in more.items() if count}
        if more:
            emit(logging.WARNING, "invalid_records", more=sum(more.values()), **more)
            self._told.update(more)
            self._next = self._clock() + _SECONDS


class SourceTrouble:
    """Tells when the source's trouble begins, when it becomes another one, and when it ends.

    Connecting takes a moment; only what lasts for two seconds is told.

    Args:
        clock: seconds that only grow.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._since: float | None = None
        self._told: str | None = None

    def observe(self, trouble: str | None) -> None:
        """What the source says at the moment."""
        if trouble is None:
            self._end()
            return
        self._since = self._clock() if self._since is None else self._since
        if trouble != self._told and self._clock() - self._since >= _PATIENCE:
            self._told = trouble
            emit(logging.WARNING, "source_trouble", trouble=trouble)

    def _end(self) -> None:
        if self._told is not None and self._since is not None:
            seconds = round(self._clock() - self._since, 1)
            emit(logging.INFO, "source_recovered", after_seconds=seconds)
        self._since = self._told = None


class Advice:
    """Passes on what looks wrong with the events: each sentence once, whatever its numbers."""

    def __init__(self) -> None:
        self._given: set[str] = set()

    def observe(self, advice: str | None) -> None:
        """What the pipeline advises at the moment."""
        kind = None if advice is None else re.sub(r"[\d,]+", "", advice)
        if kind is not None and kind not in self._given:
            self._given.add(kind)
            emit(logging.WARNING, "advice", advice=advice)


def tell_news(news: Sequence[News]) -> None:
    """Log what happened to state."""
    for each in news:
        emit(getattr(logging, each.level.upper()), each.event.replace(" ", "_"), **each.fields)


def _tell(record: DeadLetter) -> None:
    emit(
        logging.WARNING,
        "invalid_record",
        reason=record.reason,
        partition=str(record.partition),
        offset=record.offset,
        detail=record.message,
        preview=record.preview,
    )
