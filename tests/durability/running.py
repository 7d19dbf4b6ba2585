"""How many schedules are run, and how."""

from __future__ import annotations

import random

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.durability.machine import Machine

STEPS = 30


def run(examples: int, number: int | None = None) -> None:
    """Run so many schedules: the same ones every time, or those of a seed.

    Raises:
        AssertionError: one breaks what must be true; Hypothesis prints its shortest form.
    """
    chosen = settings(
        max_examples=examples,
        stateful_step_count=STEPS,
        derandomize=number is None,
        database=None,
        deadline=None,
        phases=[Phase.generate] if number is None else [Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    machine = Machine if number is None else seed(number)(Machine)
    run_state_machine_as_test(machine, settings=chosen)


def drawn() -> int:
    """A seed that nobody has named."""
    return random.SystemRandom().randrange(1 << 32)
