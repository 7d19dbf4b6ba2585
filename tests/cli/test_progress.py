"""Progress where standard error is no terminal."""

from __future__ import annotations

import pytest

from streameval.evaluation.shell.terminal import MinuteLines
from tests.exporters.pictures import ManualClock


@pytest.mark.parametrize(
    ("total", "last"),
    [(80_000_000, "30.0 MB read (38%), 3 events"), (None, "30.0 MB read, 3 events")],
)
def test_there_is_a_line_a_minute(
    capsys: pytest.CaptureFixture[str], total: int | None, last: str
) -> None:
    clock = ManualClock()
    lines = MinuteLines(total, clock)
    messages = []
    for number in range(5):
        clock.seconds = 45.0 * number
        lines(10_000_000 * number, number)
        messages.append(capsys.readouterr().err)
    assert [bool(text) for text in messages] == [False, False, True, False, True]
    lines(0, 0)
    assert capsys.readouterr().err == ""
    clock.seconds += 60.0
    lines(30_000_000, 3)
    assert capsys.readouterr().err == f"streameval: {last}\n"
