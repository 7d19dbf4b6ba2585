"""Scores and baselines in lists of their own, in the plain form and in any other."""

from __future__ import annotations

import json
from typing import Any

from streameval.decoding.decode import Decoder
from streameval.decoding.fields import EventFields
from streameval.decoding.invalid import InvalidEvent
from streameval.events import Event
from tests.decoding.records import read
from tests.effort import every_case

_FIELDS = EventFields(scores="scores", baseline="expected")


def _record(**changed: Any) -> bytes:
    plain = {
        "recommendations": ["a", "b"],
        "interactions": [],
        "scores": [0.5, 1],
        "expected": ["b", "c"],
    }
    return json.dumps(plain | changed).encode()


@every_case("items", [["a", "b"], [1, 2], [{"id": "a"}, {"id": "b"}]])
def test_every_form_of_list_has_its_scores_and_baseline(items: list[Any]) -> None:
    event = read(Decoder(_FIELDS, []), _record(recommendations=items))
    assert isinstance(event, Event)
    assert (event.scores, event.baseline) == ([0.5, 1.0], ["b", "c"])


def test_columns_carry_them_too() -> None:
    batch = Decoder(_FIELDS, []).decode_many([_record(), _record(expected=[])]).named
    assert batch.scores == [[0.5, 1.0], [0.5, 1.0]]
    assert batch.baselines == [["b", "c"], []]


@every_case(
    ("changed", "reason"),
    [
        ({"scores": [0.5]}, "invalid_score"),
        ({"scores": ["high", 1]}, "invalid_score"),
        ({"scores": None}, "missing_field"),
        ({"scores": {}}, "wrong_type"),
        ({"expected": None}, "missing_field"),
        ({"expected": [1.5]}, "invalid_id"),
    ],
)
def test_what_does_not_fit_has_its_reason(changed: dict[str, Any], reason: str) -> None:
    found = read(Decoder(_FIELDS, []), _record(**changed))
    assert isinstance(found, InvalidEvent)
    assert found.reason == reason
    assert Decoder(_FIELDS, []).decode_many([_record(**changed)]).invalid[0][1] == found
