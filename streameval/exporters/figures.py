"""Numbers and moments as a person reads them."""

from __future__ import annotations

import math
from datetime import UTC, datetime

from streameval.metric import Metric

UNDEFINED = "\N{EN DASH}"
"""Stands where there was no evidence; never 0."""

_COUNTED = {"list": "lists", "item": "items shown", "total": "lists", "slice": "lists"}
_UNITS = (("d", 86_400), ("h", 3_600), ("min", 60))


def figure(value: float) -> str:
    """A value to four decimals, or four digits where it is small; a dash where undefined.

    Example:
        >>> figure(0.5), figure(0.0046), figure(80.0), figure(float("nan"))
        ('0.5000', '0.004600', '80', '\N{EN DASH}')
    """
    if math.isnan(value):
        return UNDEFINED
    if value.is_integer() and abs(value) > 1:
        return f"{value:,.0f}"
    small = 0 < abs(value) < 0.1
    return f"{value:#.4g}" if small else f"{value:,.4f}"


def printable(text: str) -> str:
    r"""A text of unknown origin, with what would steer a terminal made visible.

    Example:
        >>> printable("\x1b[31mred")
        '\\x1b[31mred'
    """
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def counted(metric: Metric) -> str:
    """What a metric's count is a count of.

    Example:
        >>> from streameval.catalogue import parse
        >>> counted(parse("ctr")), counted(parse("hit_rate@10")), counted(parse("ndcg@10"))
        ('items shown', 'lists', 'lists with interactions')
    """
    if metric.values.get("empty") == "skip":
        return "lists with interactions"
    return _COUNTED[metric.definition.per]


def moment(seconds: float) -> str:
    """A time since the epoch, to the second.

    Example:
        >>> moment(0)
        '1970-01-01 00:00:00 UTC'
    """
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def span(seconds: float) -> str:
    """A duration in its two largest units.

    Example:
        >>> span(59.9), span(3_725), span(200_000)
        ('59 s', '1 h 2 min', '2 d 7 h')
    """
    left, words = int(max(0, seconds)), []
    for unit, size in _UNITS:
        if left >= size:
            words.append(f"{left // size} {unit}")
            left %= size
    return " ".join([*words, f"{left} s"][:2])
