"""The files: what the real code of systems returned, as claims about our readings, case by case.

STREAMEVAL_GOLDEN names a folder to read instead of the one beside this file.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from streameval import Event
from streameval.catalogue.reading import Reading, UndefinedReading
from tests.conformance import upstream
from tests.conformance.inputs import Recorded
from tests.conformance.systems import ANSWERS, Answer

VARIANTS = {"expected_0_9": "replay_0_9", "expected_doc_formula_0_11": "replay_0_11"}
"""What a case expects of other versions of its system -> our convention of those."""

READ = {
    *("mean", "median", "conf_interval", "by_k", "rounded4", "mean_rounded4", "n_users_averaged"),
    *("per_user", "per_user_errors", "per_user_unrounded_float64", "per_user_baseline_only"),
    *("error", "mean_over_users_without_error", "weights"),
}
"""All that a case may expect of its system."""


@dataclass(frozen=True)
class Tolerance:
    """How close a value must come, as the file says.

    printed: whether the number was taken from a page, with as many digits as were printed there.
    """

    absolute: float
    relative: float
    printed: bool = False

    def agrees(self, value: float, expected: float) -> bool:
        if math.isnan(expected):
            return math.isnan(value)
        return math.isclose(value, expected, rel_tol=self.relative, abs_tol=self.absolute)

    def difference(self, value: float, expected: float) -> float:
        """How far a value is from what is expected, relatively above 1; 0 where that is NaN."""
        if self.printed or math.isnan(expected) or value == expected:
            return 0.0
        return abs(value - expected) / max(1.0, abs(expected))


@dataclass(frozen=True)
class Claim:
    """What one reading must be.

    text: our metric; value: the number recorded, NaN for none; raises: whether reading it fails;
    count: how many lists its mean is over; digits: decimals that the number was rounded to.
    """

    text: str
    value: float = math.nan
    raises: bool = False
    count: int | None = None
    digits: int | None = None

    def mistake(self, reading: Reading, tolerance: Tolerance) -> str | None:
        """What is wrong with the reading; None where it is as recorded."""
        if self.raises:
            raised = isinstance(reading, UndefinedReading)
            return None if raised else f"{self.text} did not raise"
        if self.count is not None and reading.count != self.count:
            return f"{self.text}: mean over {reading.count}, recorded {self.count}"
        value = reading.value
        rounded = value if self.digits is None else float(np.round(value, self.digits))
        if tolerance.agrees(rounded, self.value):
            return None
        return f"{self.text}: {rounded!r}, recorded {self.value!r}"


def number(value: float | None) -> float:
    """A recorded number; NaN for null."""
    return math.nan if value is None else value


def at_cutoffs(case: Recorded, expected: Recorded) -> Mapping[int | None, Recorded]:
    """What is expected at each cut-off; a plain number is a mean."""
    k = case["params"].get("k")
    expected_at = expected.get("by_k") or {k[0] if isinstance(k, list) else k: expected}
    return {
        None if cut is None else int(cut): expected_here
        if isinstance(expected_here, Mapping)
        else {"mean": expected_here}
        for cut, expected_here in expected_at.items()
    }


def of_all(answer: Answer, params: Recorded, k: int | None, expected: Recorded) -> Iterator[Claim]:
    text = answer.text(params, k)
    mean, count = number(expected.get("mean")), expected.get("n_users_averaged")
    raises = "error" in expected
    if raises or "mean" in expected:
        yield Claim(text, mean, raises, count)
    for name in ("rounded4", "mean_rounded4"):
        if name in expected:
            yield Claim(text, number(expected[name]), digits=4)
    if "median" in expected:
        median = answer.text(params, k, {"statistic": "median"})
        yield Claim(median, number(expected["median"]), count=count)
    for confidence, width in expected.get("conf_interval", {}).items():
        chosen = {"statistic": "half_width", "confidence": float(confidence)}
        yield Claim(answer.text(params, k, chosen), number(width), count=count)


def of_each(
    answer: Answer, params: Recorded, k: int | None, expected: Recorded
) -> list[Sequence[Claim]]:
    """For each user of the case, then for those that only a baseline has, claims of them alone."""
    values = expected.get("per_user") or ()
    errors = expected.get("per_user_errors") or [None] * len(values)
    text = answer.text(params, k)
    claims = [
        Claim(text, number(value), error is not None)
        for value, error in zip(values, errors, strict=True)
    ]
    others = expected.get("per_user_baseline_only") or ()
    return [[claim] for claim in [*claims, *(Claim(text, number(value)) for _, value in others)]]


def variants(case: Recorded, answer: Answer) -> Iterator[tuple[Answer, Recorded]]:
    """Our answers, each with what is expected of it: by the case's system, and by its versions."""
    yield answer, case["expected"]
    for key, convention in VARIANTS.items():
        if key in case:
            yield answer.in_convention(convention), case[key]


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
        row_here = row if "input" not in row else upstream.as_users(system, metric, row)
        if isinstance(row_here.get("users"), str):
            row_here = {**row_here, "users": content["users"][row_here["users"]]}
        yield case_of(
            f"{stem}-{place}-{row['name']}",
            system,
            metric,
            row_here,
            _tolerance(content["params"], row_here["params"]),
        )


def _tolerance(of_file: Recorded, of_case: Recorded) -> Tolerance:
    absolute = of_case.get("abs_tol", of_file["abs_tol"])
    return Tolerance(absolute, of_file.get("rel_tol", 0.0), printed="abs_tol" in of_case)


def case_of(name: str, system: str, metric: str, row: Recorded, tolerance: Tolerance) -> Case:
    """A case, from a row that has users."""
    answer = ANSWERS[system, metric]
    given = answer.inputs(row)
    asked = list(_answers(row, answer))
    claimed = [claim for asked_row in asked for claim in of_all(*asked_row)]
    by_user: dict[int, list[Claim]] = {}
    for variant in asked:
        for place, claim_list in enumerate(of_each(*variant)):
            by_user.setdefault(place, []).extend(claim_list)
    alone = [Part([given.events[place]], claims) for place, claims in by_user.items()]
    alone += _unrounded(row, answer)
    parts = [Part(given.events, claimed), *_quiet(row, answer, given.events)]
    weights = row["expected"].get("weights", ())
    return Case(name, system, metric, given.once, tolerance, parts, alone, weights)


def _answers(
    row: Recorded, answer: Answer
) -> Iterator[tuple[Answer, Recorded, int | None, Recorded]]:
    """Our answers, for each cut-off, with what is expected there."""
    for variant, expected in variants(row, answer):
        for k, at_cutoff in at_cutoffs(row, expected).items():
            yield variant, row["params"], k, at_cutoff


def _quiet(row: Recorded, answer: Answer, events: Sequence[Event]) -> Iterator[Part]:
    """Users whose own value raised nothing."""
    expected = row["expected"]
    if "mean_over_users_without_error" in expected:
        errors = zip(events, expected["per_user_errors"], strict=True)
        mean = number(expected["mean_over_users_without_error"])
        text = answer.text(row["params"], row["params"]["k"])
        yield Part([event for event, error in errors if error is None], [Claim(text, mean)])


def _unrounded(row: Recorded, answer: Answer) -> Iterator[Part]:
    """Each user by itself, with the value before it is rounded."""
    values = row["expected"].get("per_user_unrounded_float64")
    if values and answer.unrounded:
        text = answer.unrounded.text(row["params"], row["params"]["k"])
        for event, value in zip(answer.unrounded.inputs(row).events, values, strict=True):
            yield Part([event], [Claim(text, value)])
