"""The memory limit of the process, from Linux's files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from streameval.exporters.memory import MemoryUse, memory_uses
from streameval.exporters.prometheus import PrometheusExporter
from tests.exporters.pictures import samples
from tests.exposition import at

_GROUPS = "proc/self/cgroup"
_FS = "sys/fs/cgroup"
_UNIT = "system.slice/streameval.service"
_MACHINE = {"proc/meminfo": "MemTotal:       2048 kB\nMemFree: 1 kB\n"}
_CASES: Mapping[str, tuple[Mapping[str, str], float | None]] = {
    "a container": ({_GROUPS: "0::/\n", f"{_FS}/memory.max": "1048576\n", **_MACHINE}, 1_048_576),
    "a unit of systemd": (
        {
            _GROUPS: f"0::/{_UNIT}\n",
            f"{_FS}/{_UNIT}/memory.max": "max\n",
            f"{_FS}/system.slice/memory.max": "524288\n",
            **_MACHINE,
        },
        524_288,
    ),
    "the first version of control groups": (
        {
            _GROUPS: "4:cpu:/a\n3:memory:/a\n",
            f"{_FS}/memory/a/memory.limit_in_bytes": "262144\n",
            f"{_FS}/memory/memory.limit_in_bytes": "9223372036854771712\n",
            **_MACHINE,
        },
        262_144,
    ),
    "no limit but the machine": (
        {_GROUPS: "0::/\n", f"{_FS}/memory.max": "max\n", **_MACHINE},
        2_097_152,
    ),
    "another system": ({}, None),
}


def _write(root: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="ascii")


@pytest.mark.parametrize("case", _CASES)
def test_the_smallest_limit_counts(case: str, tmp_path: Path) -> None:
    files, expected = _CASES[case]
    _write(tmp_path, files)
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
    group = {limit: "1000\n", used: "900\n", "memory.stat": f"anon 1\n{cache} 300\n"}
    _write(tmp_path, {_GROUPS: line, **{f"{folder}/{name}": group[name] for name in group}})
    assert memory_uses(tmp_path) == [MemoryUse(600, 1000)]


def test_a_scrape_has_memory_usage_and_limit() -> None:
    read = samples(PrometheusExporter(version="1"), None)
    limit = at(read, "memory_limit_bytes")
    assert limit is not None
    assert 0 < read["process_resident_memory_bytes", frozenset()] < limit
