"""The kernel in Python, short and plain, for machines without a wheel or a compiler.

It takes the same rows and gives the same columns as the one in C.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise
from typing import Any, Final, NamedTuple

from streameval.events import LARGEST_GAIN, LARGEST_RANK
from streameval.events.batch import IntArray
from streameval.events.ids import BUILT_IN, IdKind
from streameval.events.rules import MARKS, RESERVED
from streameval.statistics.kernel.interface import BLOCK, MatchBytes

_LISTS: Final = frozenset({list, tuple})
_COLLECTIONS: Final = frozenset({list, tuple, set, frozenset, dict})
_NUMBERS: Final = frozenset({int, float})


class _ListRow(NamedTuple):
    """A list with its interactions: see `Matches`.

    Attributes:
        gains: of a mapping; empty for other interactions.
        ranks: the explicit rank of each item, if there are any.
    """

    interacted: int = 0
    interaction_count: int = 0
    length: int = 0
    rank_index: Sequence[int] = ()
    item: Sequence[int] = ()
    gain: Sequence[float] = ()
    gains: Sequence[float] = ()
    ranks: Sequence[int] = ()


class _IdSearch(NamedTuple):
    types: frozenset[type]
    depth: int
    every: bool


def match(
    lists: list[Any],
    interactions: list[Any],
    kind: IdKind,
    depth: int,
    every: bool,  # noqa: FBT001  the compiled kernel takes positions only, too
    sound: bool,  # noqa: FBT001  as `every`
) -> MatchBytes:
    """See `streameval.statistics.kernel.match`."""
    if len(lists) != len(interactions):
        raise ValueError(f"{len(lists)} lists and {len(interactions)} interactions")
    search = _IdSearch(BUILT_IN[kind], depth, every)
    rows = [_row(search, *pair, sound=sound) for pair in zip(lists, interactions, strict=True)]
    odd = [at for at, row in enumerate(rows) if row is None]
    return _columns(odd, [row or _ListRow() for row in rows])


def match_codes(
    shown: IntArray,
    shown_offsets: IntArray,
    acts: IntArray,
    act_offsets: IntArray,
    depth: int,
    every: bool,  # noqa: FBT001  as `match`
) -> MatchBytes:
    """See `streameval.statistics.kernel.match_codes`."""
    lists, interactions = (
        [listed[start:stop] for start, stop in pairwise(offsets.tolist())]
        for listed, offsets in ((shown.tolist(), shown_offsets), (acts.tolist(), act_offsets))
    )
    return match(lists, interactions, "integer", depth, every, True)  # noqa: FBT003  no order by name


def lines_of(block: bytes, start: int) -> tuple[bytes, bytes, bytes, int]:
    """See `streameval.statistics.kernel.block_lines`."""
    starts, stops, numbers = array("q"), array("q"), array("q")
    *lines, _ = block[start:].split(b"\n")
    for number, line in enumerate(lines):
        stop = start + len(line)
        if line and not line.isspace():
            starts.append(start)
            stops.append(stop)
            numbers.append(number)
        start = stop + 1
    return starts.tobytes(), stops.tobytes(), numbers.tobytes(), len(lines)


class Block:
    """Rows that were taken one by one; see `streameval.statistics.kernel.Block`."""

    __slots__ = ("_rows", "_search")

    def __init__(self, kind: IdKind, depth: int, every: bool) -> None:  # noqa: FBT001  as `match`
        self._rows: list[_ListRow] = []
        self._search = _IdSearch(BUILT_IN[kind], depth, every)

    def add(
        self,
        items: Any,
        interactions: Any,
        ranks: Any = None,
        sound: bool = False,  # noqa: FBT001, FBT002  as `match`
    ) -> bool:
        """Take a list, its interactions and the rank of each item or none.

        False if the block is full, an id is odd, or the ranks do not fit. Either all rows of a
        block have ranks, whose block searches whole lists for every rank, or none has.
        """
        row = _row(self._search, items, interactions, sound=sound)
        if row is None or len(self._rows) >= BLOCK:
            return False
        if ranks is not None:
            if type(ranks) not in _LISTS or len(ranks) != len(items):
                return False
            if not all(type(rank) is int and 1 <= rank <= LARGEST_RANK for rank in ranks):
                return False
            row = row._replace(ranks=tuple(ranks))
        # One append, so that a signal handler that counts finds whole rows.
        self._rows.append(row)
        return True

    def __len__(self) -> int:
        return len(self._rows)

    def take(self) -> MatchBytes:
        """The columns of the rows taken since the last call, and their ranks."""
        rows = self._rows.copy()
        del self._rows[: len(rows)]
        return (*_columns([], rows), _whole(chain.from_iterable(row.ranks for row in rows)))

    def rows(self, start: int) -> list[bytes]:
        """The rows from `start` on, which stay in the block, each as 64-bit numbers.

        Interacted, interaction count, length, number of hits, number of gains; the rank index of
        each hit, and its item; the gain of each hit, and all gains, if there are any; the ranks.
        """
        return [
            _whole((*row[:3], len(row.rank_index), len(row.gains), *row.rank_index, *row.item))
            + (_real((*row.gain, *row.gains)) if row.gains else b"")
            + _whole(row.ranks)
            for row in self._rows[start:]
        ]


def _row(search: _IdSearch, items: Any, interactions: Any, *, sound: bool) -> _ListRow | None:
    """The row of a list with its interactions, or None if it is odd."""
    are_built_in = search.types.issuperset
    if type(items) not in _LISTS or type(interactions) not in _COLLECTIONS:
        return None
    # First, because subclasses have methods of their own, which decide on equality.
    if not (are_built_in(map(type, items)) and are_built_in(map(type, interactions))):
        return None
    if not sound:
        if not (RESERVED.isdisjoint(items) and RESERVED.isdisjoint(interactions)):
            return None
        if (
            type(interactions) in _LISTS
            and len(interactions) > 1
            and MARKS.issuperset(interactions)
        ):
            return None
    has_gains = type(interactions) is dict
    if has_gains and not all(
        type(gain) in _NUMBERS and abs(gain) <= LARGEST_GAIN for gain in interactions.values()
    ):
        return None
    interacted = interactions if has_gains else frozenset(interactions)
    rank_index, item, numbers = list[int](), list[int](), dict[Any, int]()
    for at, recommended in enumerate(items[: search.depth]) if interacted else ():
        if recommended in interacted and (search.every or recommended not in numbers):
            rank_index.append(at)
            item.append(numbers.setdefault(recommended, len(numbers)))
    gain = (
        [float(interactions[items[at]]) for at in rank_index]
        if has_gains
        else [1.0] * len(rank_index)
    )
    gains = [*map(float, interactions.values())] if has_gains else ()
    length = min(len(items), search.depth)
    return _ListRow(len(interacted), len(interactions), length, rank_index, item, gain, gains)


def _columns(odd: Iterable[int], rows: Sequence[_ListRow]) -> MatchBytes:
    graded = [at for at, row in enumerate(rows) if row.gains]
    list_index = (at for at, row in enumerate(rows) for _ in row.rank_index)
    heads = ([row[column] for row in rows] for column in range(3))
    rank_index, item = chain(*(row.rank_index for row in rows)), chain(*(row.item for row in rows))
    gain = chain(*(row.gain for row in rows)) if graded else ()
    gains = chain(*(row.gains for row in rows))
    integers: Iterator[Any] = iter((odd, *heads, list_index, rank_index, item))
    return (*map(_whole, integers), _real(gain), _whole(graded), _real(gains))


def _whole(numbers: Iterable[int]) -> bytes:
    return array("q", numbers).tobytes()


def _real(numbers: Iterable[float]) -> bytes:
    return array("d", numbers).tobytes()
