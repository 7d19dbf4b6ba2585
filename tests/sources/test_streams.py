"""Two simulated streams: the same always, with everything in them that real ones have."""

from __future__ import annotations

from collections import Counter
from functools import cache
from itertools import pairwise

import msgspec
import pytest

from streameval.decoding.decode import Decoder
from streameval.decoding.fields import EventFields
from streameval.engine.partition import Layout
from streameval.events.records import Partition, RecordBatch
from streameval.join.interactions import InteractionDecoder, InteractionFields
from streameval.join.joint import Joint
from streameval.join.rules import Rules
from streameval.sources.options import SimulatorOptions
from streameval.sources.simulated_streams import (
    GAINS,
    IGNORED,
    LATENESS,
    WINDOW,
    Impression,
    Interaction,
    StreamOptions,
    Streams,
    line,
    streams,
)
from streameval.sources.simulator import Record, records
from tests.effort import every_case
from tests.sources.stream_truth import Counts, truth

_PLAIN = StreamOptions(disorder=0, views=0, duplicates=0, late=0, orphans=0, outside=0, invalid=0)
_NAMES = ("impressions", "interactions")


@cache
def _usual() -> Streams:
    return streams(StreamOptions())


def _lines(made: Streams) -> list[list[bytes]]:
    return [list(map(line, log)) for log in made]


def test_equal_options_give_equal_logs() -> None:
    assert _lines(streams(StreamOptions())) == _lines(_usual())
    assert _lines(streams(StreamOptions(seed=1))) != _lines(_usual())


@every_case("seed", range(3))
def test_every_kind_of_record_is_there(seed: int) -> None:
    known = truth(streams(StreamOptions(seed=seed)))
    shown, done = map(msgspec.to_builtins, (known.impressions, known.interactions))
    none = {"orphan", "ignored", "outside"}
    assert {name for name, number in shown.items() if not number} - {"future"} == none
    assert {name for name, number in done.items() if not number} <= {"future"}


def test_lists_and_clicks_are_those_of_the_simulator() -> None:
    made = streams(_PLAIN)
    clicked: dict[str, list[str]] = {}
    for each in made.interactions:
        if isinstance(each, Interaction) and each.type == "click":
            clicked.setdefault(each.request_id, []).append(each.item)
    expected = [
        msgspec.json.decode(value, type=Record) for value in records(SimulatorOptions(events=1000))
    ]
    assert [
        (each.request_id, each.user, each.recommendations, each.variant)
        for each in made.impressions
        if isinstance(each, Impression)
    ] == [
        (
            f"r{each.event_id}",
            each.user,
            each.recommendations,
            {"c": "a", "p": "a", "t": "b"}[each.variant[0]],
        )
        for each in expected
    ]
    there = {f"r{each.event_id}": sorted(each.interactions) for each in expected}
    assert {name: sorted(items) for name, items in clicked.items()} == {
        name: items for name, items in there.items() if items
    }


def test_without_trouble_everything_is_counted_in_the_order_of_time() -> None:
    made = streams(_PLAIN)
    known = truth(made)
    for log, counts in zip(made, (known.impressions, known.interactions), strict=True):
        assert counts == Counts(records=len(log), counted=len(log))
        times = [each.ts for each in log if not isinstance(each, bytes)]
        assert times == sorted(times)


def test_purchases_come_late_and_within_the_window() -> None:
    made = streams(_PLAIN)
    shown = {it.request_id: it.ts for it in made.impressions if isinstance(it, Impression)}
    delays: dict[str, list[int]] = {name: [] for name in GAINS}
    for each in made.interactions:
        assert isinstance(each, Interaction)
        delays[each.type].append(each.ts - shown[each.request_id])
    assert all(0 <= delay <= 1_500_000 < WINDOW for some in delays.values() for delay in some)
    assert min(delays["click"]) < 5_000
    assert max(delays["purchase"]) > 1_200_000
    assert len(delays["click"]) > len(delays["cart"]) > len(delays["purchase"]) > 50


def test_orphans_have_no_list_or_come_after_its_window() -> None:
    made = streams(msgspec.structs.replace(_PLAIN, orphans=0.1))
    shown = {it.request_id: it.ts for it in made.impressions if isinstance(it, Impression)}
    done = [each for each in made.interactions if isinstance(each, Interaction)]
    never = [each for each in done if each.request_id not in shown]
    after = [each for each in done if each.ts > shown.get(each.request_id, each.ts) + WINDOW]
    assert min(len(never), len(after)) > 30
    assert truth(made).interactions.orphan == len(never) + len(after)


def test_disorder_alone_makes_nothing_late() -> None:
    made = streams(msgspec.structs.replace(_PLAIN, disorder=LATENESS / 1000))
    known = truth(made)
    assert known.impressions.late == known.interactions.late == 0
    for log in made:
        times = [each.ts for each in log if not isinstance(each, bytes)]
        assert sum(later < before for before, later in pairwise(times)) > len(times) / 4


def test_truth_is_what_a_person_would_say() -> None:
    def shown(ts: int, request: str, variant: str = "a") -> Impression:
        return Impression(ts, request, "u", ["x", "y"], variant)

    def done(ts: int, request: str, item: str, kind: str, event: str) -> Interaction:
        return Interaction(ts, request, "u", item, kind, event)

    far = LATENESS + WINDOW
    impressions: list[Impression | bytes] = [
        *(shown(10, "1"), shown(20, "1"), b"{", shown(far, "2", "b"), shown(30, "3")),
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
    assert known.impressions == Counts(records=5, counted=3, duplicate=1, invalid=1)
    assert known.interactions == Counts(
        records=10, counted=6, duplicate=1, orphan=2, ignored=1, outside=1
    )
    assert msgspec.to_builtins(known.variants) == {
        "a": {"lists": 2, "hits": 2, "purchases": 1, "gain": 14.0},
        "b": {"lists": 1, "hits": 0, "purchases": 0, "gain": 0.0},
    }


@pytest.mark.parametrize(
    "options",
    [
        StreamOptions(),
        StreamOptions(seed=1, lists=200, interval=60, delay=1800, disorder=300, late=0.5),
        StreamOptions(seed=2, lists=200, duplicates=1, orphans=1, outside=1, invalid=1),
        StreamOptions(seed=3, lists=0),
    ],
    ids=lambda options: f"seed-{options.seed}",
)
def test_the_real_join_says_the_same_of_every_record(options: StreamOptions) -> None:
    made = streams(options)
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
        assert msgspec.to_builtins(account) == {**msgspec.to_builtins(counts), "tombstone": 0}
    assert events == {name: each.lists for name, each in known.variants.items()}


def _joint() -> Joint:
    impressions = EventFields(
        recommendations="recommendations", time="ts", time_unit="ms", event_id="request_id"
    )
    interactions = InteractionFields(
        key="request_id",
        item="item",
        time="ts",
        time_unit="ms",
        event_id="event_id",
        types=GAINS,
        ignore=frozenset({IGNORED}),
    )
    return Joint(
        Decoder(impressions, ["variant"], shown_only=True),
        [InteractionDecoder(interactions, "request_id")],
        [[name] for name in _NAMES],
        Rules(window=WINDOW * 1000, lateness=LATENESS * 1000),
        Layout(families=[]),
    )
