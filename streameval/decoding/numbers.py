"""Gains, scores and positions: numbers as JSON has them."""

from __future__ import annotations

import math
from collections.abc import Sized
from typing import Any

from streameval.decoding.invalid import Reason, Refusal, shown
from streameval.events import LARGEST_GAIN

MAX_POSITION = 1_000_000
"""The largest rank that an item may have stood at."""


def finite(value: object, field: str, reason: Reason) -> float:
    """A finite number as a float, and as a gain one up to 2^1000; a boolean is none.

    Raises:
        Refusal: for the given reason.
    """
    try:
        number = float(value) if type(value) in (int, float) else math.nan  # type: ignore[arg-type]  # checked
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise Refusal(reason, f"{field}: {shown(value)} is no finite number")
    if reason == "invalid_gain" and abs(number) > LARGEST_GAIN:
        raise Refusal(reason, f"{field}: {shown(value)} is beyond 2^1000, the largest gain")
    return number


def positions(found: Any, items: int, field: str) -> list[int] | None:
    """Ranks at which the items stood; None where no item says one.

    Raises:
        Refusal: not one whole number from 1 on for each of the items.
    """
    if type(found) is not list:
        raise Refusal("wrong_type", f"{field}: found {shown(found)} in place of an array")
    if found and found.count(None) == len(found) == items:
        return None
    for place, value in enumerate(found):
        if type(value) is not int or not 1 <= value <= MAX_POSITION:
            problem = f"{field}[{place}]: {shown(value)} is not among 1 to {MAX_POSITION:,}"
            raise Refusal("invalid_positions", problem)
    check_length(found, items, field, "invalid_positions")
    return found


def scores(found: Any, items: int, field: str) -> list[float]:
    """Scores of the items shown.

    Raises:
        Refusal: not one finite number for each of the items.
    """
    if type(found) is not list:
        raise Refusal("wrong_type", f"{field}: found {shown(found)} in place of an array")
    numbers = [
        finite(value, f"{field}[{place}]", "invalid_score") for place, value in enumerate(found)
    ]
    check_length(numbers, items, field, "invalid_score")
    return numbers


def check_length(found: Sized, items: int, field: str, reason: Reason) -> None:
    """Every item has its own.

    Raises:
        Refusal: there are more than items, or fewer; for the given reason.
    """
    if len(found) != items:
        raise Refusal(reason, f"{field}: {len(found)} numbers for {items} items")
