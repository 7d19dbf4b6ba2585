"""Shares, confidences and lists in words, as every surface says them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final, Literal

_MANY: Final = 1e9
"""Percentage from which scientific notation is used."""


def percent(
    share: float, sign: Literal["", "+"] = "", rounded: Callable[[float], int] = round
) -> str:
    """A share in percent: one decimal, or two significant digits if that would show 0.

    Example:
        >>> percent(0.2081, "+"), percent(0.00042), percent(-1.5e60, "+")
        ('+20.8 %', '0.042 %', '-1.5e+62 %')
    """
    number = 100.0 * share
    if abs(number) >= _MANY:
        return f"{number:{sign}.3g} %"
    small = 0.0 < abs(number) < 0.1
    decimals = 1 - math.floor(math.log10(abs(number))) if small else 1
    return f"{rounded(number * 10**decimals) / 10**decimals:{sign}.{decimals}f} %"


def confidence_text(confidence: float) -> str:
    """A confidence in percent, never rounded to certainty.

    Example:
        >>> confidence_text(0.95), confidence_text(0.9995)
        ('95 %', '99.95 %')
    """
    return f"{100.0 * confidence:.10g} %"


def list_text(names: Sequence[str]) -> str:
    """Names as a list in a sentence.

    Example:
        >>> list_text(["ctr"]), list_text(["ctr", "mrr", "ndcg@10"])
        ('ctr', 'ctr, mrr and ndcg@10')
    """
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last
