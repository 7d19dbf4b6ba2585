"""The files: what the real code of systems returned, as claims about our readings, case by case.

STREAMEVAL_GOLDEN names a folder to read instead of the one beside this file.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
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
    for index, row in enumerate(content["cases"]):
        system, metric = content["system"], row["metric"] if "metric" in row else content["metric"]
        row_here = row if "input" not in row else upstream.as_users(system, metric, row)
        if isinstance(row_here.get("users"), str):
            row_here = {**row_here, "users": content["users"][row_here["users"]]}
        yield case_of(
            f"{stem}-{index}-{row['name']}",
            system,
            metric,
            row_here,
            _tolerance(content["params"], row_here["params"]),
        )


def _tolerance(of_file: Recorded, of_case: Recorded) -> Tolerance:
    absolute = of_case.get("abs_tol", of_file["abs_tol"])
    return Tolerance(absolute, of_file.get("rel_tol", 0.0), printed="abs_tol" in of_case)


def case_of(name: str, system: str, metric: str, row: Recorded, tolerance: Tolerance) -> Case:
    """A case, from a row that has users: claims of all of them together, and of each alone."""
    answer, params, expected = ANSWERS[system, metric], row["params"], row["expected"]
    inputs, text = answer.inputs(row), answer.text(params, row["params"].get("k"))
    versions = [(key, answer.in_convention(name)) for key, name in VARIANTS.items() if key in row]
    claims: list[Claim] = []
    by_user: dict[int, list[Claim]] = {}
    for key, version in [("expected", answer), *versions]:
        for k, there in at_cutoffs(row, row[key]).items():
            claims += of_all(version, params, k, there)
            values, others = there.get("per_user") or (), there.get("per_user_baseline_only") or ()
            errors = there.get("per_user_errors") or [None] * len(values)
            of_each = [*zip(values, errors, strict=True), *((value, None) for _, value in others)]
            for index, (value, error) in enumerate(of_each):
                claim = Claim(version.text(params, k), number(value), error is not None)
                by_user.setdefault(index, []).append(claim)
    parts = [Part(inputs.events, claims)]
    if "mean_over_users_without_error" in expected:
        pairs = zip(inputs.events, expected["per_user_errors"], strict=True)
        mean = Claim(text, number(expected["mean_over_users_without_error"]))
        parts.append(Part([event for event, error in pairs if error is None], [mean]))
    alone = [Part([inputs.events[index]], of_user) for index, of_user in by_user.items()]
    unrounded = expected.get("per_user_unrounded_float64")
    if unrounded and answer.unrounded:
        exact = Claim(answer.unrounded.text(params, params["k"]))
        pairs = zip(answer.unrounded.inputs(row).events, unrounded, strict=True)
        alone += [Part([event], [replace(exact, value=value)]) for event, value in pairs]
    weights = expected.get("weights", ())
    return Case(name, system, metric, inputs.once, tolerance, parts, alone, weights)
