"""Number of examples and time limits of tests: small in `tests/run`, large in `tests/nightly`.

A test takes the profile as it is, or one of the two settings below: fewer examples where each is
expensive, more where a mistake is rare. Both are functions, since the profile is chosen later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from inspect import signature
from typing import Any, TypeVar, cast

import pytest
from hypothesis import HealthCheck, settings

Test = TypeVar("Test", bound=Callable[..., None])
Case = TypeVar("Case")

PATIENCE = 600.0
"""Seconds after which waiting counts as hanging; a guard that a machine of any load keeps."""

# No verdict by the clock: a busy machine draws slowly.
_CALM = settings(deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])

# The same examples in every run: a red test is red again.
settings.register_profile("quick", _CALM, max_examples=20, derandomize=True)
settings.register_profile("thorough", _CALM, max_examples=300, database=None)
settings.load_profile("quick")


def few_examples() -> settings:
    """A third of the examples, for a test that reads the whole catalogue or replays a whole log."""
    return settings(max_examples=settings().max_examples // 3)


def many_examples() -> settings:
    """Three times the examples, for a mistake that few examples would show."""
    return settings(max_examples=settings().max_examples * 3)


def sampled(found: Iterable[Case], step: int) -> list[Case]:
    """Parameters of a test: every so many-th in `tests/run`, all of them in `tests/nightly`."""
    return [*found][:: 1 if thorough() else step]


def every_case(names: str | tuple[str, ...], cases: Iterable[Any]) -> Callable[[Test], Test]:
    """As `pytest.mark.parametrize`, as one test: where it fails it names the case.

    For cases that cost little and leave nothing behind; they share the fixtures.
    """
    keys = (names,) if isinstance(names, str) else names
    tried = [(case,) if isinstance(names, str) else tuple(case) for case in cases]

    def all_of(test: Test) -> Test:
        @wraps(test)
        def every(**fixtures: Any) -> None:
            for case in tried:
                given = dict(zip(keys, case, strict=True))
                try:
                    test(**given, **fixtures)
                except (Exception, pytest.fail.Exception) as error:
                    error.add_note(f"The case: {given!r}")
                    raise

        found = signature(test)
        others = [each for name, each in found.parameters.items() if name not in keys]
        every.__signature__ = found.replace(parameters=others)  # type: ignore[attr-defined]  # what pytest reads
        return cast("Test", every)

    return all_of


def thorough() -> bool:
    """Whether this is a run of `tests/nightly`."""
    return settings.get_current_profile_name() == "thorough"
