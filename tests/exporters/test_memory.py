"""The memory limit of the process, from Linux's files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from streameval.exporters.memory import MemoryUse, memory_uses
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
    limits = [use.limit for use in memory_uses(tmp_path)]
    assert min(limits, default=None) == expected


@pytest.mark.parametrize(
    ("folder", "line", "names"),
    [
        ("sys/fs/cgroup/a", "0::/a\n", ("memory.max", "memory.current", "inactive_file")),
        (
            "sys/fs/cgroup/memory/a",
            "3:memory:/a\n",
            ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
        ),
    ],
)
def test_the_page_cache_of_a_group_is_not_in_use(
    folder: str, line: str, names: tuple[str, str, str], tmp_path: Path
) -> None:
    limit, used, cache = names
    group = tmp_path / folder
    group.mkdir(parents=True)
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text(line, encoding="ascii")
    (group / limit).write_text("1000\n", encoding="ascii")
    (group / used).write_text("900\n", encoding="ascii")
    (group / "memory.stat").write_text(f"anon 1\n{cache} 300\n", encoding="ascii")
    assert memory_uses(tmp_path) == [MemoryUse(600, 1000)]


def test_a_scrape_has_memory_usage_and_limit() -> None:
    read = samples(PrometheusExporter(version="1"), None)
    limit = at(read, "memory_limit_bytes")
    assert limit is not None
    assert 0 < read["process_resident_memory_bytes", frozenset()] < limit
