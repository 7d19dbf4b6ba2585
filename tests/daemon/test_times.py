"""A log that begins with zero times: it is counted without them, saved, and shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from tests.cli.program import json_lines, run
from tests.daemon.running import running

CONFIG: Final = """
metrics = ["ctr"]
intervals = {}
labels = ["variant"]
windows = { spans = ["1h"], lateness = "30d" }
source = { type = "files", paths = ["events.ndjson"] }
event = { time = "ts", time_unit = "iso8601" }
state = { path = "state", interval = "1s" }
web = { listen = "127.0.0.1:0" }
experiment = { label = "variant", control = "a" }

[changes]
label = "variant"
"""


def test_a_log_that_begins_with_zero_times_is_counted_saved_and_shown(tmp_path: Path) -> None:
    days = [f"2026-01-{day:02d}T08:00:00Z" for day in range(1, 29)]
    times = ["0001-01-01T00:00:00Z"] * 30 + days + ["9999-12-31T23:59:59-01:00"] * 30
    records = [
        {"recommendations": ["x"], "interactions": [], "user": f"u{n}", "variant": "ab"[n % 2]}
        for n in range(len(times))
    ]
    timed = [record | {"ts": time} for record, time in zip(records, times, strict=True)]
    json_lines(tmp_path / "events.ndjson", timed)
    with running(CONFIG, tmp_path) as daemon:
        health = daemon.consumed(len(times))["health"]
        assert (health["valid"], health["invalid"]["invalid_time"]) == (28, 60)
        for path in ("/", "/metrics", "/api/v1/metrics", "/api/v1/changes"):
            assert daemon.get(path).status_code == 200, path
        assert daemon.stop() == 0
    done = run("changes", tmp_path / "state", "--format", "json")
    assert done.returncode == 0, done.stderr
    assert {change["until"] for change in json.loads(done.stdout)["changes"]} == {"2025-12-28"}
