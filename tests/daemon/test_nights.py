"""The whole log of a first hour and of a night, as files."""

from __future__ import annotations

import json
import re
import resource
from html import escape
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from tests.daemon.running import Running, running

_LOGS: Final = Path(__file__).with_name("nights")


def told(daemon: Running, folder: Path) -> str:
    """The log without what differs from run to run, and without examples of invalid records."""
    log = "".join(line for line in daemon.log if "event=invalid_record" not in line)
    for pattern, instead in (
        (r"(?m)^ts=\S+ ", ""),
        (r"version=\S+ address=\S+", "version=* address=*"),
        (r" \(Unable to allocate .*?\);", ";"),
        (r"[\d,]+ of [\d,]+ interactions", "* of * interactions"),
        (r"[\d,]+ events count", "* events count"),
        (rf"{folder}/", ""),
    ):
        log = re.sub(pattern, instead, log)
    return log


WEB: Final = 'web = { listen = "127.0.0.1:0" }\n'
LISTS: Final = [
    {"recommendations": ["a", "b"], "interactions": ["a"], "variant": "control", "user": f"u{at}"}
    for at in range(200)
]
SHOWN: Final = [
    {"recommendations": ["a", "b"], "user": f"u{at}", "ts": 1_000 * at} for at in range(300)
]
CLICKS: Final = [
    {"item": "a", "user": f"u{at}" if at % 3 else f"customer-{at}", "ts": 1_000 * at + 1}
    for at in range(300)
]
ENVELOPED: Final = [{"payload": {"after": event}} for event in LISTS]
UUIDS: Final = [event | {"variant": f"uuid-{at}"} for at, event in enumerate(LISTS)]


class FirstHour(NamedTuple):
    """A configuration and the lines of its file; `twice`: a field that is repeated in each."""

    config: str
    files: dict[str, list[dict[str, Any]]]
    twice: str = ""


FIRST_HOURS: Final = {
    "login": FirstHour(
        """
metrics = ["ctr"]
event = { time = "ts", time_unit = "ms" }
source = { type = "files", paths = ["shown.ndjson", "clicks.ndjson"] }
[attribution]
impressions = "shown.ndjson"
interactions = [{ source = "clicks.ndjson" }]
key = "user_item"
""",
        {"shown.ndjson": SHOWN, "clicks.ndjson": CLICKS},
        twice='"item": "b", ',
    ),
    "envelope": FirstHour(
        'metrics = ["ctr"]\nsource = { type = "files", paths = ["events.ndjson"] }\n',
        {"events.ndjson": ENVELOPED[:30]},
    ),
    "folded": FirstHour(
        """
metrics = ["ctr"]
labels = ["variant"]
intervals = {}
experiment = {}
source = { type = "files", paths = ["events.ndjson"] }
""",
        {"events.ndjson": [*UUIDS, *LISTS]},
    ),
}


@pytest.mark.parametrize("name", FIRST_HOURS)
def test_the_log_of_a_first_hour_says_what_is_wrong(tmp_path: Path, name: str) -> None:
    case = FIRST_HOURS[name]
    for file, records in case.files.items():
        twice = case.twice if file == "clicks.ndjson" else ""
        lines = [json.dumps(record).replace("{", f"{{{twice}", 1) for record in records]
        (tmp_path / file).write_text("\n".join([*lines, ""]), encoding="utf-8")
    with running(WEB + case.config, tmp_path) as daemon:
        (advice,) = daemon.until(lambda: daemon.said("advice"))
        answer, page = daemon.get("/-/ready"), daemon.get("/").text
        assert daemon.stop() == 0
    assert told(daemon, tmp_path) == (_LOGS / f"{name}.log").read_text(encoding="utf-8")
    sentence = json.loads(advice.partition("advice=")[2])
    assert answer.status_code == 200
    assert sentence in answer.text
    assert escape(sentence) in page


FILES: Final = """
metrics = ["item_coverage@30"]
catalog = 1_000_000
source = { type = "files", paths = ["events.ndjson"] }
web = { listen = "127.0.0.1:0" }
"""


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
    assert told(daemon, tmp_path) == (_LOGS / "memory.log").read_text(encoding="utf-8")
