"""A mistake that is made on purpose, and what must notice it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest

Broken = Callable[[pytest.MonkeyPatch], None]


class Mistake(NamedTuple):
    """what: in words; law: that must notice; broken: makes it."""

    what: str
    law: Callable[[], object]
    broken: Broken
