"""Breaking the protocol on purpose is noticed, or the schedules would prove nothing."""

from __future__ import annotations

import pytest

from streameval.errors import StreamevalError
from tests.durability.breakages import BREAKAGES
from tests.durability.running import run
from tests.effort import sampled

SCHEDULES = 150


@pytest.mark.parametrize("how", sampled(BREAKAGES, 4))
def test_the_schedules_notice(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    BREAKAGES[how](monkeypatch)
    with pytest.raises((AssertionError, StreamevalError)):
        run(SCHEDULES)
