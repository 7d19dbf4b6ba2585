"""Clocks that one sender or one partition can move; the tests of jumps must notice."""

from __future__ import annotations

from streameval.engine import clock
from streameval.engine.capture import ReadingClock
from streameval.engine.clock import Ticks
from tests.engine import test_clock_jumps as jumps
from tests.mutation.mistake import Broken, Mistake, replaced

_BROKEN: dict[str, Broken] = {
    "every record votes": replaced(clock, "_identity", lambda _, place: -1 - place),
    "half of the votes are a majority": replaced(
        clock._Ballot, "median", property(lambda self: self.votes[-1])
    ),
    "two records are a whole run": replaced(clock, "longest_run", lambda _: 2),
    "a record is from the future before others have voted": replaced(
        Ticks, "verdict", lambda self, number: min(number - self.first, len(self.clocks) - 1)
    ),
    "no clock is held": replaced(ReadingClock, "read", lambda _, counts, now: counts.clock or now),
}


def _law() -> None:
    jumps.good_alone.cache_clear()
    try:
        for place in ("before", "amid"):
            jumps.test_records_of_one_key_far_ahead_change_no_window_and_no_late_count(1, 25, place)
        jumps.test_records_of_eleven_keys_change_no_window_of_the_other_partitions("amid")
        jumps.test_a_single_key_has_a_clock_in_the_end(300)
        jumps.test_the_last_records_of_a_wrong_clock_count_as_from_the_future_once_others_follow()
        jumps.test_after_a_quiet_night_an_early_user_is_not_from_the_future()
    finally:
        jumps.good_alone.cache_clear()


MISTAKES = tuple(Mistake(what, _law, broken) for what, broken in _BROKEN.items())
