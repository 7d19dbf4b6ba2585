"""Random lists of users with scores, ranks and interactions, and the state that they must have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from hypothesis import strategies as st

from streameval import Accumulator, Intervals, evaluate

METRICS = ("ndcg@3", "mrr", "recall@2", "map@3", "ctr@2", "distinct_items@3", "users_covered")

_WORDS = ("a", "b c", "é,1", "日;2", 'i"3', "007", "7")


class Row(NamedTuple):
    """An item of a list; `rank` is the position at which it was shown."""

    user: Any
    item: Any
    score: float
    rank: int


class World(NamedTuple):
    """Rows of recommendations, sorted by user and rank, and the interactions of each user.

    Attributes:
        seen: items of each user that the lists leave out; some are in no list.
    """

    rows: Sequence[Row]
    truth: Mapping[Any, Sequence[Any]]
    seen: Mapping[Any, Sequence[Any]]

    @property
    def frame(self) -> pd.DataFrame:
        """The rows with scores and ranks."""
        return pd.DataFrame(self.rows, columns=Row._fields)

    @property
    def lists(self) -> dict[Any, list[Any]]:
        """The items of each user, in order."""
        lists: dict[Any, list[Any]] = {}
        for row in self.rows:
            lists.setdefault(row.user, []).append(row.item)
        return lists

    def counted(self, *, ranked: bool, left_out: bool) -> bytes:
        """The state of an accumulator that was given one list after the other.

        `ranked`: whether a rank is the position at which an item was shown.
        """
        one, lists = Accumulator(*METRICS, intervals=Intervals()), []
        for user in dict.fromkeys([*self.lists, *self.truth]):
            seen = self.seen.get(user, ()) if left_out else ()
            rows = [row for row in self.rows if row.user == user]
            shown = [row for row in rows if row.item not in seen]
            ranks = [
                row.rank - sum(other.item in seen and other.rank < row.rank for other in rows)
                for row in shown
            ]
            lists.append((user, [row.item for row in shown], ranks))
        have_gaps = any(ranks != [*range(1, len(ranks) + 1)] for _, _, ranks in lists)
        for user, items, ranks in lists:
            positions = ranks if ranked and have_gaps else None
            one.update(items, self.truth.get(user, []), positions=positions, user=user)
        return b"".join(one.dump())


def state(*given: Any, **options: Any) -> bytes:
    """The state of what `evaluate` counts."""
    return b"".join(evaluate(*given, *METRICS, **options).accumulator().dump())


@st.composite
def worlds(draw: st.DrawFn, *, words: Sequence[Any] = _WORDS, text: bool = False) -> World:
    """Users of one side, repeats, ranks with gaps, lists left out whole; words or integers."""
    items: Sequence[Any] = words if text or draw(st.booleans()) else range(5, 12)
    users: Sequence[Any] = [f"u{n}" for n in range(5)] if text else range(90, 95)
    item, rows = st.sampled_from(items), []
    some = st.dictionaries(
        st.sampled_from(users), st.lists(item, min_size=1, max_size=3), min_size=1
    )
    lists = draw(
        st.dictionaries(st.sampled_from(users), st.lists(item, min_size=1, max_size=5), min_size=1)
    )
    for user, listed in lists.items():
        rank = 0
        for index, of in enumerate(listed):
            rank += draw(st.sampled_from([1, 1, 1, 2, 5]))
            rows.append(Row(user, of, (10.0 - index) / 8, rank))
    # Somebody is on both sides.
    truth = {**draw(some), rows[0].user: draw(st.lists(item, min_size=1, max_size=3))}
    nobody = st.sampled_from([*items, words[0] * 9 if isinstance(items[0], str) else 10**12])
    seen = draw(
        st.dictionaries(
            st.sampled_from([*users, "nobody" if text else 10**9]), st.lists(nobody, max_size=4)
        )
    )
    return World(rows, truth, seen)


def column(values: Sequence[Any]) -> Any:
    """An array of objects, for a frame whose column may be of lists."""
    array = np.empty(len(values), object)
    array[:] = values
    return array
