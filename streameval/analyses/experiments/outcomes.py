"""Outcomes of an experiment, as codes: verdicts, reasons why one is open, and decisions."""

from __future__ import annotations

from typing import Final

from streameval.inference.codes import Code


class Verdict(Code):
    """The verdict of a comparison.

    DIFFERENT is for a metric without a better direction, NOT_JUDGED for a segment of values that
    were folded.
    """

    BETTER = "better"
    WORSE = "worse"
    DIFFERENT = "different"
    NO_DIFFERENCE = "no difference"
    OPEN = "not enough evidence"
    TOO_FEW_USERS = "too few users"
    DO_NOT_TRUST = "do not trust"
    NOT_JUDGED = "not judged"


DECIDED: Final = frozenset({Verdict.BETTER, Verdict.WORSE, Verdict.DIFFERENT})
OPEN: Final = frozenset({Verdict.OPEN, Verdict.TOO_FEW_USERS})


class GuardrailVerdict(Code):
    """The verdict of a guardrail."""

    KEPT = "kept"
    BROKEN = "broken"
    OPEN = "not enough evidence"
    TOO_FEW_USERS = "too few users"
    DO_NOT_TRUST = "do not trust"


class OpenReason(Code):
    """Reason why a verdict is open."""

    NO_LISTS = "no_lists"
    """An arm has no lists."""
    NO_VALUE = "no_value"
    """The mean of an arm is not above 0."""
    NO_COMMON_DAY = "no_common_day"
    SKEWED = "skewed"
    """A few large values make up the mean."""
    FEW_USERS = "few_users"
    NO_SPREAD = "no_spread"
    """All users are alike."""
    LIFT_OR_DIFFERENCE = "lift_or_difference"
    """The lift excludes 0, and the difference does not."""
    EITHER_SIDE = "either_side"
    """The interval covers 0."""


class Decision(Code):
    """Recommended action for a variant."""

    SHIP = "ship"
    """A primary metric is better, none is worse, and all guardrails are kept."""
    WAIT = "wait"
    DO_NOT_SHIP = "do not ship"
    """A primary metric is worse, or a guardrail is broken."""
    DO_NOT_TRUST = "do not trust"
