"""`python stress.py EXTENSION SEED BATCHES` compares a compiled kernel with the twin.

It imports nothing but the twin, for a memory checker runs Python fifty times slower.
"""

from __future__ import annotations

import random
import sys
from array import array
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.kernel import twin

TEXTS = ("a", "b", "c", "dd", "ü", "物", "\ud800", "x" * 300, "0", "1", "-1", "", "-2", "2")
INTEGERS = (2, 3, 4, 5, -2, -3, 2**61 + 1, 2**62, -(2**70), 10**40, 0, 1, -1, -100)
GAINS = (0, 1, 2.5, -1, 2**60, 1e300, 2.0**1000, 2**1000, 2**1000 + 1, 10**400, 1e308, float("nan"))
_USUAL, _HALF, _ODD = 9, 0.5, 0.02
_SOUND = True


class Unlike:
    """Neither equal nor hashed without an error."""

    def __eq__(self, other: object) -> bool:
        raise AssertionError

    def __hash__(self) -> int:
        raise AssertionError


class Text(str):
    __slots__ = ()


class Integer(int):
    pass


_STRANGE: tuple[Any, ...] = (None, True, 1.5, b"a", ["a"], Unlike(), Text("a"), Integer(3))


def extension(path: str) -> ModuleType:
    """The compiled module in a file, whatever the file is called."""
    loader = ExtensionFileLoader("_match", path)
    spec = spec_from_loader("_match", loader)
    if spec is None:
        raise ImportError(path)
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


def _id(draw: random.Random, kind: str) -> Any:
    if draw.random() < _ODD:
        return draw.choice(_STRANGE)
    ids: tuple[Any, ...] = TEXTS if kind == "text" else INTEGERS
    # Mostly plain ones; and no two equal ones are the same object.
    drawn = draw.choice(ids[: _USUAL if draw.random() < 0.9 else None])
    return drawn[:1] + drawn[1:] if kind == "text" else drawn + 0


def _ids(draw: random.Random, kind: str) -> list[Any]:
    size = draw.choice((0, 1, 2, 3, 5, 20, 70)) if draw.random() < 0.99 else 3_000
    return [_id(draw, kind) for _ in range(size)]


def _collection(draw: random.Random, ids: list[Any]) -> Any:
    make = draw.choice((list, tuple, set, frozenset, dict, list, tuple))
    if make is not dict:
        try:
            return make(ids)
        except (TypeError, AssertionError):
            return ids
    return {shown: draw.choice(GAINS) for shown in ids if type(shown) in (str, int, Text, Integer)}


def row(draw: random.Random, kind: str) -> tuple[Any, Any]:
    """A list and its interactions; one in a few is odd."""
    shown = _ids(draw, kind)
    items = draw.choice((list, list, tuple))(shown) if draw.random() > _ODD else iter(shown)
    acts = _ids(draw, kind) + draw.sample(shown, draw.randint(0, min(4, len(shown))))
    return items, _collection(draw, acts) if draw.random() > _ODD else None


def check(kernel: Any, rows: list[tuple[Any, Any]], *options: Any) -> None:
    """Compare both ways of a kernel with the twin."""
    lists, acts = [items for items, _ in rows], [acts for _, acts in rows]
    expected = twin.match(lists, acts, *options)
    if kernel.match(lists, acts, *options) != expected:
        raise AssertionError(options, kernel.match(lists, acts, *options), expected)
    block = kernel.Block(*options[:3])
    taken = [pair for pair in rows if block.add(*pair, None, options[3])]
    lists, acts = [items for items, _ in taken], [acts for _, acts in taken]
    check_block(block, lists, acts, None, *options)


def check_ranked(
    kernel: Any, draw: random.Random, rows: list[tuple[Any, Any]], ranks: list[Any], kind: str
) -> None:
    """Compare a block of lists with explicit ranks with the twin."""
    options = (kind, sys.maxsize, True)
    block, lists, acts, taken = kernel.Block(*options), [], [], []
    for (items, interactions), given in zip(rows, ranks, strict=True):
        fits = type(items) in (list, tuple) and twin.are_ranks(given, items)
        sound = draw.random() < _HALF
        fits = fits and not twin.is_odd(items, interactions, kind, sound=sound)
        if block.add(items, interactions, given, sound) != fits:
            raise AssertionError(items, interactions, given)
        if fits:
            lists.append(items)
            acts.append(interactions)
            taken.append(given)
    check_block(block, lists, acts, taken, *options, _SOUND)


def check_block(block: Any, lists: list[Any], acts: list[Any], ranks: Any, *options: Any) -> None:
    """Compare the rows of a block with the twin, before and after they are taken."""
    expected = twin.match(lists, acts, *options)
    rows = twin.rows(lists, acts, ranks, *options)
    for start in {0, len(rows) // 2, max(0, len(rows) - 1), len(rows), len(rows) + 7}:
        if block.rows(start) != rows[start:]:
            raise AssertionError(options, start, block.rows(start), rows[start:])
    every_rank = array("q", [rank for given in ranks or () for rank in given]).tobytes()
    blocks = len(block), block.take(), len(block)
    if blocks != (len(lists), (*expected, every_rank), 0) or expected[0]:
        raise AssertionError(options, blocks, len(lists), expected)


def check_batch(kernel: Any, draw: random.Random, kind: str) -> None:
    """Compare a batch."""
    rows = [row(draw, kind) for _ in range(draw.choice((0, 1, 5, 10)))]
    depth = draw.choice((1, 2, 10, 1_000, sys.maxsize))
    check(kernel, rows, kind, depth, draw.random() < _HALF, draw.random() < _HALF)
    check_ranked(kernel, draw, rows, [_ranks(draw, items) for items, _ in rows], kind)


def _ranks(draw: random.Random, items: Any) -> Any:
    size = len(items) if isinstance(items, (list, tuple)) else 1
    ranks: list[Any] = draw.choices((1, 2, 3, 2**31 - 1), k=size)
    if draw.random() < _HALF / 2:
        ranks.append(1)
    if ranks and draw.random() < _HALF / 2:
        ranks[-1] = draw.choice((0, 2**31, -(2**70), True, 1.0, None))
    return draw.choice((list, tuple, iter))(ranks) if draw.random() < _HALF else ranks


def main(path: str, seed: str, batches: str) -> None:
    kernel, draw = extension(path), random.Random(int(seed))
    for _ in range(int(batches)):
        check_batch(kernel, draw, draw.choice(("text", "integer")))


if __name__ == "__main__":
    main(*sys.argv[1:])
