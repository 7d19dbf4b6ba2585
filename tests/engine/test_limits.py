from __future__ import annotations

from collections.abc import Sequence
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from streameval.engine import dead_letters as module
from streameval.engine.dead_letters import WINDOW, LimitExceeded, Limits
from streameval.errors import TooManyInvalidError
from tests.present import present


def _observed(limits: Limits, invalid: Sequence[bool]) -> LimitExceeded | None:
    return limits.observe(len(invalid), [place for place, bad in enumerate(invalid) if bad])


def _slow(invalid: Sequence[bool], max_ratio: float, max_run: int) -> LimitExceeded | None:
    """The exceeded limit by definition, record by record."""
    for seen in range(1, len(invalid) + 1):
        run = 0
        while run < seen and invalid[seen - 1 - run]:
            run += 1
        if run > max_run:
            return LimitExceeded(invalid=run, of=run, limit=f"{max_run:,} in a row (max_run)")
        last = invalid[max(seen - module.WINDOW, 0) : seen]
        if seen >= module.FEWEST and sum(last) > max_ratio * len(last):
            limit = f"{100 * max_ratio:g} % (max_ratio)"
            return LimitExceeded(invalid=sum(last), of=len(last), limit=limit)
    return None


@given(
    st.lists(st.lists(st.booleans(), max_size=12), max_size=8),
    st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]),
    st.integers(1, 7),
)
def test_limits_match_their_definition_for_any_batches(
    batches: list[list[bool]], max_ratio: float, max_run: int
) -> None:
    with patch.multiple(module, WINDOW=10, FEWEST=4):
        limits = Limits(max_ratio, max_run)
        found = None
        for batch in batches:
            found = _observed(limits, batch)
        flat = [bad for batch in batches for bad in batch]
        assert found == _slow(flat, max_ratio, max_run)


def test_a_limit_that_is_reached_is_not_exceeded() -> None:
    limits = Limits(max_ratio=0.05, max_run=1_000)
    assert _observed(limits, ([False] * 19 + [True]) * 2_000) is None
    assert Limits(1, 1_000).observe(1_000, range(1_000)) is None
    assert Limits(1, 1_000).observe(1_001, range(1_001)) is not None


def test_one_more_than_five_percent_exceeds_the_limit() -> None:
    limits = Limits(0.05, 1_000)
    good = [False] * (WINDOW - 501)
    assert _observed(limits, [False] * WINDOW) is None
    assert _observed(limits, good + [True] * 500) is None
    assert _observed(limits, [True]) == LimitExceeded(
        invalid=501, of=WINDOW, limit="5 % (max_ratio)"
    )


def test_the_first_exceeded_limit_is_reported_ever_after() -> None:
    limits = Limits(max_ratio=1, max_run=2)
    first = present(limits.observe(3, range(3)))
    assert limits.observe(100_000, []) == limits.observe(5_000, range(5_000)) == first


def test_its_error_says_how_many_which_limit_and_an_example() -> None:
    found = present(Limits(0.05, 1_000).observe(1_200, range(1_100)))
    error = TooManyInvalidError(*found, "events[3] offset 14: not_json: found nothing")
    assert (error.invalid, error.of, error.limit) == (found.invalid, found.of, found.limit)
    assert str(error).startswith("1,000 of the last 1,000 records are invalid, more than 5 % ")
    assert "events[3] offset 14: not_json: found nothing" in str(error)
