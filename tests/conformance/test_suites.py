"""Values that other systems' own test suites expect: RecTools with gaps in its ranks, recommenders.

Those of the other systems are among the recorded cases. Only numbers are here: what was recommended
and liked, and what their suites say comes out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

import pandas as pd
import pytest

from streameval import evaluate

Rows = Sequence[Sequence[float]]
"""Columns: user, item and, if there is a third one, rank, score or gain."""


def frame(columns: Rows, last: str = "rank") -> pd.DataFrame:
    return pd.DataFrame(dict(zip(("user", "item", last), columns, strict=False)))


# Ranks have gaps where items that were seen before were removed.
_WITH_GAPS: Final = [
    [1, 1, 2, 3, 3, 3, 3, 3, 4, 5, 5, 5, 7, 8, 9],
    [1, 3, 1, 1, 2, 3, 4, 5, 1, 1, 2, 3, 1, 2, 1],
    [9, 1, 3, 1, 3, 5, 7, 9, 1, 1, 2, 3, 2, 1, 1],
]
_LIKED: Final = [
    [1, 1, 2, 3, 3, 3, 3, 3, 3, 4, 5, 5, 5, 6, 7, 8],
    [1, 2, 1, 1, 2, 3, 4, 5, 6, 1, 1, 2, 3, 1, 1, 1],
]
_NDCG: Final = [
    [1, 2, 3, 3, 3, 4, 5, 5, 5, 5, 6],
    [1, 2, 1, 2, 3, 1, 1, 2, 3, 5, 1],
    [9, 1, 1, 2, 3, 1, 3, 7, 9, 1, 1],
]
_MRR: Final = [column[:-1] for column in _NDCG]
_LIKED_OF_NDCG: Final = [[1, 2, 3, 3, 3, 4, 5, 5, 5, 5], [1, 1, 1, 2, 3, 1, 1, 2, 3, 4]]
_CLASSES: Final = [[1, 1, 1, 2, 2, 3, 4], [1, 2, 3, 1, 2, 1, 1], [1, 2, 3, 1, 2, 1, 1]]
_LIKED_OF_CLASSES: Final = [[1, 1, 1, 3, 4, 5], [4, 2, 3, 1, 2, 2]]
_BEST: Final = 1 + 1 / math.log2(3) + 1 / 2

_RECTOOLS: Final[Sequence[tuple[Rows, Rows, Sequence[int], Mapping[str, Sequence[float]]]]] = [
    (
        _WITH_GAPS,
        _LIKED,
        range(1, 9),
        {
            "MAP@1": [0, 0, 1 / 6, 1, 1 / 3, 0, 0, 0],
            "MAP@3": [0, 1 / 3, (1 + 2 / 3) / 6, 1, 1, 0, 1 / 2, 0],
            "MAP(denominator=k)@1": [0, 0, 1, 1, 1, 0, 0, 0],
            "MAP(denominator=k)@3": [0, 1 / 9, (1 + 2 / 3) / 3, 1 / 3, 1, 0, 1 / 6, 0],
        },
    ),
    (
        _NDCG,
        _LIKED_OF_NDCG,
        range(1, 6),
        {"NDCG@1": [0, 0, 1, 1, 0], "NDCG@3": [0, 0, 1, 1 / _BEST, 0.5 / _BEST]},
    ),
    (_MRR, _LIKED_OF_NDCG, range(1, 6), {"MRR@1": [0, 0, 1, 1, 0], "MRR@3": [0, 0, 1, 1, 1 / 3]}),
    (
        _CLASSES,
        _LIKED_OF_CLASSES,
        (1, 3, 4, 5),
        {
            "Precision@2": [0.5, 0.5, 0, 0],
            "Recall@2": [1 / 3, 1, 0, 0],
            "HitRate@2": [1, 1, 0, 0],
            f"F1Beta(beta={math.sqrt(2)!r})@2": [0.375, 0.75, 0, 0],
            "MCC@2": [1 / math.sqrt(21), 2 / 3, -1 / 6, -1 / 6],
        },
    ),
]


@pytest.mark.filterwarnings("ignore::streameval.events.errors.SuspiciousEventsWarning")
@pytest.mark.parametrize(
    ("shown", "liked", "text", "expected"),
    [
        (shown, liked, text, dict(zip(users, expected, strict=True)))
        for shown, liked, users, values in _RECTOOLS
        for text, expected in values.items()
    ],
)
def test_each_user_has_the_value_that_the_suite_of_rectools_expects(
    shown: Rows, liked: Rows, text: str, expected: Mapping[int, float]
) -> None:
    evaluation = evaluate(frame(shown), frame(liked), f"rectools:{text}", catalog=10)
    (reading,) = dict(evaluation).values()
    table = evaluation.values("user").set_index("user")[reading.metric]
    assert {user: table[user] for user in expected} == pytest.approx(expected, rel=1e-12)
    assert reading.value == pytest.approx(sum(expected.values()) / len(expected), rel=1e-12)
    # Users of the recommendations alone have no value.
    assert reading.count == len(expected)


_USERS: Final = [1, *[2] * 5, *[3] * 10, 1, 1]
_TRUE: Final = [
    _USERS,
    [3, 1, 4, 5, 6, 7, 2, 5, 6, 8, 9, 10, 11, 12, 13, 14, 1, 2],
    [3, 5, 5, 3, 3, 1, 5, 5, 5, 4, 4, 3, 3, 3, 2, 1, 5, 4],
]
_PREDICTED: Final = [
    _USERS,
    [12, 10, 3, 5, 11, 13, 4, 10, 7, 13, 1, 3, 5, 2, 11, 14, 3, 10],
    [12, 14, 13, 12, 11, 10, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 14, 13],
]


@pytest.mark.parametrize(
    ("text", "predicted", "expected"),
    [
        ("precision@10", _PREDICTED, 0.26666),
        ("recall@10", _PREDICTED, 0.37777),
        ("ndcg(gain=binary)@10", _PREDICTED, 0.38172),
        ("map@10", _PREDICTED, 0.23613),
        ("precision@10", _TRUE, 0.6),
        ("recall@10", _TRUE, 1.0),
        ("ndcg(gain=binary)@10", _TRUE, 1.0),
        ("map@10", _TRUE, 1.0),
        ("precision@10", [_USERS, [100 + n for n in range(18)], _PREDICTED[2]], 0.0),
        ("map@10", [_USERS, [100 + n for n in range(18)], _PREDICTED[2]], 0.0),
    ],
)
@pytest.mark.filterwarnings("ignore::streameval.events.errors.SuspiciousEventsWarning")
def test_scores_and_ratings_have_the_values_that_the_suite_of_recommenders_expects(
    text: str, predicted: Rows, expected: float
) -> None:
    evaluation = evaluate(frame(predicted, "score"), frame(_TRUE, "rating"), text)
    assert evaluation[text].value == pytest.approx(expected, abs=1e-4)


def test_raw_gains_have_the_textbook_value_that_recommenders_quotes() -> None:
    users = [0] * 8
    truth = frame([users, range(8), [3, 2, 3, 0, 1, 2, 3, 2]], "rating")
    shown = frame([users[:6], range(6), [6, 5, 4, 3, 2, 1]], "score")
    assert evaluate(shown, truth, "ndcg@6")["ndcg@6"].value == pytest.approx(0.785, abs=1e-4)
