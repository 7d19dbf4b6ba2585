"""Joins that are wrong; the comparison with the slow join must notice."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, Phase, given, settings

from streameval.engine.clock import NEVER
from streameval.engine.ingest import Ingest
from streameval.join import closed_lists, joiner, matching
from streameval.join.closed_lists import combine_interactions
from streameval.join.impression_buffer import ImpressionBuffer
from streameval.join.interaction_buffer import Deduplicator
from streameval.join.joiner import Joiner, late_masks
from streameval.join.logs import LogCursor, Logs
from tests.join.offline import Case, joined
from tests.join.streams import Run, cases
from tests.join.test_join import Step, played, steps
from tests.join.test_limits import (
    test_reading_alone_also_does_the_work_that_is_left_to_steps,
    test_the_size_is_what_max_bytes_allows_and_grows_with_what_waits,
)
from tests.join.test_slow_join import random_case
from tests.mutation.mistake import Broken, Mistake, around, replaced


def _evicting(kept: Any) -> Any:
    def push(self: LogCursor, batch: Any, content: Any) -> None:
        kept(self, batch, content)
        if self.waiting > 3:
            self._chunks.popleft()

    return push


def _without_waiting(self: Logs, _most: int) -> Any:
    self.has_more = False
    by_stream: dict[int, Any] = {}
    for cursor in self.cursors:
        taken = cursor.take(cursor.horizon, including=True)
        by_stream[cursor.stream] = [*by_stream.get(cursor.stream, []), *taken]
    return dict(sorted(by_stream.items()))


def _of_the_fastest(kept: Any) -> Any:
    def watermark(self: Logs, rules: Any) -> tuple[int, int]:
        mark, newest = kept(self, rules)
        return max(mark, newest - rules.lateness), newest

    return watermark


def _to_what_was_handed_over(kept: Any) -> Any:
    def saved(self: Logs) -> Any:
        pairs = zip(self.cursors, kept(self), strict=True)
        return [(name, cursor.expected, *rest) for cursor, (name, _, *rest) in pairs]

    return saved


_BROKEN: dict[str, Broken] = {
    "a list is counted before its window is over": replaced(
        Joiner, "_closing_time", lambda _, watermark: watermark
    ),
    "an earlier interaction is dropped": replaced(
        closed_lists,
        "combine_interactions",
        lambda gains_of, how: combine_interactions(gains_of[-1:], how),
    ),
    "what leads is evicted": around(LogCursor, "push", _evicting),
    "the others are not waited for": replaced(Logs, "take", _without_waiting),
    "lateness is not allowed": replaced(
        joiner, "late_masks", lambda slices, _, watermark: late_masks(slices, 0, watermark)
    ),
    "what waits is not found after a restart": replaced(Joiner, "_rebuild_indexes", lambda _: None),
    "the first touch gets it": lambda patch: patch.setattr(matching, "max", min, raising=False),
    "a repeated list counts": replaced(Joiner, "_is_duplicate", lambda *_: False),
    "the fastest log sets the watermark": around(Logs, "watermark", _of_the_fastest),
    "a restart goes on after what was only handed over": around(
        Logs, "state", _to_what_was_handed_over
    ),
}


@given(cases(), steps)
@settings(
    max_examples=400,
    deadline=None,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
    report_multiple_bugs=False,
    derandomize=True,
)
def compared(case: Case, schedule: list[Step]) -> None:
    assert not _differs(case, schedule)


def _differs(case: Case, schedule: list[Step]) -> bool:
    expected = joined(case)
    try:
        run = played(case, schedule)
        again = played(case, [])
        for partition, log in run.logs.items():
            run.read(partition, len(log))
        ended, other = run.joined(), again.joined()
    except Exception:  # noqa: BLE001  broken is broken
        return True
    return ended != expected or other != expected or run.content() != again.content()


def _as_old_as_the_newest(kept: Any) -> Any:
    def duplicates(self: Deduplicator, slices: Any, rows: Any) -> Any:
        repeated, newest = set(), NEVER
        for number, row in rows:
            newest = max(newest, int(slices[number].times[row]))
            self.forget(newest)
            repeated |= kept(self, slices, [(number, row)])
        return repeated

    return duplicates


def _all_at_the_end(self: Ingest, state: Any) -> None:
    while state.unfinished and not self._incremental:
        state.proceed()


def redelivered() -> None:
    for seed in range(6):
        case = random_case(seed, lists=60)
        assert Run(case).joined() == joined(case)


MISTAKES = (
    *(Mistake(what, compared, broken) for what, broken in _BROKEN.items()),
    Mistake(
        "event ids age by the newest time of any log",
        redelivered,
        around(Deduplicator, "duplicates", _as_old_as_the_newest),
    ),
    Mistake(
        "a step of work is left to whoever has time",
        test_reading_alone_also_does_the_work_that_is_left_to_steps,
        replaced(Ingest, "_proceed", _all_at_the_end),
    ),
    Mistake(
        "a bucket gives memory back when it fills",
        test_the_size_is_what_max_bytes_allows_and_grows_with_what_waits,
        around(ImpressionBuffer, "_bytes", lambda kept: staticmethod(lambda of: -kept(of))),
    ),
)
