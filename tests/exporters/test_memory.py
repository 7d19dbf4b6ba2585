"""The memory limit of the process, from Linux's files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from streameval.exporters.operations import memory_limit
from streameval.exporters.prometheus import PrometheusExporter
from tests.exporters.pictures import at, samples

_MACHINE = {"proc/meminfo": "MemTotal:       2048 kB\nMemFree: 1 kB\n"}
_CASES: Mapping[str, tuple[Mapping[str, str], float | None]] = {
    "a container": (
        {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "1048576\n", **_MACHINE},
        1_048_576,
    ),
    "a unit of systemd": (
        {
            "proc/self/cgroup": "0::/system.slice/streameval.service\n",
            "sys/fs/cgroup/system.slice/streameval.service/memory.max": "max\n",
            "sys/fs/cgroup/system.slice/memory.max": "524288\n",
            **_MACHINE,
        },
        524_288,
    ),
    "the first version of control groups": (
        {
            "proc/self/cgroup": "4:cpu:/a\n3:memory:/a\n",
            "sys/fs/cgroup/memory/a/memory.limit_in_bytes": "262144\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
            **_MACHINE,
        },
        262_144,
    ),
    "no limit but the machine": (
        {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "max\n", **_MACHINE},
        2_097_152,
    ),
    "another system": ({}, None),
}


@pytest.mark.parametrize("case", _CASES)
def test_the_smallest_limit_counts(case: str, tmp_path: Path) -> None:
    files, expected = _CASES[case]
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="ascii")
    found = [sample.value for sample in memory_limit(tmp_path).samples]
    assert found == ([] if expected is None else [expected])


def test_a_scrape_has_memory_usage_and_limit() -> None:
    read = samples(PrometheusExporter(version="1"), None)
    limit = at(read, "memory_limit_bytes")
    assert limit is not None
    assert 0 < read["process_resident_memory_bytes", frozenset()] < limit
