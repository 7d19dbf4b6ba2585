"""Every reason why a record is invalid, with examples."""

from __future__ import annotations

import json
from typing import get_args

import pytest

from streameval.decoding.decode import Decoder
from streameval.decoding.fields import EventFields
from streameval.decoding.invalid import REASONS, Reason
from streameval.events import Event
from tests.decoding.records import read, rejection

FIELDS = EventFields(
    time="ts",
    time_unit="ms",
    positions="ranks",
    per_item={"propensity": "chances"},
    event_id="id",
    history="earlier",
    max_recommendations=3,
    max_interactions=2,
)
VALID = {
    "recommendations": '["a", "b"]',
    "interactions": "[]",
    "ts": "1700000000000",
    "ranks": "[1, 2]",
    "id": '"e1"',
    "variant": '"a"',
}

BYTES: list[tuple[bytes, Reason]] = [
    (b"", "not_json"),
    (b"   ", "not_json"),
    (b"\x00", "not_json"),
    (b'{"recommendations": ["a"], "intera', "not_json"),
    (b'{"recommendations": ["a"], "interactions": []', "not_json"),
    (b'{"recommendations": ["a"], "interactions": []} {}', "not_json"),
    (b'{"recommendations": ["a"],, "interactions": []}', "not_json"),
    (b'{"recommendations": ["a",], "interactions": []}', "not_json"),
    (b"{'recommendations': ['a']}", "not_json"),
    (b'{"recommendations": ["\\ud800"], "interactions": []}', "not_json"),
    (b'{"recommendations": ["a"], "interactions": {"a": NaN}}', "not_json"),
    (b'{"recommendations": ["a"], "interactions": {"a": Infinity}}', "not_json"),
    (b'\xef\xbb\xbf{"recommendations": ["a"], "interactions": []}', "not_json"),
    (b"\xff\xfe", "not_utf8"),
    (b'{"recommendations": ["\xff"], "interactions": []}', "not_utf8"),
    (b'{"recommendations": ["\xed\xa0\x80"], "interactions": []}', "not_utf8"),
    ('{"recommendations": ["ä"], "interactions": []}'.encode("utf-16"), "not_utf8"),
    (b'{"x": ' + b'{"x": ' * 100_000, "nested_too_deeply"),
    (b'{"recommendations": ' + b"[" * 100_000, "nested_too_deeply"),
    (b"[]", "not_an_object"),
    (b"null", "not_an_object"),
    (b"7", "not_an_object"),
    (b'"text"', "not_an_object"),
    (b'[{"recommendations": ["a"], "interactions": []}]', "not_an_object"),
    (b"{}", "missing_field"),
]

FIELD_VALUES: list[tuple[str, str | None, Reason]] = [
    ("recommendations", None, "missing_field"),
    ("recommendations", "null", "missing_field"),
    ("recommendations", '"a"', "wrong_type"),
    ("recommendations", '{"a": 1}', "wrong_type"),
    ("recommendations", "7", "wrong_type"),
    ("recommendations", "[true, 1]", "invalid_id"),
    ("recommendations", "[1.5, 1]", "invalid_id"),
    ("recommendations", "[1.0, 1]", "invalid_id"),
    ("recommendations", "[null, 1]", "invalid_id"),
    ("recommendations", '[["a"], "b"]', "invalid_id"),
    ("recommendations", '[{"id": {}}, "b"]', "invalid_id"),
    ("recommendations", '[{"id": false}, "b"]', "invalid_id"),
    ("recommendations", '[{"name": "a"}, "b"]', "missing_field"),
    ("recommendations", '[{"id": null}, "b"]', "missing_field"),
    ("recommendations", '[{"id": "a", "score": "high"}, "b"]', "invalid_score"),
    ("recommendations", '[{"id": "a", "score": true}, "b"]', "invalid_score"),
    ("recommendations", f'[{{"id": "a", "score": 1{"0" * 400}}}, "b"]', "invalid_score"),
    ("recommendations", "[1e999, 1]", "number_too_large"),
    ("recommendations", f"[1{'0' * 5000}, 1]", "number_too_large"),
    ("recommendations", '["a", "b", "c", "d"]', "too_many_recommendations"),
    ("interactions", None, "missing_field"),
    ("interactions", "null", "missing_field"),
    ("interactions", '"a"', "wrong_type"),
    ("interactions", "false", "wrong_type"),
    ("interactions", "[[]]", "invalid_id"),
    ("interactions", "[true]", "invalid_id"),
    ("interactions", '{"a": "1"}', "invalid_gain"),
    ("interactions", '{"a": null}', "invalid_gain"),
    ("interactions", '{"a": true}', "invalid_gain"),
    ("interactions", '{"a": [1]}', "invalid_gain"),
    ("interactions", '{"a": 1e999}', "number_too_large"),
    ("interactions", f'{{"a": 1{"0" * 400}}}', "invalid_gain"),
    ("interactions", '{"a": 1.1e301}', "invalid_gain"),
    ("interactions", '[{"id": "a", "gain": -1e308}]', "invalid_gain"),
    ("interactions", '[{"id": "a", "gain": "1"}]', "invalid_gain"),
    ("interactions", '[{"id": "a", "gain": false}]', "invalid_gain"),
    ("interactions", '[{"id": "a", "type": 1}]', "wrong_type"),
    ("interactions", '[{"gain": 1}]', "missing_field"),
    ("interactions", '["a", "b", "c"]', "too_many_interactions"),
    ("interactions", '{"a": 1, "b": 1, "c": 1}', "too_many_interactions"),
    ("interactions", '[{"id": "a"}, {"id": "b"}, {"id": "c"}]', "too_many_interactions"),
    ("ts", None, "missing_field"),
    ("ts", "null", "missing_field"),
    ("ts", "true", "invalid_time"),
    ("ts", '"1700000000000"', "invalid_time"),
    ("ts", "1700000000000.5", "invalid_time"),
    ("ts", "1700000000000000000", "invalid_time"),
    ("ts", "[]", "invalid_time"),
    ("ranks", "1", "wrong_type"),
    ("ranks", "[1]", "invalid_positions"),
    ("ranks", "[1, 2, 3]", "invalid_positions"),
    ("ranks", "[0, 1]", "invalid_positions"),
    ("ranks", "[-1, 1]", "invalid_positions"),
    ("ranks", "[1, 1.5]", "invalid_positions"),
    ("ranks", "[1, true]", "invalid_positions"),
    ("ranks", "[1, null]", "invalid_positions"),
    ("ranks", "[null]", "invalid_positions"),
    ("ranks", "[1, 2147483648]", "invalid_positions"),
    ("chances", "0.5", "invalid_per_item"),
    ("chances", "[0.5]", "invalid_per_item"),
    ("chances", "[0.5, 0.5, 0.5]", "invalid_per_item"),
    ("chances", "[0.5, true]", "invalid_per_item"),
    ("chances", "[0.5, {}]", "invalid_per_item"),
    ("chances", f'["{"x" * 257}", 1]', "label_too_long"),
    ("earlier", '"a"', "wrong_type"),
    ("earlier", "[1.5]", "invalid_id"),
    ("earlier", '["a", "", "b"]', "invalid_id"),
    ("earlier", json.dumps(["a"] * 10_001), "history_too_long"),
    ("id", None, "missing_field"),
    ("id", '""', "missing_field"),
    ("id", "1.5", "invalid_id"),
    ("user", "true", "invalid_id"),
    ("user", "[]", "invalid_id"),
    ("variant", "1.5", "invalid_label"),
    ("variant", "[]", "invalid_label"),
    ("variant", "{}", "invalid_label"),
    ("recommendations", f'["{"x" * 1025}"]', "id_too_long"),
    ("recommendations", f'["{"ä" * 513}"]', "id_too_long"),
    ("recommendations", f"[{'1' * 1025}]", "id_too_long"),
    ("recommendations", f'[{{"id": "{"x" * 1025}"}}]', "id_too_long"),
    ("interactions", f'["{"x" * 1025}"]', "id_too_long"),
    ("interactions", f'{{"{"x" * 1025}": 1}}', "id_too_long"),
    ("interactions", f'[{{"id": "a", "type": "{"x" * 257}"}}]', "label_too_long"),
    ("user", f'"{"x" * 1025}"', "id_too_long"),
    ("id", f'"{"x" * 1025}"', "id_too_long"),
    ("variant", f'"{"x" * 257}"', "label_too_long"),
    ("variant", f'"{"ä" * 129}"', "label_too_long"),
    ("variant", "1" * 257, "label_too_long"),
]


def record(**changed: str | None) -> bytes:
    fields = {name: value for name, value in (VALID | changed).items() if value is not None}
    return ("{" + ", ".join(f'"{name}": {value}' for name, value in fields.items()) + "}").encode()


@pytest.fixture
def decoder() -> Decoder:
    return Decoder(FIELDS, ["variant"])


def test_the_record_behind_the_bad_examples_is_valid(decoder: Decoder) -> None:
    assert isinstance(read(decoder, record()), Event)


@pytest.mark.parametrize(
    ("encoding", "name"),
    [("utf-8-sig", "UTF-8"), ("utf-16", "UTF-16"), ("utf-32", "UTF-32")],
)
def test_a_byte_order_mark_is_named(encoding: str, name: str) -> None:
    value = '{"recommendations": ["a"], "interactions": []}'.encode(encoding)
    ((_, refused),) = Decoder(EventFields(), []).decode_many([value]).invalid
    remedy = "write it in UTF-8 without a mark"
    assert refused.detail == f"it begins with a byte order mark of {name}; {remedy}"


@pytest.mark.parametrize(("value", "reason"), BYTES)
def test_bytes_that_cannot_be_decoded_have_a_reason(
    decoder: Decoder, value: bytes, reason: Reason
) -> None:
    invalid = rejection(decoder, value)
    assert invalid.reason == reason
    assert invalid.detail


@pytest.mark.parametrize(("field", "value", "reason"), FIELD_VALUES)
def test_an_invalid_field_has_a_reason_and_is_named(
    decoder: Decoder, field: str, value: str | None, reason: Reason
) -> None:
    invalid = rejection(decoder, record(**{field: value}))
    assert invalid.reason == reason
    assert field in invalid.detail


_FRAMED = {"not_framed", "unknown_schema", "unusable_schema", "not_of_its_schema"}
"""Reasons of records in other formats than JSON; tests/schemas has examples."""


def test_every_reason_has_a_sentence_and_an_example_here() -> None:
    actual = {reason for _, reason in BYTES} | {reason for *_, reason in FIELD_VALUES}
    assert set(REASONS) == set(get_args(Reason)) == actual | {"uncountable", *_FRAMED}


def test_a_long_value_is_shortened_in_the_detail(decoder: Decoder) -> None:
    invalid = rejection(decoder, record(ts='"' + "x" * 10_000 + '"'))
    assert len(invalid.detail) < 200


def test_fields_that_are_not_configured_are_not_checked(decoder: Decoder) -> None:
    unread = b'{"other": [1e999, "\xff", {"a": 1' + b"0" * 5000 + b"}], " + record()[1:]
    assert read(decoder, unread) == read(decoder, record())


def test_the_last_of_two_equal_keys_counts(decoder: Decoder) -> None:
    event = read(decoder, b'{"interactions": ["z"], ' + record(interactions='["a"]')[1:])
    assert isinstance(event, Event)
    assert event.interactions == ["a"]


@pytest.mark.parametrize(
    ("value", "detail"),
    [
        (
            b'\0\0\0\0\x07{"recommendations": ["a"], "interactions": []}',
            'a zero byte and the schema id 7 are before the JSON; set format = "json-schema"',
        ),
        (
            b'"{\\"recommendations\\": []}"',
            "Expected object, got str; the text is a JSON object: the producer encodes it twice",
        ),
    ],
)
def test_records_of_another_form_are_named(value: bytes, detail: str) -> None:
    ((_, refused),) = Decoder(EventFields(), ()).decode_many([value]).invalid
    assert refused.detail == detail
