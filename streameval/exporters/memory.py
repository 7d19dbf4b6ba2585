"""Memory that the process uses and may use, from Linux's files."""

from __future__ import annotations

import os
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
    uses = list[MemoryUse]()
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        names = _NAMES.get(controllers)
        if names is None:
            continue
        top = root / "sys/fs/cgroup" / controllers
        group = top / path.lstrip("/")
        for folder in (group, *group.parents):
            limit = _text(folder / names.limit).strip()
            # v2 writes "max" for no limit.
            if folder.is_relative_to(top) and limit.isdigit():
                statistics = (line.split() for line in _text(folder / "memory.stat").splitlines())
                cache = sum(int(value) for name, value in statistics if name == names.cache)
                used = int(_text(folder / names.used).strip() or 0) - cache
                uses.append(MemoryUse(max(0, used), int(limit)))
    _, resident, *_ = map(int, (_text(root / "proc/self/statm") or "0 0").split())
    for line in _text(root / "proc/meminfo").splitlines():
        if line.startswith("MemTotal:"):
            total = 1024 * int(line.split()[1])
            uses.append(MemoryUse(resident * os.sysconf("SC_PAGE_SIZE"), total))
    return uses


class _Names(NamedTuple):
    """Names of a group's files, and of the page cache that the system takes back first."""

    limit: str
    used: str
    cache: str


_NAMES: Final = {
    "memory": _Names("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    "": _Names("memory.max", "memory.current", "inactive_file"),
}
"""Controllers of a line of the process's groups (v1; none in v2) -> the names there."""


def _text(path: Path) -> str:
    with suppress(OSError):
        return path.read_text(encoding="ascii")
    return ""
