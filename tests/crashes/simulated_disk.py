"""A disk in memory that loses unsynced writes on a crash, and injects errors."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from streameval.checkpoints.storage import Disk


class Crash(BaseException):
    """The process ends here, by kill -9 or power loss."""


class Step(NamedTuple):
    """One call of the disk. call: "write" for each piece of a file, else the method name."""

    call: str
    path: Path


class _File:
    def __init__(self, modified: float) -> None:
        self.content = b""
        self.durable: bytes | None = None
        self.modified = modified

    def copied(self) -> _File:
        copy = _File(self.modified)
        copy.content, copy.durable = self.content, self.durable
        return copy


class _Folder:
    def copied(self) -> _Folder:
        return self


class _Change(NamedTuple):
    """A rename of a node; without `source` a creation, without `target` a removal."""

    source: Path | None
    target: Path | None
    node: _File | _Folder

    @property
    def folders(self) -> set[Path]:
        return {path.parent for path in (self.source, self.target) if path is not None}

    def apply(self, names: dict[Path, _File | _Folder]) -> None:
        if self.source is not None and names.get(self.source) is self.node:
            del names[self.source]
        if self.target is not None:
            names[self.target] = self.node


class SimulatedDisk(Disk):
    """See the module.

    Attributes:
        steps: every call so far.
        before: called with each step before it runs; may raise.
        now: modification time of new files.
    """

    def __init__(self, *folders: Path, seed: int = 0) -> None:
        super().__init__()
        self.steps: list[Step] = []
        self.before: Callable[[Step], None] = lambda _: None
        self.now = 1_000_000.0
        self._random = random.Random(seed)
        self._names: dict[Path, _File | _Folder] = {folder: _Folder() for folder in folders}
        self._roots = frozenset(folders)
        self._durable = dict(self._names)
        self._pending: list[_Change] = []

    @contextmanager
    def failing(self, before: Callable[[Step], None]) -> Iterator[None]:
        """Call `before` before each step of the block; a Crash ends the block."""
        self.before = before
        try:
            with suppress(Crash):
                yield
        finally:
            self.before = lambda _: None

    def copied(self, seed: int) -> SimulatedDisk:
        """A disk with the same files, for a look at what a power loss would leave."""
        disk = SimulatedDisk(*self._roots, seed=seed)
        nodes: dict[_File | _Folder, _File | _Folder] = {}
        for node in {**self._names, **self._durable}.values():
            nodes[node] = node.copied()
        for change in self._pending:
            nodes.setdefault(change.node, change.node.copied())
        disk._names = {path: nodes[node] for path, node in self._names.items()}
        disk._durable = {path: nodes[node] for path, node in self._durable.items()}
        disk._pending = [change._replace(node=nodes[change.node]) for change in self._pending]
        disk.now = self.now
        return disk

    def crash(self, kept: float = 0.5) -> None:
        """Power loss: apply a random share of the unsynced changes, and drop the rest."""
        for change in self._pending:
            if self._random.random() < kept:
                change.apply(self._durable)
        self._pending = []
        there: dict[Path, _File | _Folder] = {}
        for path in sorted(self._durable):
            if path in self._roots or isinstance(there.get(path.parent), _Folder):
                there[path] = self._durable[path]
        for node in there.values():
            if isinstance(node, _File):
                self._tear(node)
        self._names, self._durable = there, dict(there)

    def _tear(self, file: _File) -> None:
        if file.durable is None:
            end = self._random.choice((0, self._random.randint(0, len(file.content)), None))
            file.content = file.content[:end]
            file.durable = file.content

    def _step(self, call: str, path: Path) -> None:
        step = Step(call, path)
        self.steps.append(step)
        self.before(step)

    def _change(self, source: Path | None, target: Path | None, node: _File | _Folder) -> None:
        change = _Change(source, target, node)
        change.apply(self._names)
        self._pending.append(change)

    def create(self, path: Path, slices: Iterable[bytes]) -> None:
        self._step("create", path)
        self._require_new(path)
        file = _File(self.now)
        self._change(None, path, file)
        for piece in slices:
            self._step("write", path)
            file.content += piece

    def sync(self, path: Path) -> None:
        self._step("sync", path)
        file = self._file(path)
        file.durable = file.content

    def make_folder(self, path: Path) -> None:
        self._step("make_folder", path)
        self._require_new(path)
        self._change(None, path, _Folder())

    def sync_folder(self, path: Path) -> None:
        self._step("sync_folder", path)
        self._require_folder(path)
        rest = []
        for change in self._pending:
            if path in change.folders:
                change.apply(self._durable)
            else:
                rest.append(change)
        self._pending = rest

    def rename_new(self, source: Path, target: Path) -> None:
        self._step("rename_new", target)
        self._require_new(target)
        self._change(source, target, self._file(source))

    def remove(self, path: Path) -> None:
        self._step("remove", path)
        self._change(path, None, self._file(path))

    def remove_folder(self, path: Path) -> None:
        self._step("remove_folder", path)
        node = self._names.get(path)
        if isinstance(node, _Folder) and not any(name.parent == path for name in self._names):
            self._change(path, None, node)

    def names(self, folder: Path) -> list[str]:
        self._step("names", folder)
        self._require_folder(folder)
        return sorted(path.name for path in self._names if path.parent == folder)

    def is_folder(self, path: Path) -> bool:
        self._step("is_folder", path)
        return isinstance(self._names.get(path), _Folder)

    def read(self, path: Path, start: int, size: int) -> bytes:
        self._step("read", path)
        return self._file(path).content[start : start + size]

    def size(self, path: Path) -> int:
        self._step("size", path)
        return len(self._file(path).content)

    def modified(self, path: Path) -> float:
        self._step("modified", path)
        return self._file(path).modified

    def overwrite(self, path: Path, content: bytes) -> None:
        """Damage a file durably."""
        file = self._file(path)
        file.content = file.durable = content

    def files(self) -> Sequence[Path]:
        return sorted(path for path, node in self._names.items() if isinstance(node, _File))

    def _file(self, path: Path) -> _File:
        node = self._names.get(path)
        if isinstance(node, _File):
            return node
        self._require_folder(path.parent)
        raise _error(errno.ENOENT if node is None else errno.EISDIR, path)

    def _require_folder(self, path: Path) -> None:
        node = self._names.get(path)
        if not isinstance(node, _Folder):
            above = self._names.get(path.parent)
            among_files = isinstance(node, _File) or isinstance(above, _File)
            raise _error(errno.ENOTDIR if among_files else errno.ENOENT, path)

    def _require_new(self, path: Path) -> None:
        self._require_folder(path.parent)
        if path in self._names:
            raise _error(errno.EEXIST, path)


def _error(number: int, path: Path) -> OSError:
    return OSError(number, os.strerror(number), str(path))


def failing_at(
    numbers: Iterable[int], make: Callable[[Step], BaseException]
) -> Callable[[Step], None]:
    """A hook for `SimulatedDisk.before` that raises at these steps, counted from 0."""
    counted: Iterator[int] = iter(range(1 << 62))
    selected = frozenset(numbers)

    def before(step: Step) -> None:
        if next(counted) in selected:
            raise make(step)

    return before


def refusing(number: int, *calls: str) -> Callable[[Step], None]:
    """A hook for `SimulatedDisk.before` that fails these calls with this errno."""

    def before(step: Step) -> None:
        if step.call in calls:
            raise _error(number, step.path)

    return before
