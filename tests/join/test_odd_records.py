"""Records that are valid, and odd: huge ids and gains, times far away, scores here and there."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from streameval.decoding.fields import EventFields
from streameval.engine.partition import Layout
from streameval.events.records import Partition, RecordBatch
from streameval.join.interactions import InteractionDecoder
from streameval.join.joint import Joint
from streameval.join.options import AttributionOptions, InteractionOptions
from streameval.join.state import JoinedState
from tests.effort import every_case
from tests.join.test_limits import DONE, SHOWN

HUGE = 2**80


def joint(**fields: Any) -> Joint:
    options = AttributionOptions(
        impressions=SHOWN.topic,
        interactions=[InteractionOptions(source=DONE.topic, gain="gain")],
        window="10s",
        lateness="5s",
        combine="sum",
    )
    event = EventFields(time="ts", time_unit="s", **fields)
    return Joint(options, event, [], Layout(families=[], recent=1))


class Odd:
    """A join that is fed, and the events that come of it."""

    def __init__(self, front: Joint) -> None:
        self.front = front
        self.events: list[Any] = []
        self.state: JoinedState = front.state(
            {SHOWN: 0, DONE: 0}, lambda found: self.events.extend(found.named.events())
        )
        self.logs: dict[Partition, list[object]] = {SHOWN: [], DONE: []}

    def feed(self, log: Partition, records: Sequence[object]) -> None:
        start = len(self.logs[log])
        end = start + len(records)
        self.logs[log] += records
        values = [json.dumps(each).encode() for each in records]
        batch = RecordBatch(
            partition=log, values=values, offsets=range(start, end), next_offset=end
        )
        self.state.apply(batch, self.front.decode(batch))

    def content(self) -> dict[str, bytes]:
        return {each.name: b"".join(each.content()()) for each in self.state.sections()}

    def restarted(self) -> Odd:
        again = Odd(self.front)
        again.state.restore(self.content())
        assert again.content() == self.content()
        for log, found in again.state.progress().items():
            again.logs[log] = self.logs[log][: found.position]
            again.feed(log, self.logs[log][found.position :])
        return again


@every_case(
    ("field", "value", "reason"),
    [
        ("request_id", "x" * 1_025, "id_too_long"),
        ("item", "x" * 1_025, "id_too_long"),
        ("item", 10**1_024, "id_too_long"),
        ("id", "ä" * 513, "id_too_long"),
        ("type", "x" * 257, "label_too_long"),
    ],
)
def test_an_interaction_with_a_name_that_is_too_long_is_invalid(
    field: str, value: object, reason: str
) -> None:
    options = InteractionOptions(source="clicks", event_id="id")
    event = EventFields(time="ts", time_unit="s")
    good = {"request_id": "r", "item": "a", "ts": 1, "type": "click", "id": "e"}
    found = InteractionDecoder(options, event, "request_id").decode_many(
        [json.dumps(good).encode(), json.dumps(good | {field: value}).encode()]
    )
    assert list(found.places) == [0]
    assert [(place, each.reason) for place, each in found.invalid] == [(1, reason)]


def test_integers_of_any_length_are_saved_wherever_they_end() -> None:
    odd = Odd(joint(ids="integer"))
    odd.feed(SHOWN, [{"ts": 1, "request_id": "r", "recommendations": [HUGE, 1]}])
    clicks = [
        {"ts": 2, "request_id": request, "item": HUGE, "gain": 1} for request in ("r", "nobody")
    ]
    odd.feed(DONE, clicks)
    odd = odd.restarted()
    odd.feed(SHOWN, [{"ts": 50, "request_id": "s", "recommendations": []}])
    odd.feed(DONE, [{"ts": 50, "request_id": "s", "item": 1, "gain": 1}])
    odd = odd.restarted()
    odd.state.end([SHOWN, DONE])
    odd.state.finish()
    assert odd.state.accounts[1].orphan == 1
    assert odd.state.accounts[1].counted == 2


@every_case("at", [-62_135_596_800 + 100, 0, 2**32, 253_402_300_700])
def test_every_time_that_is_accepted_has_a_place(at: int) -> None:
    odd = Odd(joint())
    odd.feed(SHOWN, [{"ts": at, "request_id": "r", "recommendations": ["a"]}])
    odd.feed(DONE, [{"ts": at + 1, "request_id": "r", "item": "a"}])
    odd = odd.restarted()
    odd.state.end([SHOWN, DONE])
    odd.state.finish()
    assert [each.interactions for each in odd.events] == [["a"]]


def test_gains_that_are_too_large_together_are_the_largest_there_is() -> None:
    odd = Odd(joint())
    odd.feed(SHOWN, [{"ts": 1, "request_id": "r", "recommendations": ["a", "b"]}])
    most = 2.0**1000
    gains = [("a", most), ("a", most), ("b", most), ("b", -most / 2), ("b", 2 * most)]
    odd.feed(DONE, [{"ts": 2, "request_id": "r", "item": i, "gain": g} for i, g in gains])
    odd.state.end([SHOWN, DONE])
    odd.state.finish()
    assert odd.events[0].interactions == {"a": most, "b": most / 2}


def test_scores_here_and_there_give_the_same_bytes_in_any_batches() -> None:
    lists: list[dict[str, Any]] = [
        {"ts": 1, "request_id": "r1", "recommendations": ["a"]},
        {"ts": 2, "request_id": "r2", "recommendations": [{"id": "b", "score": 0.5}]},
        {"ts": 3, "request_id": "r3", "recommendations": ["c", "d"]},
        {"ts": 4, "request_id": "r4", "recommendations": []},
    ]
    at_once, one_by_one = Odd(joint()), Odd(joint())
    at_once.feed(SHOWN, lists)
    for each in lists:
        one_by_one.feed(SHOWN, [each])
    for odd in (at_once, one_by_one):
        odd.feed(DONE, [{"ts": 9, "request_id": "r1", "item": "a"}])
    assert at_once.content() == one_by_one.content()
    again = at_once.restarted()
    again.state.end([SHOWN, DONE])
    again.state.finish()
    assert [each.scores for each in again.events] == [None, [0.5], None, None]


def test_a_field_that_is_configured_later_shifts_nothing() -> None:
    before = Odd(joint())
    before.feed(SHOWN, [{"ts": 1, "request_id": "r1", "recommendations": ["a"]}])
    before.feed(DONE, [{"ts": 9, "request_id": "r1", "item": "a"}])
    after = Odd(joint(baseline="expected"))
    after.state.restore(before.content())
    after.logs = before.logs
    shown = {"ts": 2, "request_id": "r2", "recommendations": ["b"], "expected": ["x", "y"]}
    after.feed(SHOWN, [shown])
    after.state.end([SHOWN, DONE])
    after.state.finish()
    assert [each.baseline or [] for each in after.events] == [[], ["x", "y"]]
