"""A mistake that is made on purpose, and what must notice it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain, product
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
    """A parametrized test, called with each of its cases."""

    def call_with_each() -> None:
        for arguments in product(*map(_cases, test.pytestmark)):  # type: ignore[attr-defined]  # set by pytest
            test(**dict(chain.from_iterable(arguments)))

    return call_with_each


def _cases(mark: pytest.Mark) -> list[list[tuple[str, Any]]]:
    names, values = mark.args
    if isinstance(names, str):
        return [[(names, value)] for value in values]
    return [[*zip(names, row, strict=True)] for row in values]
