"""Both kernels beside their slow twin: any rows, and an interrupt between or within them."""

from __future__ import annotations

import gc
import random
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from types import FrameType, ModuleType
from typing import Any, TypeAlias

from hypothesis import strategies as st

from streameval.statistics.kernel import COMPILED, pure
from tests.kernel import stress, twin

Case: TypeAlias = tuple[int, str, float]
"""Seed of the rows, kind of the ids, and seconds until the interrupt."""

_ROWS = 40


class _InterruptError(Exception):
    """What the signal handler raises."""


def cases() -> st.SearchStrategy[Case]:
    """Seeds of rows, most of which are taken; see `tests/kernel/stress.py`."""
    kinds = st.sampled_from(["text", "integer"])
    return st.tuples(st.integers(0, 2**64), kinds, st.floats(1e-6, 1e-3))


@contextmanager
def kernel() -> Iterator[Callable[[Case], None]]:
    """Compares each kernel with the twin, and interrupts it."""
    kernels = [pure, *([import_module("streameval.statistics.kernel._match")] if COMPILED else [])]
    before = signal.signal(signal.SIGALRM, _interrupt)

    def check(case: Case) -> None:
        seed, kind, seconds = case
        for module in kernels:
            draw = random.Random(seed)
            stress.check_batch(module, draw, kind)
            stress.check_lines(module, draw)
            _check_interrupted(module, draw, kind, seconds)

    try:
        yield check
    finally:
        signal.signal(signal.SIGALRM, before)


def _interrupt(_: int, __: FrameType | None) -> None:
    raise _InterruptError


def _check_interrupted(module: ModuleType, draw: random.Random, kind: str, seconds: float) -> None:
    """A block that was interrupted has whole rows: those taken, and perhaps the one under way."""
    rows = [stress.row(draw, kind) for _ in range(_ROWS)]
    block, taken = module.Block(kind, 10, _EVERY), list[tuple[Any, Any]]()
    under_way: list[tuple[Any, Any]] = []
    # An exception is ignored in the callbacks of the collector.
    gc.disable()
    with suppress(_InterruptError):
        try:
            signal.setitimer(signal.ITIMER_REAL, seconds)
            for pair in rows:
                under_way = [pair]
                if block.add(*pair):
                    taken.append(pair)
                under_way = []
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    gc.enable()
    if len(block) > len(taken):
        taken += under_way
    lists, interactions = [items for items, _ in taken], [interactions for _, interactions in taken]
    if module is pure:
        # Lists without interactions may have subclasses of text there.
        assert len(block) == len(taken)
        return
    expected = twin.match(lists, interactions, kind, 10, _EVERY, _CHECKED)
    assert block.take() == (*expected, b"")


_EVERY, _CHECKED = True, False
