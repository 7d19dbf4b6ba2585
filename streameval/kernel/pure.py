"""The kernel in Python: finds the items of lists that users interacted with, and checks all ids.

It takes the same rows and gives the same columns as the compiled kernel, except that it also takes
ids of a subclass of str, which are equal to the text they hold.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from streameval.events import LARGEST_GAIN
from streameval.events.ids import CHECKS, IdKind
from streameval.events.rules import MARKS, RESERVED, TEXT_PADDING

Columns: TypeAlias = tuple[bytes, bytes, bytes, bytes, bytes, bytes, bytes, bytes, bytes, bytes]
"""The columns of `Matches` as bytes of 64-bit integers and floats, in their order."""

Row: TypeAlias = tuple[Any, ...]
"""(interacted, given, length, place of each hit, ...); for a mapping, or if every place counts,
(such a row, the item of each hit, its gain, the gains of the mapping or None)."""

_LISTS: Final = frozenset({list, tuple})
_COLLECTIONS: Final = frozenset({list, tuple, set, frozenset, dict})
_NUMBERS: Final = frozenset({int, float})
_HEAD: Final = 3
_NOTHING: Final[Row] = (0, 0, 0)
_FEW: Final = 16
"""Up to so many items are searched one by one; more would take quadratic time."""

_USUAL_LENGTH: Final = 200

_have_marks_only = MARKS.issuperset


def match(
    lists: list[Any],
    interactions: list[Any],
    kind: IdKind,
    depth: int,
    every: bool,  # noqa: FBT001  the compiled kernel takes positions only, too
    sound: bool,  # noqa: FBT001
) -> Columns:
    """See `streameval.kernel.match`."""
    if len(lists) != len(interactions):
        raise ValueError(f"{len(lists)} lists and {len(interactions)} interactions")
    rows = list(map(_row_finder(kind, depth, every=every, sound=sound), lists, interactions))
    odd = [place for place, row in enumerate(rows) if row is None] if None in rows else []
    for place in odd:
        rows[place] = _NOTHING
    return _columns(odd, rows)


class Block:
    """See `streameval.kernel.Block`."""

    __slots__ = ("_find", "_rows")

    def __init__(self, kind: IdKind, depth: int, every: bool) -> None:  # noqa: FBT001  as `match`
        self._find = _row_finder(kind, depth, every=every, sound=False)
        self._rows: list[Any] = []

    def add(self, items: Any, interactions: Any) -> bool:
        """Take a list with its interactions, unless it is odd; returns whether it was taken."""
        row = self._find(items, interactions)
        if row is None:
            return False
        # One append, so that a signal handler that counts finds a whole block.
        self._rows.append(row)
        return True

    def __len__(self) -> int:
        return len(self._rows)

    def take(self) -> Columns:
        """The columns of the rows taken since the last call."""
        rows, self._rows = self._rows, []
        return _columns([], rows)


def _row_finder(
    kind: IdKind, depth: int, *, every: bool, sound: bool
) -> Callable[[Any, Any], Row | None]:
    """A function that gives the row of a list and its interactions; None for odd ones."""
    check = CHECKS[kind]
    is_reserved = _holds_reserved_text if kind == "text" else _holds_reserved_integer
    # Most lists have no interactions, and a tuple that exists costs nothing.
    untouched = [(0, 0, length) for length in range(min(depth, _USUAL_LENGTH) + 1)]
    usual = len(untouched)
    touched = _row_of_every_place if every else _row_of_first_places

    def find(items: Any, interactions: Any) -> Row | None:
        if type(items) not in _LISTS or type(interactions) not in _COLLECTIONS:
            return None
        try:
            joined = check(items)
            odd = not sound and is_reserved(items, joined)
            if interactions:
                joined = check(interactions)
                odd |= not sound and (is_reserved(interactions, joined) or _are_marks(interactions))
        except TypeError:
            return None
        if odd:
            return None
        length = min(len(items), depth)
        if interactions:
            return touched(items[:length], interactions)
        return untouched[length] if length < usual else (0, 0, length)

    return find


def _row_of_first_places(items: Sequence[Any], interactions: Any) -> Row | None:
    if type(interactions) is dict:
        return _graded_row(items, interactions, every=False)
    length, given = len(items), len(interactions)
    if given == 1:
        (item,) = interactions
        return (1, 1, length, items.index(item)) if item in items else (1, 1, length)
    wanted = set(interactions)
    hits = wanted.intersection(items)
    if not hits:
        return (len(wanted), given, length)
    return (len(wanted), given, length, *_first_places(items, hits))


def _first_places(items: Sequence[Any], hits: Collection[Any]) -> list[int]:
    """The first place of each of these items of a list, ascending."""
    if len(hits) <= _FEW:
        return sorted(map(items.index, hits))
    # The last of equal keys stays, so the list is read from its end.
    places = dict(zip(reversed(items), range(len(items) - 1, -1, -1), strict=True))
    return sorted(map(places.__getitem__, hits))


def _holds_reserved_text(ids: Iterable[str], joined: Any) -> bool:
    # Usually the joined text tells; `all` finds empty texts without hashing.
    return (TEXT_PADDING in joined and TEXT_PADDING in ids) or not all(ids)


def _holds_reserved_integer(ids: Collection[int], _: object) -> bool:
    return bool(ids) and min(ids) < 0 and not RESERVED.isdisjoint(ids)


def _are_marks(interactions: Collection[Any]) -> bool:
    ordered = type(interactions) in _LISTS and len(interactions) > 1
    return ordered and _have_marks_only(interactions)


def _row_of_every_place(items: Sequence[Any], interactions: Any) -> Row | None:
    if type(interactions) is dict:
        return _graded_row(items, interactions, every=True)
    wanted = set(interactions)
    places = [place for place, item in enumerate(items) if item in wanted]
    head = (len(wanted), len(interactions), len(items), *places)
    return head, _numbered(items, places), [1.0] * len(places), None


def _graded_row(items: Sequence[Any], gains: Mapping[Any, float], *, every: bool) -> Row | None:
    values = gains.values()
    if not _NUMBERS.issuperset(map(type, values)):
        return None
    if not all(abs(gain) <= LARGEST_GAIN for gain in values):
        return None
    if every:
        places = [place for place, item in enumerate(items) if item in gains]
    else:
        places = _first_places(items, gains.keys() & set(items))
    hits = [float(gains[items[place]]) for place in places]
    head = (len(gains), len(gains), len(items), *places)
    return head, _numbered(items, places), hits, list(map(float, values))


def _numbered(items: Sequence[Any], places: Sequence[int]) -> list[int]:
    """The number of the item at each place, from 0 in order of first occurrence."""
    numbers: dict[Any, int] = {}
    return [numbers.setdefault(items[place], len(numbers)) for place in places]


def _columns(odd: Sequence[int], rows: list[Any]) -> Columns:
    nested = [at for at, row in enumerate(rows) if type(row[0]) is tuple]
    heads = [row[0] if type(row[0]) is tuple else row for row in rows] if nested else rows
    widths = np.fromiter(map(len, heads), np.int64, len(heads))
    flat = np.fromiter(chain.from_iterable(heads), np.int64, int(widths.sum()))
    starts = np.cumsum(widths) - widths
    hits = widths - _HEAD
    owner = np.repeat(np.arange(widths.size), hits)
    ordinal = np.arange(owner.size) - (np.cumsum(hits) - hits)[owner]
    places = np.ones(flat.size, np.bool_)
    for column in range(_HEAD):
        places[starts + column] = False
    graded = [at for at in nested if rows[at][3] is not None]
    item, gain = ordinal, np.ones(owner.size if graded else 0)
    if nested:
        inside = np.isin(owner, nested)
        item[inside] = np.fromiter(chain.from_iterable(rows[at][1] for at in nested), np.int64)
        if graded:
            found = chain.from_iterable(rows[at][2] for at in nested)
            gain[inside] = np.fromiter(found, np.float64)
    gains = np.fromiter(chain.from_iterable(rows[at][3] for at in graded), np.float64)
    return (
        _integers(odd),
        flat[starts].tobytes(),
        flat[starts + 1].tobytes(),
        flat[starts + 2].tobytes(),
        owner.tobytes(),
        flat[places].tobytes(),
        item.tobytes(),
        gain.tobytes(),
        _integers(graded),
        gains.tobytes(),
    )


def _integers(values: Sequence[int]) -> bytes:
    column: npt.NDArray[np.int64] = np.array(values, np.int64)
    return column.tobytes()
