"""Options of experiments as texts: limits, shares and days."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date
from typing import Final

from streameval.accumulator.planned_shares import SINCE, DatedShares, Shares
from streameval.offline.surroundings import UsageError
from streameval.tables.files import finite

_DATED: Final = re.compile(r"[\d./-]+:")
"""The beginning of shares that hold from a day on."""


def number_options(option: str, texts: Sequence[str]) -> dict[str, float]:
    """The values of an option NAME=NUMBER."""
    numbers: dict[str, float] = {}
    for text in filter(None, texts):
        # Parameters of a metric contain equal signs, too, so the last one separates.
        name, _, number = text.rpartition("=")
        value = finite(number)
        if not name.strip() or value is None:
            example = "ctr=-0.01" if option == "--guardrail" else "control=9,treatment=1"
            raise UsageError(f"{option}: found {text!r}; give NAME=NUMBER, like {example}.")
        if name.strip() in numbers:
            raise UsageError(f"{option}: {name.strip()!r} is given twice; give it once.")
        numbers[name.strip()] = value
    return numbers


def shares_option(texts: Sequence[str]) -> Shares | DatedShares:
    """The shares of --shares, which may be given once without a day, or once for each change."""
    pairs = [text.split(":", 1) if _DATED.match(text) else ["", text] for text in texts]
    shares = [number_options("--shares", numbers.split(",")) for _, numbers in pairs]
    days = [_day("--shares", day) if day else None for day, _ in pairs]
    if days in ([], [None]):
        return shares[0] if shares else {}
    if None in days:
        raise UsageError(
            "--shares: given several times, each needs its first day, like "
            "2026-03-01:control=99,treatment=1."
        )
    return [
        {SINCE: day, **share} for day, share in zip(days, shares, strict=True) if day is not None
    ]


def day_option(text: str | None) -> date | None:
    """The day of --since."""
    return None if text is None else _day("--since", text)


def day_options(option: str, texts: Sequence[str]) -> list[date]:
    """The days of an option that may be repeated."""
    return [_day(option, text) for text in texts]


def _day(option: str, text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{option}: found {text!r}; give a day, like 2026-03-01.") from None
