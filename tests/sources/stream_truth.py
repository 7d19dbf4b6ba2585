"""The expected result of two simulated streams, from an independent slow join."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from streameval.sources.simulated_streams import (
    GAINS,
    LATENESS,
    WINDOW,
    Impression,
    Interaction,
    Streams,
)
from tests.join.offline import Case, Record, joined

_DIGITS = {kind: 1_000.0**place for place, kind in enumerate(GAINS)}
"""Gains whose sum has the number of interactions of each type in separate digits."""


class Outcomes(msgspec.Struct, kw_only=True, gc=False):
    """The expected events of a variant.

    Attributes:
        lists: how many.
        hits: lists with an interaction that counts, with an item that they show.
        purchases: lists of which an item that they show was purchased.
        gain: of the items shown, the largest of each, added up.
    """

    lists: int = 0
    hits: int = 0
    purchases: int = 0
    gain: float = 0.0


class Truth(msgspec.Struct, kw_only=True):
    """The expected result: records by outcome, and variants by name.

    `outside` are those of the counted whose item the list does not show.
    """

    impressions: Counter[str]
    interactions: Counter[str]
    variants: dict[str, Outcomes]


def truth(streams: Streams) -> Truth:
    """The join of both complete streams."""
    case = Case(
        streams=[[[_record(each) for each in log]] for log in streams],
        key="request_id",
        window=WINDOW,
        lateness=LATENESS,
        combine="sum",
        per_variant=False,
        gains=_DIGITS,
        recent=21,
        max_ahead=60_000,
    )
    found = joined(case)
    shown, done = found.outcomes
    variants: dict[str, Outcomes] = {}
    for _, (variant,), items, sums in found.events:
        outcomes = variants.setdefault(variant, Outcomes())
        done["outside"] += sum(
            sum(_types(each).values()) for item, each in sums if item not in items
        )
        _add(outcomes, [_types(each) for item, each in sums if item in items])
    return Truth(impressions=shown, interactions=done, variants=dict(sorted(variants.items())))


def _record(given: Impression | Interaction | bytes) -> Record:
    if isinstance(given, bytes):
        return {}
    found: dict[str, Any] = msgspec.structs.asdict(given)
    return found | {"shown": found.get("recommendations")}


def _types(whole: float) -> dict[str, int]:
    """Interactions by type, from the digits of their sum."""
    return {kind: n for kind, of in _DIGITS.items() if (n := int(whole // of % 1_000))}


def _add(outcomes: Outcomes, items: Sequence[dict[str, int]]) -> None:
    outcomes.lists += 1
    outcomes.hits += bool(items)
    outcomes.purchases += any("purchase" in types for types in items)
    outcomes.gain += sum(max(GAINS[kind] for kind in types) for types in items)
