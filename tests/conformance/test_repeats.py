"""RePlay keeps as many rows as its largest cut-off, and only then takes an item's repeats out.

So its value at one cut-off depends on the others it is asked for. Version 0.9 took repeats out
first. Numbers here are worked out by hand: the lists are 1 1 2 3 for a user with 2 and 3 relevant,
and 4 4 5 4 for one with 5.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from tests.conformance.claims import Tolerance
from tests.conformance.recorded import case_of
from tests.conformance.ways import Shared, every_way
from tests.effort import every_case

USERS = [
    {"user": "a", "recommendations": [1, 1, 2, 3], "relevant": [2, 3]},
    {"user": "b", "recommendations": [4, 4, 5, 4], "relevant": [5]},
]
CONTEXT = {
    # Of four users all had 1 and 5, two had 2, one had 3, none had 4.
    "log": [*((u, i) for u in range(4) for i in (1, 5)), (0, 2), (1, 2), (0, 3)],
    "baseline": [
        {"user": "a", "recommendations": [2, 2, 7]},
        {"user": "b", "recommendations": [9]},
    ],
    "log_items": [1, 2, 3, 4, 5],
}
SECOND = 1 / math.log2(3)
"""What a hit at rank 2 is worth to NDCG."""

AT_2 = {
    # The lists are 1 and 4 where two rows are kept, 1 2 and 4 5 where three are.
    "HitRate": (0, 1),
    "Precision": (0, 1 / 2),
    "MAP": (0, (1 / 4 + 1 / 2) / 2),
    "Recall": (0, 3 / 4),
    "MRR": (0, 1 / 2),
    "NDCG": (0, (SECOND / (1 + SECOND) + SECOND) / 2),
    "RocAuc": (0, 0),
    "Surprisal": (1 / 4, (1 / 4 + 1 / 2) / 2),
    "Unexpectedness": (1, 3 / 4),
    "Coverage": (2 / 5, 2 / 5),
}
AT_3 = {
    # The lists are 1 2 and 4 5 where three rows are kept, 1 2 3 and 4 5 where four are.
    "HitRate": (1, 1),
    "Precision": (1 / 2, (2 / 3 + 1 / 2) / 2),
    "MAP": ((1 / 4 + 1 / 2) / 2, (7 / 12 + 1 / 2) / 2),
    "Recall": (3 / 4, 1),
    "MRR": (1 / 2, 1 / 2),
    "NDCG": (
        (SECOND / (1 + SECOND) + SECOND) / 2,
        ((SECOND + 1 / 2) / (1 + SECOND) + SECOND) / 2,
    ),
    "RocAuc": (0, 0),
    "Surprisal": ((1 / 6 + 1 / 3) / 2, (1 / 2 + 1 / 3) / 2),
    "Unexpectedness": (5 / 6, 5 / 6),
    "Coverage": (4 / 5, 4 / 5),
}


def _mistakes(metric: str, row: Mapping[str, Any]) -> list[str | None]:
    known = {"expected": {}, "users": USERS, "context": CONTEXT, **row}
    case = case_of(metric, "replay", metric, known, Tolerance(1e-12, 0.0))
    part = case.parts[0]
    ways = every_way(Shared.of((case, part)))
    for how, way in ways.items():
        assert way.state_dict() == ways["one by one"].state_dict(), how
    # Equal states give equal values.
    return [
        claim.mistake(ways["in another order"].read(claim.text), case.tolerance)
        for claim in part.claims
    ]


@every_case("metric", AT_2)
def test_the_largest_cutoff_says_how_many_rows_there_are(metric: str) -> None:
    (two, three), (at_3, four) = AT_2[metric], AT_3[metric]
    alone = {"params": {"k": 2}, "expected": {"mean": two}}
    with_3 = {"params": {"k": [2, 3]}, "expected": {"by_k": {"2": three, "3": at_3}}}
    with_4 = {"params": {"k": [4, 3]}, "expected": {"by_k": {"3": four}}}
    for row, values in ((alone, 1), (with_3, 2), (with_4, 1)):
        assert _mistakes(metric, row) == [None] * values


@every_case("metric", [name for name in AT_2 if name != "Coverage"])
def test_in_version_0_9_repeats_take_no_row(metric: str) -> None:
    later = {"mean": AT_3[metric][0]}
    row = {
        "params": {"k": 3},
        "expected": later,
        "expected_0_9": {"mean": AT_3[metric][1]},
    }
    assert _mistakes(metric, row) == [None] * 2
