"""`python stress.py EXTENSION SEED BATCHES` compares a compiled kernel with the twin.

Records of JSON are compared with what `json` and the twin give of those that are scanned.

It imports nothing but the twin and the loader, for a memory checker runs Python fifty times slower.
"""

from __future__ import annotations

import json
import random
import sys
from array import array
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.kernel import twin
from tests.kernel.load import load_kernel

TEXTS = ("a", "b", "c", "dd", "ü", "物", "\ud800", "x" * 300, "0", "1", "-1", "", "-2", "2")
INTEGERS = (2, 3, 4, 5, -2, -3, 2**61 + 1, 2**62, -(2**70), 10**40, 0, 1, -1, -100)
GAINS = (0, 1, 2.5, -1, 2**60, 1e300, 2.0**1000, 2**1000, 2**1000 + 1, 10**400, 1e308, float("nan"))
_USUAL, _HALF, _SKIPPED_SHARE = 9, 0.5, 0.02
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


def _id(draw: random.Random, kind: str) -> Any:
    if draw.random() < _SKIPPED_SHARE:
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
    items = (
        draw.choice((list, list, tuple))(shown) if draw.random() > _SKIPPED_SHARE else iter(shown)
    )
    interactions = _ids(draw, kind) + draw.sample(shown, draw.randint(0, min(4, len(shown))))
    return items, _collection(draw, interactions) if draw.random() > _SKIPPED_SHARE else None


def check(kernel: Any, rows: list[tuple[Any, Any]], *options: Any) -> None:
    """Compare both ways of a kernel with the twin."""
    lists, interactions = [items for items, _ in rows], [interactions for _, interactions in rows]
    expected = twin.match(lists, interactions, *options)
    if kernel.match(lists, interactions, *options) != expected:
        raise AssertionError(options, kernel.match(lists, interactions, *options), expected)
    block = kernel.Block(*options[:3])
    taken = [pair for pair in rows if block.add(*pair, None, options[3])]
    lists, interactions = [items for items, _ in taken], [interactions for _, interactions in taken]
    check_block(block, lists, interactions, None, *options)


def check_ranked(
    kernel: Any, draw: random.Random, rows: list[tuple[Any, Any]], ranks: list[Any], kind: str
) -> None:
    """Compare a block of lists with explicit ranks with the twin."""
    options = (kind, sys.maxsize, True)
    block, lists, acts, taken = kernel.Block(*options), [], [], []
    for (items, interactions), given in zip(rows, ranks, strict=True):
        fits = type(items) in (list, tuple) and twin.are_ranks(given, items)
        sound = draw.random() < _HALF
        fits = fits and not twin.is_skipped(items, interactions, kind, sound=sound)
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


NAMES = ("shown", "acts", "gains", "at", "user", "id", "é", "label")
"""The fields of a record that is scanned: see `Scanner`."""

_ARE_TEXT = _ITEMS = True
_WORDS = ("a", "b", "cd", "ü", "物", "😀", "x" * 40, "item-12345678", "0", "1", "-1", "", "\t", '"')
_NUMBERS = ("0", "1", "7", "-7", "-1", "-100", "123456789012345678", "1" * 19, "-0", "01", "1.5")
_REALS = ("0", "1", "-2", "0.5", "-1.25", "123456.789", "1e3", "0.1234567890123456", "-0.0")
_TIMES = ("5", "0.25", "1700000000", "1700000000.25", "1700000000.1234567", "4294967295.999999999")
_OTHERS = (
    '{"a":[{"b":[]}]}',
    "[1.5,-2,true,false,null]",
    '"\\" \\n"',
    "[[[[[[1]]]]]]",
    "{}",
    "1e5",
)
_BLANKS = ("", "", " ", "\n\t ")


def record(draw: random.Random) -> bytes:
    """A record of JSON; one in a few is damaged."""
    text = draw.random() < _HALF

    def item() -> str:
        if text and draw.random() < 1 - _SKIPPED_SHARE:
            return json.dumps(draw.choice(_WORDS[: _USUAL if draw.random() < 0.9 else None]))
        return draw.choice(_NUMBERS[: 4 if draw.random() < 0.9 else None])

    def listed() -> str:
        return f"[{','.join(item() for _ in range(draw.choice((0, 1, 2, 3, 20))))}]"

    def name() -> str:
        return draw.choice((item(), '"u"', '"u"', '"v"', "true", "null", "7"))

    interactions = draw.choice((listed, listed, lambda: json.dumps(dict.fromkeys("abc", 1.5))))()
    if draw.random() < 0.2:
        pairs = [f'"{key}":{draw.choice(_REALS)}' for key in draw.choices("abcdef", k=2)]
        interactions = f"{{{','.join(pairs)}}}"
    fields = {"shown": listed(), "acts": interactions, "at": draw.choice(_TIMES), "id": item()}
    fields |= {key: name() for key in ("user", "é", "label") if draw.random() < 0.8}
    fields |= {"gains": "[1]"} if draw.random() < _SKIPPED_SHARE else {}
    fields |= {f"other {at}": draw.choice(_OTHERS) for at in range(draw.choice((0, 0, 1, 3)))}
    pairs = [f'"{key}"{draw.choice(_BLANKS)}:{value}' for key, value in fields.items()]
    draw.shuffle(pairs)
    total = f"{{{draw.choice(_BLANKS)}{','.join(pairs)}}}{draw.choice(_BLANKS)}".encode()
    if draw.random() < 1 - _HALF / 2:
        return total
    start = draw.randint(0, len(total))
    end = draw.randint(start, min(len(total), start + draw.choice((0, 1, 4, len(total)))))
    return total[:start] + draw.randbytes(draw.choice((0, 0, 1, 3))) + total[end:]


def check_scan(kernel: Any, draw: random.Random) -> int:
    """Compare the records that are scanned with the twin; returns how many there are."""
    values: list[Any] = [record(draw) for _ in range(draw.choice((0, 1, 5, 70)))]
    values += draw.sample([None, "{}", bytearray(b"{}")], draw.choice((0, 0, 1)))
    depth, every = draw.choice((1, 3, sys.maxsize)), draw.random() < _HALF
    scanner = kernel.Scanner(NAMES, "s", _ARE_TEXT, 19, 18, depth, every)
    columns, codes, times = scanner.scan(values, not _ITEMS)
    odd = set(array("q", columns[0]))
    plain = [_parsed(value) for place, value in enumerate(values) if place not in odd]
    lists = [[_text(shown) for shown in fields["shown"]] for fields in plain]
    interactions = [_acts(fields["acts"]) for fields in plain]
    expected = twin.match(lists, interactions, "text", depth, every, not _SOUND)
    if columns[1:] != expected[1:] or expected[0] or any("gains" in fields for fields in plain):
        raise AssertionError(values, columns, expected)
    named = [[names[code] for code in array("q", column)] for column, names in codes]
    wanted = [[_text(fields.get(name)) or None for fields in plain] for name in NAMES[4:]]
    moments = [_micros(fields["at"]) for fields in plain]
    if named != wanted or array("q", times).tolist() != moments:
        raise AssertionError(values, named, wanted, moments)
    columns, ((column, names),), _ = scanner.scan(values, _ITEMS)
    odd = set(array("q", columns[0]))
    lists = [_parsed(value)["shown"] for place, value in enumerate(values) if place not in odd]
    items = [_text(shown) for shown_items in lists for shown in shown_items]
    lengths = array("q", columns[3]).tolist()
    if [names[code] for code in array("q", column)] != items or lengths != list(map(len, lists)):
        raise AssertionError(values, items, lengths)
    return len(plain)


def check_lines(kernel: Any, draw: random.Random) -> None:
    """Compare the lines of a block, and the records in them, with lines that are split."""
    values = [record(draw) if draw.random() < _HALF else b"\r" for _ in range(draw.choice((0, 20)))]
    block = b"\n".join([b"", *values, b"no line"])
    lines = dict(enumerate(block.split(b"\n")[:-1]))
    numbers = [number for number, line in lines.items() if line.strip()]
    expected = [lines[number] for number in numbers]
    *columns, count = kernel.lines_of(block, 0)
    starts, stops, result = (array("q", column) for column in columns)
    read = [block[start:stop] for start, stop in zip(starts, stops, strict=True)]
    if read != expected or result.tolist() != numbers or count != len(lines):
        raise AssertionError(block, read, result, count)
    if hasattr(kernel, "Scanner"):
        scanner = kernel.Scanner(NAMES, "s", _ARE_TEXT, 19, 18, 9, not _ITEMS)
        for are_items in (_ITEMS, not _ITEMS):
            records = scanner.scan_block(block, starts, stops, are_items)
            if records != scanner.scan(expected, are_items):
                raise AssertionError(block, records)


def _parsed(value: bytes) -> dict[str, Any]:
    """The fields of a record, with exact numbers."""
    fields: dict[str, Any] = json.loads(
        value.decode(),
        object_pairs_hook=_unique,
        parse_int=Decimal,
        parse_float=Decimal,
        parse_constant=Decimal,
    )
    return fields


def _unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    if len({name for name, _ in pairs} & {*NAMES}) < sum(name in NAMES for name, _ in pairs):
        raise AssertionError(pairs)
    return dict(pairs)


def _text(value: Any) -> str | None:
    if value is None or type(value) is str:
        return value
    return str(value).lower()


def _acts(acts: Any) -> Any:
    if isinstance(acts, dict):
        return {item: float(gain) for item, gain in acts.items()}
    return list(map(_text, acts))


def _micros(seconds: Decimal) -> int:
    return int(Decimal(repr(float(seconds))).scaleb(6).to_integral_value())


def main(path: str, seed: str, batches: str) -> None:
    kernel, draw = load_kernel(path), random.Random(int(seed))
    scanned = 0
    for _ in range(int(batches)):
        check_batch(kernel, draw, draw.choice(("text", "integer")))
        scanned += check_scan(kernel, draw)
        check_lines(kernel, draw)
    if not scanned:
        raise AssertionError(batches)


if __name__ == "__main__":
    main(*sys.argv[1:])
