"""Number of examples and time limits of tests: small in `tests/run`, large in `tests/nightly`.

A test takes the profile as it is, or one of the two settings below: fewer examples where each is
expensive, more where a mistake is rare. Both are functions, since the profile is chosen later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from hypothesis import HealthCheck, Phase, settings

Test = TypeVar("Test", bound=Callable[..., None])
Case = TypeVar("Case")

PATIENCE = 60.0
"""Seconds after which waiting counts as hanging; a guard that a machine of any load keeps."""

# No verdict by the clock: a busy machine draws slowly.
_CALM = settings(deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])

# The same examples in every run: a red test is red again.
settings.register_profile("quick", _CALM, max_examples=10, derandomize=True)
settings.register_profile("thorough", _CALM, max_examples=300, database=None)
# For what must fail: the first failure is enough.
settings.register_profile(
    "unshrunk", settings.get_profile("quick"), phases=(Phase.explicit, Phase.generate)
)
settings.load_profile("quick")


def few_examples() -> settings:
    """A third of the examples, for a test that reads the whole catalogue or replays a whole log."""
    return settings(max_examples=settings().max_examples // 3)


def many_examples() -> settings:
    """Three times the examples, for a mistake that few examples would show."""
    return settings(max_examples=settings().max_examples * 3)


def sampled(cases: Iterable[Case], step: int) -> list[Case]:
    """Parameters of a test: every so many-th in `tests/run`, all of them in `tests/nightly`."""
    return [*cases][:: 1 if thorough() else step]


def thorough() -> bool:
    """Whether this is a run of `tests/nightly`."""
    return settings.get_current_profile_name() == "thorough"
