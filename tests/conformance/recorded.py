"""The files: what the systems' real code returned, case by case.

STREAMEVAL_GOLDEN names a folder to read instead of the one beside this file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from streameval import Event
from tests.conformance import claims, upstream
from tests.conformance.claims import Claim, Tolerance
from tests.conformance.inputs import Recorded
from tests.conformance.systems import ANSWERS, Answer

OURS = Path(__file__).parent / "golden"
FOLDER = Path(os.environ.get("STREAMEVAL_GOLDEN") or OURS)


@dataclass(frozen=True)
class Part:
    """Events, and what is claimed of them together."""

    events: Sequence[Event]
    claims: Sequence[Claim]


@dataclass(frozen=True)
class Case:
    """One case of one file.

    once: what an Accumulator is given besides events; parts: all users together, and where some
    raise, those that do not; alone: each user by itself; weights: what each counts in
    the mean, where that is not the same.
    """

    name: str
    system: str
    metric: str
    once: Mapping[str, Any]
    tolerance: Tolerance
    parts: Sequence[Part]
    alone: Sequence[Part]
    weights: Sequence[int] = ()

    @property
    def all(self) -> Sequence[Part]:
        return [*self.parts, *self.alone]


def files() -> list[Path]:
    """All files of the folder: system__metric.json."""
    return sorted(FOLDER.glob("*__*.json"))


def cases() -> list[Case]:
    return [case for path in files() for case in cases_of(path)]


@cache
def cases_of(path: Path) -> Sequence[Case]:
    return [*cases_in(json.loads(path.read_text(encoding="utf-8")), path.stem)]


def cases_in(content: Recorded, stem: str) -> Iterator[Case]:
    """Every case of a file's content; one that names its users has those of that name."""
    for place, row in enumerate(content["cases"]):
        system, metric = content["system"], row["metric"] if "metric" in row else content["metric"]
        known = row if "input" not in row else upstream.as_users(system, metric, row)
        if isinstance(known.get("users"), str):
            known = {**known, "users": content["users"][known["users"]]}
        yield case_of(
            f"{stem}-{place}-{row['name']}",
            system,
            metric,
            known,
            _tolerance(content["params"], known["params"]),
        )


def _tolerance(of_file: Recorded, of_case: Recorded) -> Tolerance:
    absolute = of_case.get("abs_tol", of_file["abs_tol"])
    return Tolerance(absolute, of_file.get("rel_tol", 0.0), printed="abs_tol" in of_case)


def case_of(name: str, system: str, metric: str, row: Recorded, tolerance: Tolerance) -> Case:
    """A case, from a row that has users."""
    answer = ANSWERS[system, metric]
    given = answer.inputs(row)
    asked = list(_asked(row, answer))
    claimed = [claim for each in asked for claim in claims.of_all(*each)]
    by_user: dict[int, list[Claim]] = {}
    for each in asked:
        for place, found in enumerate(claims.of_each(*each)):
            by_user.setdefault(place, []).extend(found)
    alone = [Part([given.events[place]], found) for place, found in by_user.items()]
    parts = [Part(given.events, claimed), *_quiet(row, answer, given.events)]
    weights = row["expected"].get("weights", ())
    return Case(name, system, metric, given.once, tolerance, parts, alone, weights)


def _asked(
    row: Recorded, answer: Answer
) -> Iterator[tuple[Answer, Recorded, int | None, Recorded]]:
    """Our answers, for each cut-off, with what is expected there."""
    for each, expected in claims.variants(row, answer):
        for k, found in claims.at_cutoffs(row, expected).items():
            yield each, row["params"], k, found


def _quiet(row: Recorded, answer: Answer, events: Sequence[Event]) -> Iterator[Part]:
    """Users whose own value raised nothing, where no parameter of ours leaves the others out."""
    expected = row["expected"]
    if "mean_over_users_without_error" in expected and not answer.without_errors:
        errors = zip(events, expected["per_user_errors"], strict=True)
        mean = claims.number(expected["mean_over_users_without_error"])
        text = answer.text(row["params"], row["params"]["k"])
        yield Part([event for event, error in errors if error is None], [Claim(text, mean)])
