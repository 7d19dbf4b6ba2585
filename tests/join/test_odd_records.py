"""Valid but unusual records: huge ids and gains, distant times, scores of some lists."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from streameval.decoding.fields import EventFields
from streameval.engine.clock import ClockRule
from streameval.engine.partition import Layout
from streameval.events import Event
from streameval.join.attribution import AttributionOptions, InteractionOptions
from streameval.join.frontend import JoinFrontend
from streameval.join.interactions import InteractionDecoder
from tests.join.streams import Fed
from tests.join.test_limits import DONE, SHOWN

HUGE = 2**80


def fed_with(**fields: Any) -> Fed:
    options = AttributionOptions(
        impressions=SHOWN.topic,
        interactions=[InteractionOptions(source=DONE.topic, gain="gain")],
        window="10s",
        lateness="5s",
        combine="sum",
    )
    event = EventFields(time="ts", time_unit="s", **fields)
    return Fed(
        JoinFrontend(options, event, [], Layout(families=[], clock=ClockRule(voters=1))),
        [SHOWN, DONE],
    )


def joined_in_any_batches(lists: Sequence[dict[str, Any]], **fields: Any) -> Sequence[Event]:
    """The events after a restart; the state is the same for lists at once and one by one."""
    at_once, one_by_one = fed_with(**fields), fed_with(**fields)
    at_once.feed(SHOWN, lists)
    for shown in lists:
        one_by_one.feed(SHOWN, [shown])
    for odd in (at_once, one_by_one):
        odd.feed(DONE, [{"ts": 9, "request_id": "r1", "item": "a"}])
    assert at_once.content() == one_by_one.content()
    restarted(at_once)
    at_once.end()
    return at_once.events


def restarted(fed: Fed) -> None:
    for log, rest in fed.restart().items():
        fed.feed(log, rest)


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("request_id", "x" * 1_025, "id_too_long"),
        ("item", "x" * 1_025, "id_too_long"),
        ("item", 10**1_024, "id_too_long"),
        ("id", "ä" * 513, "id_too_long"),
        ("type", "x" * 257, "label_too_long"),
        ("request_id", "", "missing_field"),
        ("id", "", "missing_field"),
    ],
)
def test_an_interaction_with_an_empty_or_too_long_name_is_invalid(
    field: str, value: object, reason: str
) -> None:
    options = InteractionOptions(source="clicks", event_id="id")
    event = EventFields(time="ts", time_unit="s")
    good = {"request_id": "r", "item": "a", "ts": 1, "type": "click", "id": "e"}
    decoded = InteractionDecoder(options, event, "request_id").decode_many(
        [json.dumps(good).encode(), json.dumps(good | {field: value}).encode()]
    )
    assert list(decoded.indices) == [0]
    assert [(index, record.reason) for index, record in decoded.invalid] == [(1, reason)]


def test_integer_ids_of_any_length_survive_a_restart() -> None:
    odd = fed_with(ids="integer")
    odd.feed(SHOWN, [{"ts": 1, "request_id": "r", "recommendations": [HUGE, 1]}])
    clicks = [
        {"ts": 2, "request_id": request, "item": HUGE, "gain": 1} for request in ("r", "nobody")
    ]
    odd.feed(DONE, clicks)
    restarted(odd)
    odd.feed(SHOWN, [{"ts": 50, "request_id": "s", "recommendations": []}])
    odd.feed(DONE, [{"ts": 50, "request_id": "s", "item": 1, "gain": 1}])
    restarted(odd)
    odd.end()
    assert odd.state.outcomes[1].orphan == 1
    assert odd.state.outcomes[1].counted == 2


@pytest.mark.parametrize("at", [-62_104_060_800 + 100, -1, 0, 2**32, 253_370_764_700])
def test_every_accepted_time_survives_a_restart(at: int) -> None:
    odd = fed_with()
    odd.feed(SHOWN, [{"ts": at, "request_id": "r", "recommendations": ["a"]}])
    odd.feed(DONE, [{"ts": at + 1, "request_id": "r", "item": "a"}])
    restarted(odd)
    odd.end()
    assert [event.interactions for event in odd.events] == [["a"]]


def test_summed_gains_are_limited_to_the_largest_gain() -> None:
    odd = fed_with()
    odd.feed(SHOWN, [{"ts": 1, "request_id": "r", "recommendations": ["a", "b"]}])
    most = 2.0**1000
    gains = [("a", most), ("a", most), ("b", most), ("b", -most / 2), ("b", 2 * most)]
    odd.feed(DONE, [{"ts": 2, "request_id": "r", "item": i, "gain": g} for i, g in gains])
    odd.end()
    assert odd.events[0].interactions == {"a": most, "b": most / 2}


def test_scores_of_some_lists_give_the_same_bytes_in_any_batches() -> None:
    lists: list[dict[str, Any]] = [
        {"ts": 1, "request_id": "r1", "recommendations": ["a"]},
        {"ts": 2, "request_id": "r2", "recommendations": [{"id": "b", "score": 0.5}]},
        {"ts": 3, "request_id": "r3", "recommendations": ["c", "d"]},
        {"ts": 4, "request_id": "r4", "recommendations": []},
    ]
    assert [event.scores for event in joined_in_any_batches(lists)] == [None, [0.5], None, None]


@pytest.mark.parametrize("at", [1, 2])
@pytest.mark.parametrize("field", ["baseline", "history"])
def test_a_field_that_is_configured_later_is_unknown_for_earlier_lists(at: int, field: str) -> None:
    """Also those of the same bucket of time."""
    before = fed_with()
    before.feed(SHOWN, [{"ts": 1, "request_id": "r1", "recommendations": ["a"]}])
    before.feed(DONE, [{"ts": 9, "request_id": "r1", "item": "a"}])
    after = fed_with(**{field: "more"})
    after.restart(before)
    impression = {"ts": at, "request_id": "r2", "recommendations": ["b"], "more": ["x", "y"]}
    after.feed(SHOWN, [impression])
    after.end()
    first, second = (getattr(event, field) for event in after.events)
    assert not first
    assert field == "baseline" or first is None
    assert second == ["x", "y"]


def test_values_of_items_survive_the_join_and_a_restart_in_any_batches() -> None:
    values = {"propensity": "chances", "team": "teams"}
    lists: list[dict[str, Any]] = [
        {"ts": 1, "request_id": "r1", "recommendations": ["a"]},
        {"ts": 2, "request_id": "r2", "recommendations": ["b", "c"], "chances": [0.1, None]},
        {"ts": 3, "request_id": "r3", "recommendations": ["c"], "chances": [1], "teams": ["x"]},
        {"ts": 4, "request_id": "r4", "recommendations": []},
    ]
    assert [event.per_item for event in joined_in_any_batches(lists, per_item=values)] == [
        None,
        {"propensity": [0.1, None]},
        {"propensity": [1.0], "team": ["x"]},
        None,
    ]


def test_histories_survive_the_join_and_a_restart_in_any_batches() -> None:
    lists: list[dict[str, Any]] = [
        {"ts": 1, "request_id": "r1", "recommendations": ["a"]},
        {"ts": 2, "request_id": "r2", "recommendations": ["b", "c"], "earlier": ["c", "x", "a"]},
        {"ts": 3, "request_id": "r3", "recommendations": ["c"], "earlier": []},
        {"ts": 4, "request_id": "r4", "recommendations": ["x"], "earlier": None},
    ]
    events = joined_in_any_batches(lists, history="earlier")
    assert [event.history for event in events] == [None, ["c", "x", "a"], [], None]


def test_the_size_of_histories_is_counted_until_their_lists_are_gone() -> None:
    odd = fed_with(history="earlier")
    impression = {"ts": 1, "request_id": "r1", "recommendations": ["a"]}
    before = odd.state.joiner.size
    odd.feed(SHOWN, [impression | {"earlier": [f"h{number}" for number in range(1000)]}])
    assert odd.state.joiner.size - before > 4_000
    restarted(odd)
    assert odd.state.joiner.size - before > 4_000
    odd.feed(SHOWN, [impression | {"ts": 10**6, "request_id": "r2"}])
    odd.feed(DONE, [{"ts": 10**6, "request_id": "r2", "item": "a"}])
    odd.end()
    assert odd.state.joiner.size < 4_000
