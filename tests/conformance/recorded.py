"""The files: what the systems' real code returned, case by case.

STREAMEVAL_GOLDEN names a folder to read instead of the one beside this file.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from tests.conformance.systems import ANSWERS
from tests.metrics.preparation import Shown

OURS = Path(__file__).parent / "golden"
FOLDER = Path(os.environ.get("STREAMEVAL_GOLDEN", OURS))


@dataclass(frozen=True)
class Case:
    """One case at one cut-off.

    expected: the mean; per_user: each user's own value where it was recorded, NaN for null;
    rel_tol, abs_tol: how close a value must come.
    """

    name: str
    text: str
    events: Sequence[Shown]
    expected: float
    per_user: Sequence[float]
    rel_tol: float
    abs_tol: float

    def agrees(self, value: float, expected: float) -> bool:
        if math.isnan(expected):
            return math.isnan(value)
        return math.isclose(value, expected, rel_tol=self.rel_tol, abs_tol=self.abs_tol)


def recorded(system: str, metric: str) -> Path:
    return FOLDER / f"{system}__{metric}.json"


def cases() -> list[Case]:
    """Every case of every file that one of our metrics answers to."""
    return [case for system, metric in ANSWERS for case in _of_file(system, metric)]


def _of_file(system: str, metric: str) -> Iterator[Case]:
    content: dict[str, Any] = msgspec.json.decode(recorded(system, metric).read_bytes())
    answer = ANSWERS[system, metric]
    for case in content["cases"]:
        events = [answer.inputs(user) for user in case["users"]]
        for k, expected in _expected(case).items():
            yield Case(
                name=f"{system}:{metric}@{k}-{case['name']}",
                text=answer.text.format(k=k),
                events=events,
                expected=_number(expected["mean"]),
                per_user=[_number(value) for value in expected.get("per_user") or ()],
                rel_tol=content["params"]["rel_tol"],
                abs_tol=content["params"]["abs_tol"],
            )


def _expected(case: Mapping[str, Any]) -> Mapping[object, Any]:
    """By cut-off: a case asks for one, or for several at once."""
    found: Mapping[object, Any] = case["expected"].get("by_k") or {
        case["params"]["k"]: case["expected"]
    }
    return found


def _number(value: float | None) -> float:
    return math.nan if value is None else value
