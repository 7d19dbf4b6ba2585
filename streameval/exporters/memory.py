"""How much memory this process may use before the system ends it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from streameval.exporters.families import Family, own_family

_ROOT: Final = Path("/")


def memory_limit(root: Path = _ROOT) -> Family:
    """The smallest limit of the process's control groups and of the machine; absent if unknown.

    Args:
        root: where /proc and /sys are.
    """
    limits = [*_of_groups(root), *_of_machine(root)]
    return own_family(
        "memory_limit_bytes",
        "gauge",
        "Memory that this process may use: the smallest limit of its control groups and the "
        "machine's memory. Near it (process_resident_memory_bytes), the system ends the process.",
        [({}, min(limits))] if limits else [],
    )


def _of_groups(root: Path) -> Iterator[int]:
    """Limits of its groups and of all above them, of both versions of control groups."""
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        top = root / "sys/fs/cgroup"
        if controllers == "memory":
            top, name = top / "memory", "memory.limit_in_bytes"
        elif not controllers:
            name = "memory.max"
        else:
            continue
        group = top / path.lstrip("/")
        for folder in (group, *group.parents):
            if folder.is_relative_to(top):
                yield from _number(_text(folder / name))


def _of_machine(root: Path) -> Iterator[int]:
    for line in _text(root / "proc/meminfo").splitlines():
        if line.startswith("MemTotal:"):
            yield 1024 * int(line.split()[1])


def _number(text: str) -> Iterator[int]:
    """None where it is "max" or absent."""
    if text.strip().isdigit():
        yield int(text)


def _text(path: Path) -> str:
    with suppress(OSError):
        return path.read_text(encoding="ascii")
    return ""
