"""Recommendations and truth, joined by user: one event for each user."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from hashlib import blake2b
from typing import Any, Final

import numpy as np

from streameval.evaluation.events import of_one_kind, span_starts
from streameval.evaluation.files import arrow
from streameval.evaluation.options import InputError, Note, Setting, Ties
from streameval.evaluation.rows import Side, by_rank, encode_ids
from streameval.events.batch import IntArray
from streameval.events.columns import Columns
from streameval.events.ragged import Array, IdColumn, Ragged
from streameval.events.rules import refuse_long

_MIX: Final = np.uint64(0x9E3779B97F4A7C15)
"""The golden ratio in 64 bits, which spreads products over all bits."""


class Joined:
    """Two sides with users and items coded together.

    Args:
        ties: order of equal scores; None for the earlier row, with a note where that decides hits.
        integers: whether ids of text become integers.

    Attributes:
        notes: warnings about the rows.
        is_integer: whether all ids of items are integers.
    """

    def __init__(
        self, recommendations: Side, truth: Side, ties: Ties | None, *, integers: bool
    ) -> None:
        self._recommendations, self._truth, self._ties = recommendations, truth, ties
        self.notes: list[Note] = []
        sides = (recommendations, truth)
        idle = [side.idle for side in sides if side.idle is not None]
        users = of_one_kind([*(side.users for side in sides), *idle])
        items = of_one_kind([side.items for side in sides], integers=integers)
        self.is_integer = bool(arrow().types.is_integer(items[0].type))
        self._users, user_codes = encode_ids(users)
        self._items, self._of = encode_ids(items)
        self._by, idle_codes = user_codes[:2], iter(user_codes[2:])
        present = [np.zeros(len(self._users), np.bool_) for _ in range(2)]
        for side, codes, of_side in zip(sides, self._by, present, strict=True):
            of_side[codes] = True
            if side.idle is not None:
                of_side[next(idle_codes)] = True
        for name, codes in zip(("recommendations", "interactions"), self._by, strict=True):
            refuse_long(name, np.bincount(codes))
        self._note_strangers(present)
        self._note_repeats()
        self._note_order()
        self._note_ties()
        self._positions = self._ranks_with_gaps()

    def columns(
        self, every: int | None, *, users: bool, scores: bool
    ) -> Iterator[tuple[int | None, Columns]]:
        """The events of each span of time, in the order of first appearance of their users.

        A user's items are sorted by descending score, or by rank; else they keep the file's order.
        A user in only the truth has an empty list, a user in only the recommendations no
        interactions. A rating is the gain of an interaction.

        Yields:
            The start of the span, microseconds since the epoch, None for all time; and its events.
        """
        times = (self._recommendations.times, self._truth.times)
        if every is None or times[0] is None or times[1] is None:
            mine, theirs = (np.arange(len(codes)) for codes in self._by)
            yield None, self._events(mine, theirs, users=users, scores=scores, whole=True)
            return
        parts = [_split(span_starts(of_side, every)) for of_side in times if of_side is not None]
        none = np.zeros(0, np.int64)
        for start in sorted(parts[0].keys() | parts[1].keys()):
            mine, theirs = (part.get(start, none) for part in parts)
            yield start, self._events(mine, theirs, users=users, scores=scores, whole=False)

    def _events(
        self, mine: IntArray, theirs: IntArray, *, users: bool, scores: bool, whole: bool
    ) -> Columns:
        codes = [self._by[0][mine], self._by[1][theirs]]
        count, names = len(self._users), self._users
        if not whole:
            present, first = np.unique(np.concatenate(codes), return_index=True)
            order = present[np.argsort(first, kind="stable")]
            renamed = np.zeros(count, np.int64)
            renamed[order] = np.arange(order.size)
            codes, count = [renamed[part] for part in codes], order.size
            names = names.take(arrow().array(order))
        ranked = mine[self._order(codes[0], mine)]
        interactions = theirs[np.argsort(codes[1], kind="stable")]
        edges, bounds = _offsets(codes[0], count), _offsets(codes[1], count)
        worth, gains = self._recommendations.worth, self._truth.worth
        if gains is not None and (gains == 1).all():
            gains = None
        return Columns(
            users=names if users else None,
            recommendations=self._lists(self._of[0][ranked], edges),
            interactions=self._lists(self._of[1][interactions], bounds),
            gains=None if gains is None else (gains[interactions], bounds),
            scores=(worth[ranked], edges) if scores and worth is not None else None,
            positions=None if self._positions is None else (self._positions[ranked], edges),
        )

    def _lists(self, codes: IntArray, offsets: IntArray) -> IdColumn:
        if self.is_integer:
            return IdColumn(Ragged(self._items.to_numpy()[codes], offsets))
        return IdColumn(Ragged(codes, offsets), self._names)

    @cached_property
    def _names(self) -> list[str]:
        names: list[str] = self._items.to_pylist()
        return names

    def _order(self, users: IntArray, rows: IntArray) -> IntArray:
        keys, side = [users], self._recommendations
        if side.by_rank and side.ranks is not None:
            keys.insert(0, side.ranks[rows])
        elif side.worth is not None:
            keys.insert(0, -side.worth[rows])
            if self._ties not in (None, "arrival"):
                keys.insert(0, self._tie_key[rows])
        return np.lexsort(keys)

    @cached_property
    def _tie_key(self) -> Array:
        """What orders rows of equal scores, the smallest first."""
        if self._ties == "worst":
            return self._hits.astype(np.int64)
        if self._ties == "random":
            users, items = (
                hashes_of(map(str, of.to_pylist())) for of in (self._users, self._items)
            )
            return mixed_hashes(users[self._by[0]], items[self._of[0]])
        order = np.empty(len(self._items), np.int64)
        order[arrow("compute").sort_indices(self._items).to_numpy()] = np.arange(order.size)
        by_id: IntArray = order[self._of[0]]
        return by_id if self._ties == "id_asc" else -by_id

    @property
    def _hits(self) -> Array:
        worth, size = self._truth.worth, max(1, len(self._items))
        liked = np.ones(len(self._by[1]), np.bool_) if worth is None else worth > 0
        mine, theirs = (by * size + of for by, of in zip(self._by, self._of, strict=True))
        return np.isin(mine, theirs[liked])

    def _note_strangers(self, present: list[Array]) -> None:
        """Refuse sides that share no user, or of which one has no rows; note ids of one side."""
        recommendations, truth = self._recommendations, self._truth
        sides = {"recommendations": recommendations, "truth": truth}
        empty = [name for name, side in sides.items() if not side.size and side.idle is None]
        if len(empty) == 1:
            raise InputError(
                "{setting} has no rows; give the users and items of both.",
                setting=Setting(empty[0]),
            )
        both = int((present[0] & present[1]).sum())
        if not empty and not both:
            raise InputError(
                "{problem}", problem=_strangers("user", recommendations.users, truth.users)
            )
        if recommendations.size and truth.size and not np.isin(self._of[0], self._of[1]).any():
            problem = _strangers("item", recommendations.items, truth.items)
            self._note("{problem}", problem=problem)
        without = [int((~part).sum()) for part in present]
        # Spans of time may lack some users.
        if recommendations.times is None and any(without):
            self._note(
                f"users in both files: {both:,}; without recommendations: {without[0]:,}; "
                f"without truth: {without[1]:,}. All of them are events."
            )

    def _note(self, text: str, /, **values: Setting | str) -> None:
        self.notes.append(Note(text, **values))

    def note_repeats_in_truth(self) -> None:
        """Note rows that repeat an item of the same user, for systems that count them."""
        pairs = self._by[1] * max(1, len(self._items)) + self._of[1]
        repeats = pairs.size - np.unique(pairs).size
        if repeats:
            self._note(
                f"rows of the truth that repeat an item of the same user: {repeats:,}; "
                "RecTools counts each row, and here an item counts once. Remove them for the "
                "values of both."
            )

    def _note_repeats(self) -> None:
        """Note a list with an item several times; spans of time may repeat one."""
        side = self._recommendations
        if side.times is not None or not side.size:
            return
        pairs = self._by[0] * len(self._items) + self._of[0]
        order = np.argsort(pairs, kind="stable")
        again = np.diff(pairs[order]) == 0
        if again.any():
            row = int(order[1:][again].min())
            user, item = side.users[row].as_py(), side.items[row].as_py()
            self._note(
                f"rows of recommendations that repeat an item of the same user: "
                f"{int(again.sum()):,}, for example {{example}}; each takes a rank of the "
                "list. Remove them, unless the recommender repeats items.",
                example=f"item {item!r:.40} of user {user!r:.40}",
            )

    def _note_order(self) -> None:
        """Note ranks that are all equal, and ranks that contradict the scores."""
        side, users = self._recommendations, self._by[0]
        if side.ranks is None or not side.size:
            return
        by_worth = () if side.by_rank or side.worth is None else (-side.worth,)
        order = np.lexsort((side.ranks, *by_worth, users))
        steps = np.diff(side.ranks[order])[np.diff(users[order]) == 0]
        if side.by_rank and steps.size and not steps.any():
            self._note(
                "all ranks of a user's recommendations are equal, so they keep the order of "
                "their file: is the column a rank?"
            )
        elif by_worth and (steps < 0).any():
            self._note(
                "scores and ranks of the recommendations order the items differently; they are "
                "sorted by score, or with {columns.rank=NAME} by rank."
            )

    def _note_ties(self) -> None:
        """Note lists in which the order of equal scores decides which items are hits."""
        side = self._recommendations
        if self._ties is not None or side.worth is None or side.by_rank or not side.size:
            return
        order = np.lexsort((-side.worth, self._by[0]))
        users, worth, hits = self._by[0][order], side.worth[order], self._hits[order]
        begins = np.flatnonzero(
            np.concatenate(([True], (np.diff(users) != 0) | (np.diff(worth) != 0)))
        )
        sizes = np.diff(np.append(begins, len(order)))
        of_group = np.add.reduceat(hits.astype(np.int64), begins)
        undecided = (of_group > 0) & (of_group < sizes)
        lists = np.unique(users[begins[undecided]]).size
        if lists:
            is_constant = (side.worth == side.worth[0]).all()
            self._note(
                ("all scores are equal; " if is_constant else "")
                + f"lists with equal scores for a hit and another item: {lists:,}; the earlier "
                "row comes first. {ties=worst} puts hits last, {ties=random} shuffles."
            )

    def _ranks_with_gaps(self) -> IntArray | None:
        """The rank of each row, if the ranks of a list are not 1, 2, 3, ...

        None if they are, or if they only order: some are no whole numbers, or equal in a list.
        """
        side, users, ranks = self._recommendations, self._by[0], self._recommendations.ranks
        if not side.by_rank or ranks is None or not side.size or side.times is not None:
            return None
        order, expected = by_rank(users, ranks)
        repeats = (np.diff(users[order]) == 0) & (np.diff(ranks[order]) == 0)
        if (ranks != np.floor(ranks)).any() or float(ranks.min()) < 0 or repeats.any():
            return None
        from_zero = float(ranks.min()) == 0
        if from_zero:
            self._note("ranks of the recommendations begin at 0, which is rank 1.")
        numbers = ranks.astype(np.int64) + from_zero
        gaps = numbers[order] != expected
        if not gaps.any():
            return None
        row = int(order[int(np.argmax(gaps))])
        lists = np.unique(users[order][gaps]).size
        self._note(
            f"lists with ranks that skip some, like rank {numbers[row]:,} of user {{user}}: "
            f"{lists:,}. A rank is the position at which an item was shown; if it only orders "
            "the items, number them 1, 2, 3, ...",
            user=f"{side.users[row].as_py()!r:.40}",
        )
        return numbers


def _strangers(what: str, mine: Any, theirs: Any) -> str:
    first, other = (ids[0].as_py() if len(ids) else None for ids in (mine, theirs))
    starts = f"one starts with {first!r:.40}, the other with {other!r:.40}"
    return f"no {what} is in both files: {starts}; write their ids alike."


def hashes_of(ids: Iterable[str]) -> Array:
    """A number for each id that depends on its text alone."""
    digests = b"".join(blake2b(text.encode(), digest_size=8).digest() for text in ids)
    return np.frombuffer(digests, np.uint64)


def mixed_hashes(users: Array, items: Array) -> Array:
    """The order of equal scores that a shuffle of each user's items gives, the same each time."""
    with np.errstate(over="ignore"):
        mixed = (users ^ (items * _MIX)) * _MIX
    hashes: Array = mixed ^ (mixed >> np.uint64(31))
    return hashes


def _offsets(users: IntArray, count: int) -> IntArray:
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(np.bincount(users, minlength=count))))


def _split(starts: IntArray) -> dict[int, IntArray]:
    """The indices of the rows of each start, in their order."""
    order = np.argsort(starts, kind="stable")
    begins, edges = np.unique(starts[order], return_index=True)
    return dict(zip(begins.tolist(), np.split(order, edges[1:]), strict=True)) if len(order) else {}
