"""Memory that the process uses and may use, from Linux's files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

_ROOT: Final = Path("/")


class MemoryUse(NamedTuple):
    """Bytes in use and their limit, of a control group or of the process on its machine."""

    used: int
    limit: int


def memory_uses(root: Path = _ROOT) -> list[MemoryUse]:
    """The use of each limited control group (v1 and v2) of the process and of their parents.

    The last is that of the process itself on its machine. Empty on systems other than Linux.

    `root`: parent of /proc and /sys.
    """
    return [*_of_groups(root), *_of_machine(root)]


def _of_groups(root: Path) -> Iterator[MemoryUse]:
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        top = root / "sys/fs/cgroup"
        if controllers == "memory":
            top, names = top / "memory", _FIRST
        elif not controllers:
            names = _SECOND
        else:
            continue
        group = top / path.lstrip("/")
        for folder in (group, *group.parents):
            if folder.is_relative_to(top):
                limit = _text(folder / names.limit).strip()
                if limit.isdigit():  # v2 writes "max" for no limit
                    yield MemoryUse(_used(folder, names), int(limit))


class _Names(NamedTuple):
    """Names of a group's files, and of the page cache that the system takes back first."""

    limit: str
    used: str
    cache: str


_FIRST: Final = _Names("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
_SECOND: Final = _Names("memory.max", "memory.current", "inactive_file")


def _used(folder: Path, names: _Names) -> int:
    lines = (line.split() for line in _text(folder / "memory.stat").splitlines())
    cache = sum(int(value) for name, value in lines if name == names.cache)
    return max(0, int(_text(folder / names.used).strip() or 0) - cache)


def _of_machine(root: Path) -> Iterator[MemoryUse]:
    _, resident, *_ = map(int, (_text(root / "proc/self/statm") or "0 0").split())
    for line in _text(root / "proc/meminfo").splitlines():
        if line.startswith("MemTotal:"):
            yield MemoryUse(resident * os.sysconf("SC_PAGE_SIZE"), 1024 * int(line.split()[1]))


def _text(path: Path) -> str:
    with suppress(OSError):
        return path.read_text(encoding="ascii")
    return ""
