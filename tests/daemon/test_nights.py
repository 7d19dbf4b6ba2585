"""What an engineer on call reads: the whole log of a bad night, as a file."""

from __future__ import annotations

import json
import re
import resource
from pathlib import Path
from typing import Final

from tests.daemon.running import Running, running

_LOGS: Final = Path(__file__).with_name("nights")

FILES: Final = """
metrics = ["item_coverage@30"]
catalog = 1_000_000
source = { type = "files", paths = ["events.ndjson"] }
web = { listen = "127.0.0.1:0" }
"""


def told(daemon: Running) -> str:
    """The log without what differs from run to run."""
    log = "".join(daemon.log)
    log = re.sub(r"^ts=\S+ ", "", log, flags=re.MULTILINE)
    log = re.sub(r"version=\S+ address=\S+", "version=* address=*", log)
    return re.sub(r" \(Unable to allocate .*?\);", ";", log)


def limit_memory(daemon: Running, more: int) -> None:
    """Let the process take only so many bytes more, and as many as it has already."""
    status = Path(f"/proc/{daemon.process.pid}/status").read_text(encoding="ascii")
    taken = 1024 * int(re.findall(r"VmSize:\s+(\d+)", status)[0])
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.prlimit(daemon.process.pid, resource.RLIMIT_AS, (taken + more, hard))


def test_the_last_line_says_that_no_memory_is_left(tmp_path: Path) -> None:
    shown = [[f"item-{30 * row + rank}" for rank in range(30)] for row in range(30_000)]
    lines = (json.dumps({"recommendations": items, "interactions": []}) for items in shown)
    (tmp_path / "events.ndjson").write_text("\n".join(lines), encoding="utf-8")
    with running(FILES, tmp_path) as daemon:
        limit_memory(daemon, 16 << 20)
        assert daemon.ended() == 1
    assert told(daemon) == (_LOGS / "memory.log").read_text(encoding="utf-8")
