"""The kernel in Python: finds the items of lists that users interacted with, and checks all ids.

It takes the same rows and gives the same columns as the compiled kernel.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import chain, pairwise
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from streameval.events import LARGEST_GAIN, LARGEST_RANK
from streameval.events.ids import IdKind
from streameval.events.rules import MARKS, RESERVED, RESERVED_OF, SUSPECT

INTERFACE: Final = 4
"""Raised with every change of what a kernel takes or gives; a compiled one has the same number."""

BLOCK: Final = 512
"""Rows of a full block, which takes no more before they are taken."""

Columns: TypeAlias = tuple[bytes, ...]
"""The columns of `Matches` as bytes of 64-bit integers and floats, in their order."""

Row: TypeAlias = tuple[Any, ...]
"""(interacted, given, length, place of each hit, ...); for a mapping, or if every place counts,
(such a row, the item of each hit, its gain, the gains of the mapping or None); with the rank of
each item at the end, if it is given."""

_Array: TypeAlias = npt.NDArray[np.int64]

_LISTS: Final = frozenset({list, tuple})
_COLLECTIONS: Final = frozenset({list, tuple, set, frozenset, dict})
_NUMBERS: Final = frozenset({int, float})
_HEAD: Final = 3
_RANKS: Final = 4
"""Index of the ranks in a row that has them."""

_NOTHING: Final[Row] = (0, 0, 0)
_FEW: Final = 16
"""Up to so many items are searched one by one; more would take quadratic time."""

_USUAL_LENGTH: Final = 200

_are_no_suspects = SUSPECT.isdisjoint
_BUILT_IN: Final[Mapping[IdKind, frozenset[type]]] = {
    "text": frozenset({str}),
    "integer": frozenset({int}),
}
_HAVE_IDS: Final[Mapping[IdKind, Callable[[Any], bool]]] = {
    kind: reserved.isdisjoint for kind, reserved in RESERVED_OF.items()
}


def match(
    lists: list[Any],
    interactions: list[Any],
    kind: IdKind,
    depth: int,
    every: bool,  # noqa: FBT001  the compiled kernel takes positions only, too
    sound: bool,  # noqa: FBT001  as `every`
) -> Columns:
    """See `streameval.statistics.kernel.match`."""
    if len(lists) != len(interactions):
        raise ValueError(f"{len(lists)} lists and {len(interactions)} interactions")
    row_of = _row_maker(_IdSearch(kind, depth, every, sound))
    rows = list(map(row_of, lists, interactions))
    if None not in rows:
        return _columns([], rows)
    odd = [place for place, row in enumerate(rows) if row is None]
    return _columns(odd, [_NOTHING if row is None else row for row in rows])


def match_codes(
    shown: _Array,
    shown_offsets: _Array,
    acts: _Array,
    act_offsets: _Array,
    depth: int,
    every: bool,  # noqa: FBT001  as `match`
) -> Columns:
    """See `streameval.statistics.kernel.match_codes`."""
    lists, interactions = (
        [listed[start:stop] for start, stop in pairwise(offsets.tolist())]
        for listed, offsets in ((shown.tolist(), shown_offsets), (acts.tolist(), act_offsets))
    )
    return match(lists, interactions, "integer", depth, every, True)  # noqa: FBT003  no order by name


class Block:
    """See `streameval.statistics.kernel.Block`."""

    __slots__ = ("_rows", "add")

    add: Callable[..., bool]
    """Take a list, its interactions and the rank of each item or none, unless the block is full, an
    id is odd, or the ranks do not fit. Either all rows of a block have ranks, whose block searches
    whole lists for every place, or none has."""

    def __init__(self, kind: IdKind, depth: int, every: bool) -> None:  # noqa: FBT001  as `match`
        self._rows: list[Any] = []
        # A closure, because a method would be one more call for each list.
        self.add = _adder(self._rows, _row_maker(_IdSearch(kind, depth, every)))

    def __len__(self) -> int:
        return len(self._rows)

    def take(self) -> Columns:
        """The columns of the rows taken since the last call, and their ranks."""
        rows = self._rows.copy()
        del self._rows[: len(rows)]
        ranks = [row[_RANKS] for row in rows if type(row[0]) is tuple and len(row) > _RANKS]
        return (*_columns([], rows), _integers([*chain.from_iterable(ranks)]))

    def rows(self, start: int) -> list[bytes]:
        """The rows from `start` on, which stay in the block, each as 64-bit numbers.

        Interacted, given, length, number of hits, number of gains; the place of each hit, and its
        item; the gain of each hit, and all gains, if there are any; the ranks.
        """
        return list(map(_row_bytes, self._rows[start:]))


class _IdSearch(NamedTuple):
    kind: IdKind
    depth: int
    every: bool
    sound: bool = False


def _adder(rows: list[Row], row_of: Callable[[Any, Any], Row | None]) -> Callable[[Any, Any], bool]:
    append = rows.append

    def add(items: Any, interactions: Any, ranks: Any = None) -> bool:
        row = row_of(items, interactions)
        if row is None or len(rows) >= BLOCK:
            return False
        if ranks is not None:
            if not _are_ranks(ranks, len(items)):
                return False
            nested = row if type(row[0]) is tuple else (row, [], [], None)
            row = (*nested, tuple(ranks))
        # One append, so that a signal handler that counts finds whole rows.
        append(row)
        return True

    return add


def _are_ranks(ranks: Any, items: int) -> bool:
    """Whether these are the ranks of so many items."""
    if type(ranks) not in _LISTS or len(ranks) != items:
        return False
    if not _BUILT_IN["integer"].issuperset(map(type, ranks)):
        return False
    return not ranks or (min(ranks) >= 1 and max(ranks) <= LARGEST_RANK)


def _row_bytes(row: Row) -> bytes:
    if type(row[0]) is not tuple:
        row = (row, range(len(row) - _HEAD), (), None)
    head, items, of_hits, gains, *ranks = row
    whole = (*head[:_HEAD], len(items), len(gains or ()), *head[_HEAD:], *items)
    real = (*of_hits, *gains) if gains else ()
    parts = array("q", whole), array("d", real), array("q", *ranks)
    return b"".join(part.tobytes() for part in parts)


def _row_maker(search: _IdSearch) -> Callable[[Any, Any], Row | None]:
    """A function that gives the row of a list with its interactions, or None if it is odd.

    Without interactions, a list may have items of a subclass of str: only its length counts.
    """
    depth, sound, touched_row = search.depth, search.sound, _touched_row_maker(search)
    check, have_ids = _CHECKS[search.kind], _HAVE_IDS[search.kind]
    # Most lists have no interactions, and a tuple that exists costs nothing.
    untouched = [(0, 0, min(length, depth)) for length in range(_USUAL_LENGTH + 1)]

    def row_of(items: Any, interactions: Any) -> Row | None:
        if type(items) not in _LISTS or type(interactions) not in _COLLECTIONS:
            return None
        try:
            text = check(items)
            if not (sound or have_ids(items)):
                return None
        except Exception:  # noqa: BLE001  a subclass of str may raise anything here
            return None
        if interactions:
            return touched_row(items, interactions, text)
        length = len(items)
        return untouched[length] if length <= _USUAL_LENGTH else (0, 0, min(length, depth))

    return row_of


def _touched_row_maker(search: _IdSearch) -> Callable[[Any, Any, str | None], Row | None]:
    """A function that gives the row of a list with interactions, or None if it is odd.

    It takes a checked list, the interactions, and the ids of the list joined to one text, if they
    are texts.
    """
    depth, sound, are_built_in = search.depth, search.sound, _BUILT_IN[search.kind].issuperset
    row_of = _row_of_every_place if search.every else _row_of_first_places

    def touched_row(items: Any, interactions: Any, text: str | None) -> Row | None:
        # First, because subclasses have methods of their own, which decide on equality.
        if not are_built_in(map(type, interactions)):
            return None
        if not (sound or _are_no_suspects(interactions)) and _break_rules(interactions):
            return None
        if text is not None:
            if len(interactions) == 1 and type(interactions) is not dict:
                (item,) = interactions
                # One search of the whole text costs less than a look at the type of each item.
                if f"\0{item}\0" not in f"\0{text}\0":
                    return (1, 1, min(len(items), depth))
            if not are_built_in(map(type, items)):
                return None
        return row_of(items if len(items) <= depth else items[:depth], interactions)

    return touched_row


def _check_integers(ids: Sequence[Any]) -> None:
    if not _BUILT_IN["integer"].issuperset(map(type, ids)):
        raise TypeError


_CHECKS: Final[Mapping[IdKind, Callable[[Any], Any]]] = {
    "text": "\0".join,
    "integer": _check_integers,
}
"""Kind -> a function that raises TypeError for an id of another kind; of texts, it joins them.

It runs for every list counted, so it loops in C only.
"""


def _break_rules(interactions: Collection[Any]) -> bool:
    """Whether interactions of which some are suspects are padding, or marks."""
    return not RESERVED.isdisjoint(interactions) or _are_marks(interactions)


def _are_marks(interactions: Collection[Any]) -> bool:
    ordered = type(interactions) in _LISTS and len(interactions) > 1
    return ordered and MARKS.issuperset(interactions)


def _row_of_first_places(items: Sequence[Any], interactions: Any) -> Row | None:
    if type(interactions) is dict:
        return _grade_row(items, interactions, every=False)
    length, given = len(items), len(interactions)
    if given == 1:
        (item,) = interactions
        return (1, 1, length, items.index(item)) if item in items else (1, 1, length)
    wanted = set(interactions)
    hits = wanted.intersection(items)
    if not hits:
        return (len(wanted), given, length)
    if len(hits) == 1:
        (item,) = hits
        return (len(wanted), given, length, items.index(item))
    return (len(wanted), given, length, *_first_places(items, hits))


def _first_places(items: Sequence[Any], hits: Collection[Any]) -> list[int]:
    """The first place of each of these items of a list, ascending."""
    if len(hits) <= _FEW:
        return sorted(map(items.index, hits))
    # The last of equal keys stays, so the list is read from its end.
    places = dict(zip(reversed(items), range(len(items) - 1, -1, -1), strict=True))
    return sorted(map(places.__getitem__, hits))


def _row_of_every_place(items: Sequence[Any], interactions: Any) -> Row | None:
    if type(interactions) is dict:
        return _grade_row(items, interactions, every=True)
    wanted = set(interactions)
    places = [place for place, item in enumerate(items) if item in wanted]
    head = (len(wanted), len(interactions), len(items), *places)
    return head, _number_items(items, places), [1.0] * len(places), None


def _grade_row(items: Sequence[Any], gains: Mapping[Any, float], *, every: bool) -> Row | None:
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
    return head, _number_items(items, places), hits, list(map(float, values))


def _number_items(items: Sequence[Any], places: Sequence[int]) -> list[int]:
    """The number of the item at each place, from 0 in order of first occurrence."""
    numbers: dict[Any, int] = {}
    return [numbers.setdefault(items[place], len(numbers)) for place in places]


def _columns(odd: Sequence[int], rows: list[Any]) -> Columns:
    try:
        widths, flat = _flattened(rows)
    except (TypeError, ValueError):  # some rows are nested; NumPy 1 raises the latter
        return _columns_of_nested(odd, rows)
    heads, owner, item, places = _parts(widths, flat)
    none = b""
    return (_integers(odd), *heads, owner.tobytes(), places, item.tobytes(), none, none, none)


def _columns_of_nested(odd: Sequence[int], rows: list[Any]) -> Columns:
    nested = [at for at, row in enumerate(rows) if type(row[0]) is tuple]
    widths, flat = _flattened([row[0] if type(row[0]) is tuple else row for row in rows])
    heads, owner, item, places = _parts(widths, flat)
    graded = [at for at in nested if rows[at][3] is not None]
    inside = np.isin(owner, nested)
    item[inside] = np.fromiter(chain.from_iterable(rows[at][1] for at in nested), np.int64)
    gain = np.ones(owner.size if graded else 0)
    if graded:
        hits = chain.from_iterable(rows[at][2] for at in nested)
        gain[inside] = np.fromiter(hits, np.float64)
    gains = np.fromiter(chain.from_iterable(rows[at][3] for at in graded), np.float64)
    return (
        *(_integers(odd), *heads, owner.tobytes(), places, item.tobytes()),
        *(gain.tobytes(), _integers(graded), gains.tobytes()),
    )


def _flattened(rows: list[Row]) -> tuple[_Array, _Array]:
    """The length of each row, and all rows one after the other."""
    widths = np.fromiter(map(len, rows), np.int64, len(rows))
    return widths, np.fromiter(chain.from_iterable(rows), np.int64, int(widths.sum()))


def _parts(
    widths: _Array, flat: _Array
) -> tuple[tuple[bytes, bytes, bytes], _Array, _Array, bytes]:
    """The heads of rows; owner and number of each hit; and the places of the hits."""
    starts = np.cumsum(widths) - widths
    hits = widths - _HEAD
    owner = np.repeat(np.arange(widths.size), hits)
    item = np.arange(owner.size) - (np.cumsum(hits) - hits)[owner]
    is_place = np.ones(flat.size, np.bool_)
    for column in range(_HEAD):
        is_place[starts + column] = False
    interacted, given, length = (flat[starts + column].tobytes() for column in range(_HEAD))
    return (interacted, given, length), owner, item, flat[is_place].tobytes()


def _integers(values: Sequence[int]) -> bytes:
    column: _Array = np.array(values, np.int64)
    return column.tobytes()
