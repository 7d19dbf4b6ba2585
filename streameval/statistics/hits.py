"""Where the hits are: all that rank metrics need, remembered in small integer tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any, TypeAlias

import msgspec
from msgspec.msgpack import Ext

from streameval.columns import Coded
from streameval.errors import UnlikeStateError
from streameval.events import Batch, Id, Interactions
from streameval.statistics.hittables import HitTables
from streameval.statistics.lists import GradedLists, GradedProfile, Lists, Profile
from streameval.statistics.matched import can_be_matched, matched
from streameval.statistics.profiles import HitsOptions, Profiler
from streameval.statistics.saved import check_saved

VERSION = 1
_MOST_PENDING = 8_192
"""Distinct profiles are folded at this many: a fold then costs a few milliseconds."""

_MOST_FOLDED = 65_536
"""Lists folded at once that came as columns: more would only take more memory."""

Listener: TypeAlias = Callable[[Lists], None]


class Hits:
    """Counts every list by where its hits are.

    An update finds the list's profile (interacted items, length, ranks of the hits) and adds 1 to
    its count; many pending profiles are folded at once into tables of integers. No metric runs
    per event.

    Example:
        >>> hits = Hits(HitsOptions(depth=10))
        >>> hits.update(["a", "b", "c"], ["c"])
        >>> hits.tables().view().by_interacted(10).rank.tolist()
        [3]
    """

    __slots__ = (
        "_graded",
        "_listener",
        "_pending",
        "_profiler",
        "_recent",
        "_shown",
        "_tables",
        "options",
    )

    def __init__(self, options: HitsOptions, listener: Listener | None = None) -> None:
        self.options = options
        self._profiler = Profiler(options)
        self._listener = listener
        self._tables = HitTables()
        self._recent: list[Profile] = []
        self._pending: Counter[Profile] = Counter()
        self._graded: Counter[GradedProfile] = Counter()
        self._shown: Counter[int] = Counter()

    def update(
        self,
        recommendations: Sequence[Id],
        interactions: Interactions,
        positions: Sequence[int] | None = None,
    ) -> None:
        """Count one list.

        Args:
            recommendations: item ids, rank 1 first.
            interactions: item ids, or item id -> gain (finite).
            positions: rank of each item; None means 1, 2, 3, ...
        """
        if positions is not None or type(interactions) is dict:
            self._update_slowly(recommendations, interactions, positions)
            return
        self._recent.append(self._profiler.profile(recommendations, interactions))
        if len(self._recent) >= _MOST_PENDING:
            self._count_recent()

    def update_many(self, batch: Batch) -> None:
        """Count many lists; the same content as one by one."""
        if self.options.type:
            batch = batch.of_type(self.options.type)
        if batch.positions is not None or dict in set(map(type, batch.interactions)):
            placed = batch.positions or repeat(None, len(batch))
            for row in zip(batch.recommendations, batch.interactions, placed, strict=True):
                self.update(*row)
            return
        for start in range(0, len(batch), _MOST_PENDING):
            rows = slice(start, start + _MOST_PENDING)
            columns = batch.recommendations[rows], batch.interactions[rows]
            self._count(map(self._profiler.profile, *columns))

    def update_coded(self, coded: Coded) -> None:
        """Count many lists whose ids are numbers; the same content as one by one."""
        if not can_be_matched(self.options, coded):
            self.update_many(coded.batch)
            return
        for start in range(0, len(coded), _MOST_FOLDED):
            lists = matched(self.options, coded.rows(start, start + _MOST_FOLDED))
            self._fold_lists(lists, graded=0)

    def _count_recent(self) -> None:
        self._count(self._recent)
        self._recent.clear()

    def _count(self, profiles: Iterable[Profile]) -> None:
        self._pending.update(profiles)
        if len(self._pending) >= _MOST_PENDING:
            self._fold_pending()

    def _update_slowly(
        self,
        recommendations: Sequence[Id],
        interactions: Interactions,
        positions: Sequence[int] | None,
    ) -> None:
        outcome = self._profiler.outcome(recommendations, interactions, positions)
        if isinstance(outcome[0], tuple):
            self._graded[outcome] += 1
        else:
            self._recent.append(outcome)
            if len(self._recent) >= _MOST_PENDING:
                self._count_recent()
        self._shown.update(self._profiler.ranks_shown(positions or ()))
        if len(self._graded) >= _MOST_PENDING:
            self._fold_graded()

    def fold(self) -> None:
        """Move what is pending into the tables; changes no value."""
        if self._shown:
            self._tables.add_shown(self._shown)
            self._shown.clear()
        if self._recent:
            self._pending.update(self._recent)
            self._recent.clear()
        if self._pending:
            self._fold_pending()
        if self._graded:
            self._fold_graded()

    def _fold_pending(self) -> None:
        self._fold_lists(Lists(list(self._pending), self._pending.values()), graded=0)
        self._pending.clear()

    def _fold_graded(self) -> None:
        self._fold_lists(GradedLists(self._graded), graded=1)
        self._graded.clear()

    def _fold_lists(self, lists: Lists, *, graded: int) -> None:
        self._tables.add(lists, graded=graded)
        if self._listener is not None:
            self._listener(lists)

    def tables(self) -> HitTables:
        """Everything counted so far; to be read, not changed."""
        self.fold()
        return self._tables

    def merge(self, other: Hits) -> None:
        """Add what another one counted.

        Raises:
            UnlikeStateError: its options differ.
        """
        if other.options != self.options:
            raise UnlikeStateError("hits", self.options, other.options)
        self.fold()
        self._tables.merge(other.tables())

    def state_dict(self) -> dict[str, Any]:
        """Plain integers and strings; equal content gives equal state."""
        options: dict[str, Any] = msgspec.to_builtins(self.options)
        return {"version": VERSION, "options": options, **self.tables().state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take the place of the content by what `state_dict` gave.

        Raises:
            StateVersionError: the version is not known.
            UnlikeStateError: its options differ.
        """
        check_saved("hits", state, VERSION, self.options)
        for waiting in (self._recent, self._pending, self._graded, self._shown):
            waiting.clear()
        self._tables.load_state_dict(state)

    def copy(self, listener: Listener | None = None) -> Hits:
        """An independent one with the same content, and a listener of its own."""
        twin = Hits(self.options, listener)
        twin._tables = self._tables.copy()
        twin._recent = self._recent.copy()
        for name in ("_pending", "_graded", "_shown"):
            # As a dict: a Counter would count them one by one.
            dict.update(getattr(twin, name), getattr(self, name))
        return twin

    def dump(self) -> Iterator[bytes]:
        """The content as msgpack, in pieces; equal content gives equal bytes."""
        yield from self.tables().dump()

    def adopt(self, saved: bytes | msgspec.Raw) -> None:
        """Take the place of the content by what `dump` gave.

        Raises:
            ValueError: it is not what that gave.
            msgspec.DecodeError: it is no msgpack of that kind.
        """
        fresh = HitTables()
        fresh.adopt(msgspec.msgpack.decode(saved, type=list[list[Ext]]))
        for waiting in (self._recent, self._pending, self._graded, self._shown):
            waiting.clear()
        self._tables = fresh

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Hits) and self.state_dict() == other.state_dict()

    __hash__ = None  # type: ignore[assignment]  # changes as it counts
