"""Two simulated streams: the same always, with everything in them that real ones have."""

from __future__ import annotations

from collections import Counter
from functools import cache

import msgspec
import pytest

from streameval.decoding.fields import EventFields
from streameval.engine.partition import Layout
from streameval.events.records import Partition, RecordBatch
from streameval.join.joint import Joint
from streameval.join.options import AttributionOptions, InteractionOptions
from streameval.sources.options import SimulatorOptions
from streameval.sources.simulated_streams import (
    GAINS,
    IGNORED,
    LATENESS,
    WINDOW,
    Impression,
    Interaction,
    Streams,
    line,
    streams,
)
from streameval.sources.simulator import Record, records
from tests.effort import every_case, sampled
from tests.sources.stream_truth import truth

_NAMES = ("impressions", "interactions")


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
    known = truth(streams(1000, seed))
    every = {"records", "counted", "duplicate", "late", "invalid"}
    assert {*+known.impressions} - {"future"} == every
    assert {*+known.interactions} - {"future"} == {*every, "orphan", "ignored", "outside"}


def _lists(made: Streams) -> dict[str, Impression]:
    """Each list as it was shown first."""
    shown = [each for each in made.impressions if isinstance(each, Impression)]
    return {each.request_id: each for each in sorted(shown, key=lambda each: -each.ts)}


def test_lists_and_clicks_are_those_of_the_simulator() -> None:
    shown = _lists(_usual())
    clicked = {
        (each.request_id, each.item)
        for each in _usual().interactions
        if isinstance(each, Interaction) and each.type == "click"
    }
    expected = [
        msgspec.json.decode(value, type=Record) for value in records(SimulatorOptions(events=1000))
    ]
    variants = {"control": "a", "placebo": "a", "treatment": "b"}
    for each in expected:
        found = shown[f"r{each.event_id}"]
        assert found.user == each.user
        assert found.recommendations == each.recommendations
        assert found.variant == variants[each.variant]
        assert {(found.request_id, item) for item in each.interactions} <= clicked
    assert len(shown) == 1000


def test_purchases_come_late_and_within_the_window_but_for_orphans() -> None:
    shown = _lists(_usual())
    done = [each for each in _usual().interactions if isinstance(each, Interaction)]
    never = [each for each in done if each.request_id not in shown]
    own = [(each.type, each.ts - shown[each.request_id].ts) for each in done if each not in never]
    after = [delay for _, delay in own if delay > WINDOW]
    assert min(len(never), len(after)) > 5
    delays = {name: [d for kind, d in own if kind == name and d <= WINDOW] for name in GAINS}
    assert all(0 <= delay <= 1_500_000 < WINDOW for some in delays.values() for delay in some)
    assert min(delays["click"]) < 5_000
    assert max(delays["purchase"]) > 1_200_000
    assert len(delays["click"]) > len(delays["cart"]) > len(delays["purchase"]) > 50


def test_truth_is_what_a_person_would_say() -> None:
    def shown(ts: int, request: str, variant: str = "a") -> Impression:
        return Impression(ts, request, "u", ["x", "y"], variant)

    def done(ts: int, request: str, item: str, kind: str, event: str) -> Interaction:
        return Interaction(ts, request, "u", item, kind, event)

    far = LATENESS + WINDOW
    impressions: list[Impression | bytes] = [
        *(shown(10, "1"), shown(20, "1"), b"{", shown(far, "2", "b"), shown(30, "3"))
    ]
    interactions = [
        *(done(40, "1", "x", "click", "e1"), done(50, "1", "x", "purchase", "e2")),
        *(done(50, "1", "x", "purchase", "e2"), done(60, "1", "z", "cart", "e3")),
        *(done(9, "1", "y", "click", "e4"), done(61, "3", "y", "click", "e5")),
        *(done(62, "1", "y", IGNORED, "e6"), done(WINDOW + 10, "1", "y", "cart", "e7")),
        *(done(WINDOW + 11, "1", "y", "click", "e8"), done(63, "1", "y", "click", "e9")),
    ]
    known = truth(Streams(impressions, interactions))
    # Logs this short have no clock yet, so nothing in them is late.
    assert known.impressions == Counter(records=5, counted=3, duplicate=1, invalid=1)
    assert known.interactions == Counter(
        records=10, counted=6, duplicate=1, orphan=2, ignored=1, outside=1
    )
    assert msgspec.to_builtins(known.variants) == {
        "a": {"lists": 2, "hits": 2, "purchases": 1, "gain": 14.0},
        "b": {"lists": 1, "hits": 0, "purchases": 0, "gain": 0.0},
    }


@every_case(("lists", "seed"), [(300, 0), (0, 3)])
def test_the_real_join_says_the_same_of_every_record(lists: int, seed: int) -> None:
    made = streams(lists, seed)
    known = truth(made)
    front = _joint()
    logs = {
        Partition(name, 0): list(map(line, log)) for name, log in zip(_NAMES, made, strict=True)
    }
    events: Counter[str] = Counter()
    state = front.state(
        dict.fromkeys(logs, 0), lambda found: events.update(of[0] for of in found.dimensions or ())
    )
    for log, values in logs.items():
        many = len(values)
        batch = RecordBatch(partition=log, values=values, offsets=range(many), next_offset=many)
        state.apply(batch, front.decode(batch))
    state.end(list(logs))
    state.finish()
    for account, counts in zip(
        state.accounts, (known.impressions, known.interactions), strict=True
    ):
        assert Counter(msgspec.to_builtins(account)) == counts
    assert events == {name: each.lists for name, each in known.variants.items()}


def _joint() -> Joint:
    shown, done = _NAMES
    interactions = InteractionOptions(
        source=done, event_id="event_id", types=dict(GAINS), ignore=[IGNORED]
    )
    options = AttributionOptions(
        impressions=shown,
        interactions=[interactions],
        window=f"{WINDOW // 1000}s",
        lateness=f"{LATENESS // 1000}s",
    )
    event = EventFields(time="ts", time_unit="ms")
    return Joint(options, event, ["variant"], Layout(families=[]))
