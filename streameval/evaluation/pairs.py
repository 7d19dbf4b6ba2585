"""Recommendations and truth, joined by user: one event for each user."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from hashlib import blake2b
from typing import Any, Final

import numpy as np

from streameval.decoding.fields import EventFields
from streameval.engine.windows.times import Spans
from streameval.evaluation.arguments import NOTHING_TO_EXCLUDE, InputError, Note, Setting, Ties
from streameval.evaluation.coded import are_in, codes_in, merge_coded
from streameval.evaluation.files import arrow
from streameval.evaluation.item_rows import PairSide
from streameval.events import Combine, Id
from streameval.events.batch import IntArray
from streameval.events.columns import Columns
from streameval.events.ragged import Array, IdColumn, Ragged
from streameval.events.rules import refuse_long

_MIX: Final = np.uint64(0x9E3779B97F4A7C15)
"""The golden ratio in 64 bits, which spreads products over all bits."""


class Joined:
    """Two sides with users and items coded together.

    Args:
        exclude: rows that the lists leave out; None for none. The items below move up, and a user
            whose whole list is left out has an empty one.
        ties: order of equal scores; None for the earlier row, with a note where that decides hits.
        fields: say whether ids of text become integers, and how several gains of an item combine.

    Attributes:
        notes: warnings about the rows.
        is_integer: whether all ids of items are integers.
        uses_ties: whether scores order the lists, which may be equal.
    """

    def __init__(
        self,
        recommendations: PairSide,
        truth: PairSide,
        exclude: PairSide | None,
        ties: Ties | None,
        fields: EventFields,
    ) -> None:
        self._recommendations, self._truth, self._ties = recommendations, truth, ties
        self._how: Combine = fields.combine
        integers = fields.ids == "integer"
        self.notes: list[Note] = []
        self.uses_ties = recommendations.values is not None and not recommendations.by_rank
        sides = (recommendations, truth)
        idle = [side.idle for side in sides if side.idle is not None]
        users, user_codes = merge_coded([*(side.users for side in sides), *idle])
        has_integers = any(arrow().types.is_integer(side.users.type.value_type) for side in sides)
        self._users = _as_integers(users) if has_integers else users
        self._items, self._of = merge_coded([side.items for side in sides], integers=integers)
        self.is_integer = bool(arrow().types.is_integer(self._items.type))
        self._by, idle_codes = user_codes[:2], iter(user_codes[2:])
        present = [np.zeros(len(self._users), np.bool_) for _ in range(2)]
        for side, codes, of_side in zip(sides, self._by, present, strict=True):
            of_side[codes] = True
            if side.idle is not None:
                of_side[next(idle_codes)] = True
        self._left_out = None if exclude is None else self._rows_of(exclude, integers=integers)
        in_lists = self._by[0] if self._left_out is None else self._by[0][~self._left_out]
        for name, codes in zip(
            ("recommendations", "interactions"), (in_lists, self._by[1]), strict=True
        ):
            refuse_long(name, np.bincount(codes))
        self._note_strangers(present)
        # A rank is a position in the list of which items are left out, so that is sorted first.
        order = self._sort_lists()
        self._note_order(order)
        self._positions = self._ranks_with_gaps(order)
        self._order = order if self._left_out is None else order[~self._left_out[order]]
        self._note_repeats()
        self._order_ties()

    @cached_property
    def users(self) -> list[Id]:
        """All users, in order of appearance."""
        users: list[Id] = self._users.to_pylist()
        return users

    def columns(
        self, every: Spans | None, *, users: bool, scores: bool
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
            recommended, truth = (np.arange(len(codes)) for codes in self._by)
            yield None, self._events(recommended, truth, users=users, scores=scores, complete=True)
            return
        parts = [_split(every.starts(of_side)) for of_side in times if of_side is not None]
        none = np.zeros(0, np.int64)
        for start in sorted(parts[0].keys() | parts[1].keys()):
            recommended, truth = (part.get(start, none) for part in parts)
            yield (
                start,
                self._events(recommended, truth, users=users, scores=scores, complete=False),
            )

    def _events(
        self, recommended: IntArray, truth: IntArray, *, users: bool, scores: bool, complete: bool
    ) -> Columns:
        codes = [self._by[0][recommended], self._by[1][truth]]
        count, names, ranked = len(self._users), self._users, self._order
        if not complete:
            present, first = np.unique(np.concatenate(codes), return_index=True)
            order = present[np.argsort(first, kind="stable")]
            renamed = np.zeros(count, np.int64)
            renamed[order] = np.arange(order.size)
            codes, count = [renamed[part] for part in codes], order.size
            names = names.take(arrow().array(order))
            rank, user_of = (np.full(len(self._by[0]), -1) for _ in range(2))
            rank[self._order], user_of[recommended] = np.arange(len(self._order)), codes[0]
            ranked = recommended[rank[recommended] >= 0]
            ranked = ranked[np.lexsort((rank[ranked], user_of[ranked]))]
            codes[0] = user_of[ranked]
        elif self._left_out is not None:
            codes[0] = codes[0][ranked]
        interactions = truth[np.argsort(codes[1], kind="stable")]
        edges, bounds = _offsets(codes[0], count), _offsets(codes[1], count)
        recommended_scores, gains = self._recommendations.values, self._truth.values
        if gains is not None and (gains == 1).all():
            gains = None
        return Columns(
            users=names if users else None,
            recommendations=self._lists(self._of[0][ranked], edges),
            interactions=self._lists(self._of[1][interactions], bounds),
            gains=None if gains is None else (gains[interactions], bounds),
            scores=(recommended_scores[ranked], edges)
            if scores and recommended_scores is not None
            else None,
            positions=None if self._positions is None else (self._positions[ranked], edges),
            combine=self._how,
        )

    def _lists(self, codes: IntArray, offsets: IntArray) -> IdColumn:
        if self.is_integer:
            return IdColumn(Ragged(self._items.to_numpy()[codes], offsets))
        return IdColumn(Ragged(codes, offsets), self._names)

    @cached_property
    def _names(self) -> list[str]:
        names: list[str] = self._items.to_pylist()
        return names

    def _rows_of(self, exclude: PairSide, *, integers: bool) -> Array:
        """True if each row of the recommendations is left out; notes if nothing can be."""
        users, items = (
            codes_in(ids, of_rows, integers=of_items and integers)
            for ids, of_rows, of_items in (
                (self._users, exclude.users, False),
                (self._items, exclude.items, True),
            )
        )
        if not exclude.size:
            self._note(NOTHING_TO_EXCLUDE)
        for what, matches, ids, recommended in (
            ("user", users, exclude.users, self._users),
            ("item", items, exclude.items, self._items),
        ):
            if exclude.size and (matches < 0).all():
                self._note(
                    "{exclude} leaves nothing out, as no {what} of it is in the recommendations or "
                    "the truth: {starts}",
                    what=what,
                    starts=_first_ids(ids, recommended),
                )
                break
        is_recommended = (users >= 0) & (items >= 0)
        return are_in(self._pairs(0), self._pair_of(users[is_recommended], items[is_recommended]))

    def _pairs(self, side: int) -> IntArray:
        """A number for user and item of each row."""
        return self._pair_of(self._by[side], self._of[side])

    def _pair_of(self, users: IntArray, items: IntArray) -> IntArray:
        pairs: IntArray = users * max(1, len(self._items)) + items
        return pairs

    def _sort_lists(self) -> IntArray:
        """The rows by user, each list by rank or by descending score, else in the file's order."""
        side, users = self._recommendations, self._by[0]
        if side.by_rank and side.ranks is not None:
            return np.lexsort((side.ranks, users))
        if side.values is not None:
            return np.lexsort((-side.values, users))
        return np.argsort(users, kind="stable")

    def _equal_scores(self, order: IntArray) -> Array:
        """True if the row at each index of a sorted order has the score of the one before."""
        values, users = self._recommendations.values, self._by[0]
        again = np.zeros(len(order), np.bool_)
        if values is not None and len(order):
            users, values = users[order], values[order]
            again[1:] = (users[1:] == users[:-1]) & (values[1:] == values[:-1])
        return again

    def _order_ties(self) -> None:
        """Order equal scores; note lists in which the earlier row decides which items are hits."""
        side = self._recommendations
        if side.by_rank or side.values is None or self._ties == "arrival":
            return
        again = self._equal_scores(self._order)
        is_tied = again | np.append(again[1:], False)
        at = np.flatnonzero(is_tied)
        if not at.size:
            return
        rows, group = self._order[at], np.cumsum(~again[at]) - 1
        if self._ties is not None:
            self._order[at] = rows[np.lexsort((self._tie_keys(rows), group))]
            return
        hits, sizes = np.bincount(group, self._hits(rows)), np.bincount(group)
        undecided = (hits > 0) & (hits < sizes)
        lists = np.unique(self._by[0][rows][~again[at]][undecided]).size
        if lists:
            values = side.values if self._left_out is None else side.values[~self._left_out]
            self._note(
                ("all scores are equal; " if (values == values[0]).all() else "")
                + f"lists with equal scores for a hit and another item: {lists:,}; the earlier "
                "row comes first. {ties=worst} puts hits last, {ties=random} shuffles."
            )

    def _tie_keys(self, rows: IntArray) -> Array:
        """Sort keys of rows with equal scores, the smallest first."""
        users, items = self._by[0][rows], self._of[0][rows]
        if self._ties == "worst":
            return self._gains(rows)
        if self._ties == "random":
            of_users, of_items = (
                hashes_of(map(str, of.to_pylist())) for of in (self._users, self._items)
            )
            return mixed_hashes(of_users[users], of_items[items])
        order = np.empty(len(self._items), np.int64)
        order[arrow("compute").sort_indices(self._items).to_numpy()] = np.arange(order.size)
        by_id: IntArray = order[items]
        return by_id if self._ties == "id_asc" else -by_id

    def _hits(self, rows: IntArray) -> Array:
        """True if the user of each of these rows interacted with its item."""
        values, liked = self._truth.values, self._pairs(1)
        pairs = self._pair_of(self._by[0][rows], self._of[0][rows])
        return are_in(pairs, liked if values is None else liked[values > 0])

    def _gains(self, rows: IntArray) -> Array:
        """The gain of the item of each of these rows for its user; 0 without an interaction."""
        values, pairs = self._truth.values, self._pairs(1)
        if values is None:
            return self._hits(rows).astype(np.float64)
        of_truth, pair_index = np.unique(pairs, return_inverse=True)
        gains = np.full(of_truth.size, 0.0 if self._how == "sum" else -np.inf)
        (np.add if self._how == "sum" else np.maximum).at(gains, pair_index, values)
        requested = self._pair_of(self._by[0][rows], self._of[0][rows])
        at = np.minimum(np.searchsorted(of_truth, requested), max(0, of_truth.size - 1))
        return (
            np.where(of_truth[at] == requested, gains[at], 0.0)
            if of_truth.size
            else requested * 0.0
        )

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
        is_in_truth = np.zeros(len(self._items), np.bool_)
        is_in_truth[self._of[1]] = True
        if recommendations.size and truth.size and not is_in_truth[self._of[0]].any():
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
        pairs = self._pairs(1)
        repeats = pairs.size - np.unique(pairs).size
        if repeats:
            self._note(
                f"rows of the truth that repeat an item of the same user: {repeats:,}; "
                "RecTools counts each row, and here an item counts once. Remove them to get the "
                "same value in both."
            )

    def _note_repeats(self) -> None:
        """Note a list with an item several times; spans of time may repeat one."""
        side, rows = self._recommendations, np.sort(self._order)
        if side.times is not None:
            return
        pairs = self._pairs(0)[rows]
        if (np.diff(np.sort(pairs)) != 0).all():
            return
        order = np.argsort(pairs, kind="stable")
        again = np.diff(pairs[order]) == 0
        row = int(rows[order[1:][again].min()])
        user, item = side.users[row].as_py(), side.items[row].as_py()
        self._note(
            f"rows of recommendations that repeat an item of the same user: "
            f"{int(again.sum()):,}, for example {{example}}; each takes a rank of the "
            "list. Remove them, unless the recommender repeats items.",
            example=f"item {item!r:.40} of user {user!r:.40}",
        )

    def _note_order(self, order: IntArray) -> None:
        """Note ranks that are all equal, and ranks that contradict the scores."""
        side, users = self._recommendations, self._by[0]
        if side.ranks is None or not side.size:
            return
        by_value = not side.by_rank and side.values is not None
        if by_value:
            group = np.cumsum(~self._equal_scores(order))
            order = order[np.lexsort((side.ranks[order], group))]
        steps = np.diff(side.ranks[order])[np.diff(users[order]) == 0]
        if side.by_rank and steps.size and not steps.any():
            self._note(
                "all ranks of a user's recommendations are equal, so they keep the order of "
                "their file: is the column a rank?"
            )
        elif by_value and (steps < 0).any():
            self._note(
                "scores and ranks of the recommendations order the items differently; they are "
                "sorted by score, or with {columns.rank=NAME} by rank."
            )

    def _ranks_with_gaps(self, order: IntArray) -> IntArray | None:
        """The rank of each row, if the ranks of a list are not 1, 2, 3, ...

        None if they are, or if they only order: some are not whole numbers, or equal in a list.
        Each rank is that of the whole list, minus the items above that are left out.
        """
        side, users, ranks = self._recommendations, self._by[0], self._recommendations.ranks
        if not side.by_rank or ranks is None or not side.size or side.times is not None:
            return None
        users, ranks = users[order], ranks[order]
        same = users[1:] == users[:-1]
        repeats = same & (ranks[1:] == ranks[:-1])
        if (ranks != np.floor(ranks)).any() or float(ranks.min()) < 0 or repeats.any():
            return None
        from_zero = float(ranks.min()) == 0
        if from_zero:
            self._note("ranks of the recommendations begin at 0, which is rank 1.")
        numbers = ranks.astype(np.int64) + from_zero
        starts = np.flatnonzero(np.append(True, ~same))
        first_of = np.repeat(starts, np.diff(np.append(starts, len(order))))
        expected = np.arange(len(order)) - first_of + 1
        gaps = numbers != expected
        if not gaps.any():
            return None
        row = int(np.argmax(gaps))
        self._note(
            f"lists with ranks that skip some, like rank {numbers[row]:,} of user {{user}}: "
            f"{np.unique(users[gaps]).size:,}. A rank is the position at which an item was shown; "
            "if it only orders the items, number them 1, 2, 3, ...",
            user=f"{side.users[int(order[row])].as_py()!r:.40}",
        )
        if self._left_out is not None:
            left_out = self._left_out[order]
            before = np.cumsum(left_out) - left_out
            before -= before[first_of]
            numbers, expected = numbers - before, expected - before
            if (numbers == expected)[~left_out].all():
                return None
        positions = np.empty(len(order), np.int64)
        positions[order] = numbers
        return positions


def _as_integers(ids: Any) -> Any:
    """Ids of text as the integers that they are on the other side, if all are written as such."""
    try:
        integers = ids.cast(arrow().int64())
    except arrow().ArrowInvalid:
        return ids
    return integers if integers.cast(ids.type).equals(ids) else ids


def _strangers(what: str, left: Any, right: Any) -> str:
    return f"no {what} is in both files: {_first_ids(left, right)}"


def _first_ids(left: Any, right: Any) -> str:
    first, second = (ids[0].as_py() if len(ids) else None for ids in (left, right))
    return f"one starts with {first!r:.40}, the other with {second!r:.40}; write their ids alike."


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
