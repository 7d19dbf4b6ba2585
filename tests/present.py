"""Values that may be missing, for tests that need them."""

from __future__ import annotations

from typing import TypeVar

Value = TypeVar("Value")


def present(value: Value | None) -> Value:
    """A value, after a check that there is one."""
    assert value is not None
    return value
