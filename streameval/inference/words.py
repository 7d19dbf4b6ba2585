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
    """A share in percent: one decimal, two digits below 0.1 %, three digits from 100 %.

    Example:
        >>> percent(0.2081, "+"), percent(0.00042), percent(-1.5e60, "+")
        ('+20.8 %', '0.042 %', '-1.5e+62 %')
        >>> percent(1.0), percent(12.3456, "+", math.floor)
        ('100 %', '+1,230 %')
    """
    number = 100.0 * share
    if abs(number) >= _MANY:
        return f"{number:{sign}.3g} %"
    power = math.floor(math.log10(abs(number))) if number else 0
    decimals = 1 - power if power < -1 else min(1, 2 - power)
    scale = 10.0**decimals
    return f"{rounded(number * scale) / scale:{sign},.{max(0, decimals)}f} %"


def three_digits(number: float, sign: Literal["", "+"] = "") -> str:
    """A number with three significant digits.

    Example:
        >>> three_digits(0.10784, "+"), three_digits(-4.09e-05), three_digits(12_345.6)
        ('+0.108', '-0.0000409', '12,300')
    """
    if number and (abs(number) < 1e-6 or abs(number) >= _MANY):
        return f"{number:{sign}.3g}"
    rounded = float(f"{number:.3g}")
    decimals = max(0, 2 - math.floor(math.log10(abs(rounded)))) if rounded else 2
    return f"{rounded:{sign},.{decimals}f}"


def capital(text: str) -> str:
    """A label of ours with a capital letter.

    Example:
        >>> capital("records read")
        'Records read'
    """
    return text[:1].upper() + text[1:]


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
