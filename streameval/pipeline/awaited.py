"""Invalid records whose replay is awaited: each is accepted once."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from streameval.pipeline.invalid import InvalidEvent
from streameval.pipeline.ranges import Ranges
from streameval.pipeline.tally import Tally

MOST_RANGES: Final = 100_000
"""Ranges of invalid records whose replay is awaited; beyond it the oldest are forgotten."""


class Awaited:
    """The invalid records of one log that nothing has replaced yet."""

    def __init__(self, ranges: Ranges | None = None) -> None:
        self._ranges = Ranges() if ranges is None else ranges

    @classmethod
    def from_list(cls, listed: Sequence[Sequence[int]]) -> Awaited:
        """What `as_list` gave.

        Raises:
            ValueError: it is not that.
            TypeError: likewise.
        """
        return cls(Ranges.from_list(listed))

    def as_list(self) -> list[list[int]]:
        """Their offsets, as ascending ranges."""
        return self._ranges.as_list()

    def refused(
        self,
        offsets: Sequence[int],
        invalid: Sequence[tuple[int, InvalidEvent]],
        replaced: Mapping[int, int],
        valid: Collection[int],
        tally: Tally,
    ) -> set[int]:
        """Places of records that stand for an invalid one that is not awaited (any more).

        In the order of the log, so that it does not matter where one batch ends.

        Args:
            offsets: of the records of a batch.
            invalid: the places of those that are invalid, and why.
            replaced: place -> offset of the invalid record that the one there stands for.
            valid: places of the events.
            tally: where replayed and forgotten ones are counted.
        """
        wrong = {place for place, _ in invalid}
        refused = set()
        for place in sorted(wrong | replaced.keys()):
            old = replaced.get(place)
            if old is None:
                self._ranges.add(offsets[place])
                tally.forgotten += self._ranges.forget(MOST_RANGES)
            # One that is invalid again changes nothing: the first is awaited as before.
            elif place not in wrong and not self._ranges.discard(old):
                refused.add(place)
        tally.replayed = len((replaced.keys() - refused).intersection(valid))
        return refused
