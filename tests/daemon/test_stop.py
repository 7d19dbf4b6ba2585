"""A daemon with many partitions is stopped while it reads: nothing that it counted is lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from tests.cli.program import json_lines
from tests.daemon.running import running

PARTITIONS: Final = 96
ROWS: Final = 400
CONFIG: Final = """
metrics = ["ctr", "ndcg@10", "mrr"]
labels = ["variant"]
intervals = {{}}
windows = {{ spans = ["5m"] }}
event = {{ time = "ts", time_unit = "s" }}
state = {{ path = "state", interval = "1h" }}
web = {{ listen = "127.0.0.1:0" }}
source = {{ type = "files", paths = {paths} }}
"""


def test_a_stop_under_load_saves_every_list_of_96_partitions(tmp_path: Path) -> None:
    paths = [f"p{number}.ndjson" for number in range(PARTITIONS)]
    for path in paths:
        json_lines(tmp_path / path, [_event(number) for number in range(ROWS)])
    with running(CONFIG.format(paths=json.dumps(paths)), tmp_path) as daemon:
        daemon.consumed(PARTITIONS * ROWS // 4)
        assert daemon.stop() == 0, daemon.log
        (saved,) = daemon.logged("state_saved")
        assert f"partitions={PARTITIONS}" in saved.split()
    with running(CONFIG.format(paths=json.dumps(paths)), tmp_path) as daemon:
        daemon.until(lambda: _lists(daemon.document()) >= PARTITIONS * ROWS)
        assert _lists(daemon.document()) == PARTITIONS * ROWS
        assert daemon.document()["health"]["consumed"] < PARTITIONS * ROWS
        assert daemon.stop() == 0


def _lists(document: dict[str, Any]) -> int:
    """The lists of all values of the label, of this process and the one before."""
    return sum(
        row["lists"]
        for row in document.get("metrics", ())
        if (row["metric"], row["window"]) == ("ctr", "lifetime")
    )


def _event(number: int) -> dict[str, object]:
    return {
        "recommendations": [f"i{(number + rank) % 50}" for rank in range(10)],
        "interactions": [f"i{number % 50}"],
        "user": f"u{number % 40}",
        "variant": f"v{number % 50}",
        "ts": 1_790_000_000 + number,
    }
