"""A mistake that is made on purpose, and what must notice it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

Broken = Callable[[pytest.MonkeyPatch], None]


class Mistake(NamedTuple):
    """what: in words; law: that must notice; broken: makes it."""

    what: str
    law: Callable[[], object]
    broken: Broken


def replaced(target: object, name: str, new: Any) -> Broken:
    """Something else in the place of a function."""
    return lambda patch: patch.setattr(target, name, new)


def around(target: object, name: str, make: Callable[[Any], Any]) -> Broken:
    """In the place of a function what is made of it."""
    return lambda patch: patch.setattr(target, name, make(getattr(target, name)))


def with_its_cases(test: Callable[..., None]) -> Callable[[], None]:
    """A test of `every_case`, which brings its cases along."""
    return test
