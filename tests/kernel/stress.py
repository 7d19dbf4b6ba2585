"""`python stress.py EXTENSION SEED BATCHES` compares a compiled kernel with the twin.

It imports nothing but the twin, for a memory checker runs Python fifty times slower.
"""

from __future__ import annotations

import random
import sys
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
    block, of_block = kernel.Block(*options[:3]), (*options[:3], False)
    taken = [pair for pair in rows if block.add(*pair)]
    lists, acts = [items for items, _ in taken], [acts for _, acts in taken]
    expected = twin.match(lists, acts, *of_block)
    blocks = len(block), block.take(), len(block)
    if blocks != (len(taken), expected, 0) or expected[0]:
        raise AssertionError(options, blocks, len(taken), expected)


def check_batch(kernel: Any, draw: random.Random, kind: str, *, subclasses: bool = True) -> None:
    """Compare a batch; `subclasses`: whether the kernel refuses those of str, too."""
    rows = [row(draw, kind) for _ in range(draw.choice((0, 1, 5, 10)))]
    rows = [pair for pair in rows if subclasses or not _has_subclasses(*pair)]
    depth = draw.choice((1, 2, 10, 1_000, sys.maxsize))
    check(kernel, rows, kind, depth, draw.random() < _HALF, draw.random() < _HALF)


def _has_subclasses(items: Any, acts: Any) -> bool:
    return any(type(shown) is Text for shown in [*_listed(items), *_listed(acts)])


def _listed(ids: Any) -> list[Any]:
    return list(ids) if isinstance(ids, (list, tuple, set, frozenset, dict)) else []


def main(path: str, seed: str, batches: str) -> None:
    kernel, draw = extension(path), random.Random(int(seed))
    for _ in range(int(batches)):
        check_batch(kernel, draw, draw.choice(("text", "integer")))


if __name__ == "__main__":
    main(*sys.argv[1:])
