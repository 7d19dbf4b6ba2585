"""A file that is being written while a daemon reads it: each line counts once, in one process."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from tests.daemon.running import Running, running

CONFIG: Final = """
metrics = ["ctr"]
source = { type = "files", paths = ["events.ndjson"] }
state = { path = "state", interval = "1s" }
web = { listen = "127.0.0.1:0" }
"""
LINE: Final = b'{"recommendations": ["a", "b"], "interactions": ["a"]}\n'


def counted(daemon: Running, lists: int) -> dict[str, int]:
    """The lists once there are so many of all processes, and the invalid records of this one."""

    def enough() -> dict[str, Any]:
        document = daemon.document()
        return document if document and _lists(document) >= lists else {}

    document = daemon.until(enough)
    return {"valid": _lists(document), "invalid": sum(document["health"]["invalid"].values())}


def _lists(document: dict[str, Any]) -> int:
    return sum(reading["lists"] for reading in document["metrics"])


@pytest.mark.parametrize(("whole", "size"), [(5, len(LINE) - 2), (0, 1)])
def test_a_line_that_is_still_being_written_is_counted_by_the_next_start(
    tmp_path: Path, whole: int, size: int
) -> None:
    file = tmp_path / "events.ndjson"
    file.write_bytes(LINE * whole + LINE[:size])
    with running(CONFIG, tmp_path) as daemon:
        (message,) = daemon.until(lambda: daemon.logged("advice"))
        assert f"is not complete yet ({size} bytes without a line end)" in message
        assert counted(daemon, whole) == {"valid": whole, "invalid": 0}
        assert daemon.stop() == 0
    with file.open("ab") as more:
        more.write(LINE[size:] + LINE)
    with running(CONFIG, tmp_path) as daemon:
        assert counted(daemon, whole + 2) == {"valid": whole + 2, "invalid": 0}
        assert daemon.logged("advice") == []
        assert daemon.stop() == 0


def test_a_last_line_without_its_line_end_counts_once_it_is_whole(tmp_path: Path) -> None:
    file = tmp_path / "events.ndjson"
    file.write_bytes(LINE * 3 + LINE[:-1])
    with running(CONFIG, tmp_path) as daemon:
        assert counted(daemon, 4) == {"valid": 4, "invalid": 0}
        assert daemon.stop() == 0
    with file.open("ab") as more:
        more.write(b"\n" + LINE)
    with running(CONFIG, tmp_path) as daemon:
        assert counted(daemon, 5) == {"valid": 5, "invalid": 0}
