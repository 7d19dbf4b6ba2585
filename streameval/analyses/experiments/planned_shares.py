"""Planned shares of the variants of an experiment, which may change on given days."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from itertools import pairwise
from typing import Any, Final, NamedTuple, TypeAlias

from streameval.events.ids import is_number
from streameval.inference.days import number_of_day

SINCE: Final = "since"
"""Key of the first day in shares with dates."""

Shares: TypeAlias = dict[str, float]
"""The share of each variant, in any unit."""

DatedShares: TypeAlias = list[dict[str, Any]]
"""Entries of `since`, a day, and the share of each variant from then on."""

_EXAMPLE: Final = '{ since = "2026-03-01", control = 99, treatment = 1 }'


class PlannedShares(NamedTuple):
    """The planned shares of variants from a day on.

    Attributes:
        since: the day (UTC); None: from the start.
        shares: by variant, in any unit; empty: equal.
    """

    since: date | None
    shares: Shares


def day_number(day: date | None) -> int | None:
    """Days since the epoch."""
    return None if day is None else number_of_day(day)


def plans_of(shares: Shares | DatedShares) -> list[PlannedShares]:
    """The planned shares, the oldest first; at least one."""
    if isinstance(shares, dict):
        return [PlannedShares(None, shares)]
    return [PlannedShares(_since(entry), _shares(entry)) for entry in shares]


def shares_problem(shares: Shares | DatedShares, control: str) -> str | None:
    """The reason that shares are not valid, in a sentence; None if they are."""
    if shares == []:
        return f"the list is empty; give entries like {_EXAMPLE}."
    for entry in shares if isinstance(shares, list) else ():
        if SINCE not in entry:
            return f"an entry has no date; give {_EXAMPLE}."
        if _since(entry) is None:
            return f"since = {entry[SINCE]!r:.80}; give a day, like 2026-03-01."
    plans = plans_of(shares)
    for earlier, later in pairwise(plans):
        if (day_number(earlier.since) or 0) >= (day_number(later.since) or 0):
            problem = f"{later.since} follows {earlier.since}"
            return f"{problem}; give the oldest first, and each day once."
        if earlier.shares.keys() != later.shares.keys():
            names = " and ".join(", ".join(part.shares) for part in (earlier, later))
            return f"they are of {names}; give each variant in every entry."
    return next(filter(None, (_plan_problem(plan.shares, control) for plan in plans)), None)


def _plan_problem(shares: Mapping[str, Any], control: str) -> str | None:
    for name, share in shares.items():
        if not (is_number(share) and share > 0):
            share_text = f"{share:g}" if isinstance(share, float) else repr(share)
            return f"{name} = {share_text:.80}; give a number above 0."
    if shares and (control not in shares or len(shares) < 2):
        problem = f"they are of {', '.join(shares)}; give one for {control!r}, too"
        return f"{problem}, and one for each other variant."
    return None


def _since(entry: Mapping[str, Any]) -> date | None:
    """The first day of an entry; None if it is not a day."""
    given = entry.get(SINCE)
    try:
        given = date.fromisoformat(given) if isinstance(given, str) else given
    except ValueError:
        return None
    return given if type(given) is date else None


def _shares(entry: Mapping[str, Any]) -> Shares:
    return {name: share for name, share in entry.items() if name != SINCE}
