"""When a snapshot is due."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streameval.daemon.loop import Pace
from tests.daemon.hands import Hands


def test_the_first_is_due_at_once() -> None:
    assert Pace(Hands().read).remaining == 0


def test_a_cheap_one_is_due_again_after_a_second() -> None:
    hands = Hands()
    pace = Pace(hands.read)
    with pace.turn():
        pass
    assert pace.remaining == 1
    hands.turn(0.75)
    assert pace.remaining == 0.25


@given(st.floats(min_value=0, max_value=100))
def test_of_what_goes_on_costing_never_more_than_a_twentieth_of_the_time_is_spent(
    cost: float,
) -> None:
    hands = Hands()
    pace = Pace(hands.read)
    with pace.turn():
        hands.turn(cost)
    start = hands.now
    with pace.turn():
        hands.turn(cost)
    between = hands.now + pace.remaining - start
    assert between >= 1
    assert (hands.now - start) <= between / 20 * (1 + 1e-9)


def test_a_single_slow_one_makes_the_next_one_wait_no_longer() -> None:
    hands = Hands()
    pace = Pace(hands.read)
    for cost in (4.0, 0.0, 4.0):
        with pace.turn():
            hands.turn(cost)
        assert pace.remaining <= 1.0
