"""The pace of snapshots and checkpoints."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streameval.engine.pace import Pace


def test_a_cheap_step_is_due_again_after_the_shortest_interval() -> None:
    pace = Pace(1.0)
    assert pace.interval == 1.0
    pace.note(0.01)
    assert pace.interval == 1.0


@given(st.floats(min_value=0, max_value=100))
def test_expensive_steps_take_at_most_a_twentieth_of_the_time(
    cost: float,
) -> None:
    pace = Pace(1.0)
    pace.note(cost)
    pace.note(cost)
    assert pace.interval >= 1
    assert cost <= pace.interval / 20 * (1 + 1e-9)


def test_a_single_slow_step_does_not_delay_the_next() -> None:
    pace = Pace(1.0)
    for cost in (4.0, 0.0, 4.0):
        pace.note(cost)
        assert pace.interval == 1.0
