"""Two simulated streams: deterministic, with every kind of record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Any

import msgspec
import pytest

from streameval.sources import simulator
from streameval.sources.settings import SimulatorOptions
from streameval.sources.simulated_streams import (
    GAINS,
    LATENESS,
    SIMULATED_WINDOW,
    Impression,
    SimulatedInteraction,
    Streams,
    line,
    streams,
)
from streameval.sources.simulator import records
from tests.effort import sampled
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
    """The expected result: records by outcome, and variants by name."""

    impressions: Counter[str]
    interactions: Counter[str]
    variants: dict[str, Outcomes]


def truth(streams: Streams) -> Truth:
    """The join of both complete streams."""
    case = Case(
        streams=[[[_record(record) for record in log]] for log in streams],
        key="request_id",
        window=SIMULATED_WINDOW,
        lateness=LATENESS,
        combine="sum",
        per_variant=False,
        gains=_DIGITS,
        recent=21,
        max_ahead=60_000,
    )
    result = joined(case)
    impressions, done = result.outcomes
    variants: dict[str, Outcomes] = {}
    for _, (variant,), items, sums, _ in result.events:
        outcomes = variants.setdefault(variant, Outcomes())
        _add(outcomes, [_types(gain) for item, gain in sums if item in items])
    return Truth(
        impressions=impressions, interactions=done, variants=dict(sorted(variants.items()))
    )


def _record(given: Impression | SimulatedInteraction | bytes) -> Record:
    if isinstance(given, bytes):
        return {}
    fields: dict[str, Any] = msgspec.structs.asdict(given)
    return fields | {"shown": fields.get("recommendations")}


def _types(whole: float) -> dict[str, int]:
    """Interactions by type, from the digits of their sum."""
    return {kind: n for kind, of in _DIGITS.items() if (n := int(whole // of % 1_000))}


def _add(outcomes: Outcomes, items: Sequence[dict[str, int]]) -> None:
    outcomes.lists += 1
    outcomes.hits += bool(items)
    outcomes.purchases += any("purchase" in types for types in items)
    outcomes.gain += sum(max(GAINS[kind] for kind in types) for types in items)


@cache
def _usual() -> Streams:
    return streams(1000, 0)


def _lines(made: Streams) -> list[list[bytes]]:
    return [list(map(line, log)) for log in made]


def test_equal_arguments_give_equal_logs() -> None:
    first, again, other = (_lines(streams(50, seed)) for seed in (0, 0, 1))
    assert first == again != other


@pytest.mark.parametrize("seed", sampled(range(3), 3))
def test_every_kind_of_record_is_there(seed: int) -> None:
    expected = truth(streams(1000, seed))
    every = {"records", "counted", "duplicate", "late", "invalid"}
    assert {*+expected.impressions} - {"future"} == every
    assert {*+expected.interactions} - {"future"} == {*every, "orphan", "ignored", "outside"}


def _lists(made: Streams) -> dict[str, Impression]:
    """Each list as it was shown first."""
    shown = [impression for impression in made.impressions if isinstance(impression, Impression)]
    return {
        impression.request_id: impression
        for impression in sorted(shown, key=lambda impression: -impression.ts)
    }


def test_lists_and_clicks_are_those_of_the_simulator() -> None:
    shown = _lists(_usual())
    clicked = {
        (interaction.request_id, interaction.item)
        for interaction in _usual().interactions
        if isinstance(interaction, SimulatedInteraction) and interaction.type == "click"
    }
    expected = [
        msgspec.json.decode(value, type=simulator.Record)
        for value in records(SimulatorOptions(events=1000))
    ]
    variants = {"control": "a", "placebo": "a", "treatment": "b"}
    for event in expected:
        shown_list = shown[f"r{event.event_id}"]
        assert shown_list.user == event.user
        assert shown_list.recommendations == event.recommendations
        assert shown_list.variant == variants[event.variant]
        assert {(shown_list.request_id, item) for item in event.interactions} <= clicked
    assert len(shown) == 1000


def test_purchases_come_late_and_within_the_window_but_for_orphans() -> None:
    shown = _lists(_usual())
    done = [
        interaction
        for interaction in _usual().interactions
        if isinstance(interaction, SimulatedInteraction)
    ]
    never = [interaction for interaction in done if interaction.request_id not in shown]
    delays_by_type = [
        (interaction.type, interaction.ts - shown[interaction.request_id].ts)
        for interaction in done
        if interaction not in never
    ]
    after = [delay for _, delay in delays_by_type if delay > SIMULATED_WINDOW]
    assert min(len(never), len(after)) > 5
    delays = {
        name: [d for kind, d in delays_by_type if kind == name and d <= SIMULATED_WINDOW]
        for name in GAINS
    }
    assert all(
        0 <= delay <= 1_500_000 < SIMULATED_WINDOW for some in delays.values() for delay in some
    )
    assert min(delays["click"]) < 5_000
    assert max(delays["purchase"]) > 1_200_000
    assert len(delays["click"]) > len(delays["cart"]) > len(delays["purchase"]) > 50
