"""Joins that are wrong; the comparison with the slow join must notice."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from streameval.join import closing, joiner
from streameval.join.closing import combined
from streameval.join.joiner import Joiner, late_in
from streameval.join.logs import LogCursor, Logs, RecordSlice
from tests.join.offline import Case, joined
from tests.join.streams import cases, told
from tests.join.test_join import Step, played, steps
from tests.mutation.mistake import Broken, Mistake


def _counts_early(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Joiner, "_closed", lambda _, watermark: watermark)


def _drops_the_earlier_interaction(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(closing, "combined", lambda found, how: combined(found[-1:], how))


def _evicts_instead_of_pausing(patch: pytest.MonkeyPatch) -> None:
    kept = LogCursor.push

    def push(self: LogCursor, batch: Any, content: Any) -> None:
        kept(self, batch, content)
        if self.waiting > 3:
            self._chunks.popleft()

    patch.setattr(LogCursor, "push", push)


def _does_not_wait_for_the_others(patch: pytest.MonkeyPatch) -> None:
    def take(self: Logs, _most: int) -> dict[int, list[RecordSlice]]:
        found: dict[int, list[RecordSlice]] = {}
        for cursor in self.cursors:
            own = cursor.take(cursor.horizon, including=True)
            found.setdefault(cursor.stream, []).extend(own)
        return dict(sorted(found.items()))

    patch.setattr(Logs, "take", take)


def _judges_lateness_by_the_join(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(joiner, "late_in", lambda slices, _, watermark: late_in(slices, 0, watermark))


def _forgets_what_waits(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Joiner, "_index", lambda _: None)


def _takes_the_first_touch(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("streameval.join.finding.max", min, raising=False)


def _counts_repeats(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Joiner, "_again", lambda *_: False)


def _watermark_of_the_fastest(patch: pytest.MonkeyPatch) -> None:
    kept = Logs.watermark

    def watermark(self: Logs, rules: Any) -> tuple[int, int]:
        found, newest = kept(self, rules)
        return max(found, newest - rules.lateness), newest

    patch.setattr(Logs, "watermark", watermark)


def _restores_to_what_was_handed_over(patch: pytest.MonkeyPatch) -> None:
    kept = Logs.state

    def saved(self: Logs) -> Any:
        pairs = zip(self.cursors, kept(self), strict=True)
        return [(name, cursor.expected, *rest) for cursor, (name, _, *rest) in pairs]

    patch.setattr(Logs, "state", saved)


_BROKEN: dict[str, Broken] = {
    "a list is counted before its window is over": _counts_early,
    "an earlier interaction is dropped": _drops_the_earlier_interaction,
    "what leads is evicted": _evicts_instead_of_pausing,
    "the others are not waited for": _does_not_wait_for_the_others,
    "lateness is not allowed": _judges_lateness_by_the_join,
    "what waits is not found after a restart": _forgets_what_waits,
    "the first touch gets it": _takes_the_first_touch,
    "a repeated list counts": _counts_repeats,
    "the fastest log sets the watermark": _watermark_of_the_fastest,
    "a restart goes on after what was only handed over": _restores_to_what_was_handed_over,
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
    expected = told(joined(case))
    try:
        found = played(case, schedule)
        again = played(case, [])
        for partition, log in found.logs.items():
            found.feed(partition, len(log))
        ended, other = found.end(), again.end()
    except Exception:  # noqa: BLE001  broken is broken
        return True
    return ended != expected or other != expected or found.content() != again.content()


MISTAKES = tuple(Mistake(what, compared, broken) for what, broken in _BROKEN.items())
