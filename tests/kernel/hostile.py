"""`python hostile.py EXTENSION SEED BATCHES` gives a compiled kernel objects that work against it.

Ids have an `__eq__` and a `__hash__` that change the lists and raise; the kernel must never call
them. What may run while it works, the collector and signal handlers, changes lists, sets and
blocks, takes rows, and raises. A block has whole rows after all of it.

Besides the loader it imports Python's own modules alone, for a memory checker runs them slower.
"""

from __future__ import annotations

import gc
import random
import signal
import sys
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.kernel.load import load_kernel

_LENGTH, _INTERACTED = 3, 1
"""Indices of two columns with a value for each row; see `pure.py`."""

_EVERY = True
_ALLOWED = (RuntimeError, IndexError, ValueError, KeyError, MemoryError)


class InterruptedByTestError(Exception):
    """What a signal handler raises."""


class World:
    """What hostile objects can reach: everything that is under way."""

    def __init__(self, draw: random.Random) -> None:
        self.draw = draw
        self.kernel_works = self.meddles = False
        self.calls = 0
        self.ids = [_hostile(base, self) for base in (object, str, int, float)]
        self.containers: list[Any] = []
        self.blocks: list[Any] = []
        self.raises = False

    def meddle(self) -> None:
        """Change something that the kernel may be reading; what that runs does not."""
        if not self.kernel_works or self.meddles:
            return
        self.meddles = True
        try:
            self._change()
        finally:
            self.meddles = False

    def _change(self) -> None:
        draw = self.draw
        for container in draw.sample(self.containers, min(3, len(self.containers))):
            change = draw.choice(_CHANGES)
            with suppress(*_ALLOWED, AttributeError, TypeError):
                change(container, self)
        for block in self.blocks:
            act = draw.randrange(6)
            with suppress(*_ALLOWED):
                if act == 0:
                    block.take()
                elif act == 1:
                    block.rows(draw.randrange(4))
                elif act == 2:
                    block.add(["a", "b"], {"a"})

    def judge(self) -> None:
        """Note a call of a method of an id."""
        # Python itself may call it where a container is changed.
        if self.kernel_works and not self.meddles:
            self.calls += 1
            self.meddle()
            raise InterruptedByTestError


def _clear(container: Any, _: World) -> None:
    container.clear()


def _shrink(container: Any, _: World) -> None:
    container.pop()


def _grow(container: Any, world: World) -> None:
    more = [hostile(world) for _ in range(world.draw.choice((1, 50)))]
    if isinstance(container, list):
        container.extend(more)
    elif isinstance(container, set):
        container.update(map(str, range(50)))
    else:
        container.update(dict.fromkeys(map(str, range(50)), 1.0))


def _replace(container: Any, world: World) -> None:
    container[:] = [hostile(world) for _ in container]


_CHANGES: tuple[Callable[[Any, World], None], ...] = (_clear, _shrink, _grow, _replace)


def _hostile(base: type, world: World) -> type:
    def equal(self: Any, other: object) -> bool:
        world.judge()
        return self is other

    def hashed(self: Any) -> int:
        world.judge()
        return id(self) % 7

    def ended(self: Any) -> None:
        del self
        if world.draw.random() < 0.1:
            world.meddle()

    return type("Hostile", (base,), {"__eq__": equal, "__hash__": hashed, "__del__": ended})


def hostile(world: World) -> Any:
    """An id of which all is overridden that can be."""
    return world.draw.choice(world.ids)()


def _id(world: World, kind: str) -> Any:
    if world.draw.random() < 0.05:
        return hostile(world)
    number = world.draw.randrange(30)
    return f"id {number}" if kind == "text" else number * 2**40 + 7


def _acts(world: World, kind: str) -> Any:
    ids = [_id(world, kind) for _ in range(world.draw.choice((0, 1, 3, 40)))]
    make = world.draw.choice((list, tuple, set, frozenset, dict.fromkeys))
    if make is not dict.fromkeys:
        return make(ids)
    return {key: world.draw.choice((1, 2.5, hostile(world), 10**400, True)) for key in ids}


def _rows(world: World, kind: str, count: int) -> tuple[list[Any], list[Any]]:
    size = (0, 1, 5, 70) if count > 1 else (70_000,)
    shown = [[_id(world, kind) for _ in range(world.draw.choice(size))] for _ in range(count)]
    return shown, [_acts(world, kind) for _ in range(count)]


@contextmanager
def _meddling(world: World) -> Iterator[None]:
    """Let the collector, which runs at each allocation, and signals meddle."""

    def collected(phase: str, _: dict[str, int]) -> None:
        if phase == "start":
            world.meddle()

    def interrupted(*_: object) -> None:
        if world.kernel_works and not world.meddles:
            world.meddle()
            if world.raises:
                raise InterruptedByTestError

    # What a finalizer or the collector raises can reach nobody.
    sys.unraisablehook = lambda _: None
    thresholds, before = gc.get_threshold(), signal.signal(signal.SIGALRM, interrupted)
    gc.callbacks.append(collected)
    gc.set_threshold(2)
    signal.setitimer(signal.ITIMER_REAL, 1e-4, 1e-3)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        gc.set_threshold(*thresholds)
        gc.callbacks.remove(collected)
        signal.signal(signal.SIGALRM, before)


def _call(world: World, call: Callable[..., Any], *arguments: Any) -> Any:
    """The result, or None after an error that it may raise."""
    result = None
    with suppress(*_ALLOWED, InterruptedByTestError):
        try:
            world.kernel_works = True
            result = call(*arguments)
        finally:
            world.kernel_works = False
    return result


def check_match(kernel: Any, world: World, kind: str) -> None:
    """Match lists that change meanwhile; many, and one that takes long."""
    count = world.draw.choice((1, 2, 10, 60))
    shown, interactions = _rows(world, kind, count)
    world.containers = [
        shown,
        interactions,
        *shown,
        *(each for each in interactions if hasattr(each, "clear")),
    ]
    depth = world.draw.choice((1, 10, sys.maxsize))
    sound = world.draw.random() < 0.5
    columns = _call(world, kernel.match, shown, interactions, kind, depth, _EVERY, sound)
    if columns is not None:
        sizes = {len(columns[column]) for column in (_INTERACTED, _LENGTH)}
        if sizes != {8 * count}:
            raise AssertionError(count, [len(column) for column in columns])


def check_block(kernel: Any, world: World, kind: str) -> None:
    """Fill a block that others fill and empty meanwhile."""
    shown, acts = _rows(world, kind, 20)
    block = kernel.Block(kind, 10, _EVERY)
    world.containers = [*shown, *(each for each in acts if hasattr(each, "clear"))]
    world.blocks = [block]
    for items, interactions in zip(shown, acts, strict=True):
        _call(world, block.add, items, interactions)
        if world.draw.random() < 0.3:
            _call(world, block.rows, world.draw.randrange(4))
    world.blocks = []
    count, columns = len(block), block.take()
    # Of a block that was whole at each moment, each row has a length, and each hit a row.
    hits = array("q", columns[4])
    if len(columns[_LENGTH]) != 8 * count or any(owner >= count for owner in hits):
        raise AssertionError(count, [len(column) for column in columns])


def check(kernel: Any, seed: int) -> None:
    """One batch of each; AssertionError where the kernel has called a method of an id."""
    draw = random.Random(seed)
    world = World(draw)
    world.raises = draw.random() < 0.5
    kind = draw.choice(("text", "integer"))
    with _meddling(world):
        # A late signal may come after the call, where it meddles with nothing.
        check_match(kernel, world, kind)
        check_block(kernel, world, kind)
    if world.calls:
        raise AssertionError(seed, world.calls)


if __name__ == "__main__":
    for number in range(int(sys.argv[3])):
        check(load_kernel(sys.argv[1]), int(sys.argv[2]) + number)
