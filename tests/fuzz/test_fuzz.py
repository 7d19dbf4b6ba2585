"""Made-up input breaks nothing: a few examples in `tests/run`, ten minutes each in nightly."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from tests.fuzz import checkpoints, kernels, records, requests


class Target(NamedTuple):
    """What is tried.

    Attributes:
        inputs: what it is given.
        opened: gives what takes them; raises where one breaks it.
    """

    inputs: st.SearchStrategy[Any]
    opened: Callable[[], AbstractContextManager[Callable[[Any], None]]]


TARGETS: Mapping[str, Target] = MappingProxyType(
    {
        "decoder": Target(records.events(), records.decoder),
        "scanner": Target(records.scanned(), records.scanner),
        "schemas": Target(records.cases(), records.schemas),
        "join": Target(records.streams(), records.join),
        "checkpoints": Target(checkpoints.changes(), checkpoints.checkpoints),
        "kernel": Target(kernels.cases(), kernels.kernel),
        "server": Target(requests.requests(), requests.server),
    }
)


def fuzz(name: str, first: int, seconds: float, examples: int) -> int:
    """Rounds of examples, one at least, until the time is up; returns how many rounds.

    `first`: seed of the first round; the next one has the next.
    """
    target, rounds = TARGETS[name], 0
    until = time.monotonic() + seconds
    with target.opened() as check:

        @settings(
            max_examples=examples,
            derandomize=False,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(target.inputs)
        def checked(drawn: Any) -> None:
            check(drawn)

        while not rounds or time.monotonic() < until:
            seed(first + rounds)(checked)()
            rounds += 1
    return rounds


@pytest.mark.parametrize("target", TARGETS)
def test_made_up_input_breaks_nothing(target: str) -> None:
    assert fuzz(target, 0, 0.0, 8) == 1


@pytest.mark.nightly
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize(
    "target",
    [pytest.param(name, marks=pytest.mark.xdist_group(f"fuzz {name}")) for name in TARGETS],
)
def test_ten_minutes_of_made_up_input_break_nothing(target: str) -> None:
    assert fuzz(target, int(time.time()), 600.0, 200)
