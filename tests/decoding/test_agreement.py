"""The row decoder and the general decoder give the same results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from streameval.decoding.columns import Decoded
from streameval.decoding.decode import Decoder
from streameval.decoding.fields import EventFields
from streameval.decoding.general import GeneralDecoder
from streameval.decoding.invalid import InvalidEvent
from streameval.decoding.paths import FAILURES
from streameval.decoding.rows import RowDecoder, row_decoders
from streameval.events import Event, columns_of
from tests.decoding.records import (
    FIELDS,
    LABELS,
    events_of,
    json_values,
    mutilated,
    plain_records,
    records,
)
from tests.effort import every_case, rare

some_fields = st.sampled_from(FIELDS)
some_labels = st.sampled_from(LABELS)
anything_like_a_record = plain_records() | records() | mutilated(plain_records())


@rare()
@given(some_fields, some_labels, anything_like_a_record)
def test_the_row_decoder_agrees_with_the_general_one_on_all_that_it_accepts(
    fields: EventFields, labels: list[str], value: bytes
) -> None:
    for rows in row_decoders(fields, labels):
        event = _event(rows, value)
        assert event is None or event == GeneralDecoder(fields, labels).decode(value)


def _event(rows: RowDecoder, value: bytes) -> Event | None:
    try:
        return events_of(rows.columns([rows.decode(value)], [0]))[0]
    except FAILURES:
        return None


def test_the_usual_record_is_decoded_as_a_row() -> None:
    fields = EventFields(time="ts", time_unit="s", positions="ranks")
    rows = row_decoders(fields, ["variant"])[0]
    value = (
        b'{"recommendations": ["a", "b"], "interactions": {"b": 2}, "user": 7, "ts": 1,'
        b' "ranks": [3, 4], "variant": 5}'
    )
    assert _event(rows, value) == Event(
        recommendations=["a", "b"],
        interactions={"b": 2.0},
        user="7",
        ts=1_000_000,
        labels=("5",),
        positions=[3, 4],
    )


Row = tuple[int, Event]
"""An event with its place in the batch."""


def _rows(decoded: Decoded, begin: int = 0) -> list[Row]:
    events = zip(decoded.places, events_of(decoded), strict=True)
    return [(begin + place, event) for place, event in events]


def _alone(
    fields: EventFields, labels: list[str], value: bytes | None
) -> Event | InvalidEvent | None:
    return None if value is None else GeneralDecoder(fields, labels).decode(value)


values_of_any_kind = st.none() | records() | mutilated(records()) | json_values() | st.binary()


@rare()
@given(some_fields, some_labels, st.lists(values_of_any_kind))
def test_a_batch_equals_its_records_one_by_one(
    fields: EventFields, labels: list[str], values: list[bytes | None]
) -> None:
    many = Decoder(fields, labels).decode_many(values)
    alone = [_alone(fields, labels, value) for value in values]
    assert _rows(many) == [each for each in enumerate(alone) if isinstance(each[1], Event)]
    assert many.invalid == [each for each in enumerate(alone) if isinstance(each[1], InvalidEvent)]
    assert many.tombstones == [place for place, value in enumerate(values) if value is None]
    # Columns that no event has are None in both decoders.
    assert many.named == columns_of(list(many.named.events()))
    assert (many.times is None) == (fields.time is None)
    assert (many.dimensions is None) == (not labels)
    assert (many.event_ids is None) == (fields.event_id is None)


@given(some_fields, some_labels, st.lists(records()), st.integers(0, 40))
def test_earlier_records_never_change_how_a_record_is_decoded(
    fields: EventFields, labels: list[str], values: list[bytes], cut: int
) -> None:
    decoder = Decoder(fields, labels)
    first, second = (decoder.decode_many(half) for half in (values[:cut], values[cut:]))
    whole = Decoder(fields, labels).decode_many(values)
    assert _rows(first) + _rows(second, len(values[:cut])) == _rows(whole)


@every_case("item", [b"1", b'"a"', b'{"id": 1}', b'1, "a"'])
def test_almost_every_record_of_a_steady_stream_has_the_predicted_form(item: bytes) -> None:
    decoder = Decoder(EventFields(), [])
    tried: list[bool] = []
    for form in decoder._forms:
        form.decode = _watched(form.decode, tried)
    decoder.decode_many([b'{"recommendations": [true], "interactions": []}'] * 10)
    decoder.decode_many([b'{"recommendations": [%s], "interactions": []}' % item] * 10_000)
    assert tried.count(False) < 200
    assert tried.count(True) > 9_000 or item not in {b"1", b'"a"'}
    tried.clear()
    decoder.decode_many([b'{"recommendations": ["a"], "interactions": []}'] * 1_000)
    assert tried.count(True) > 900


def _watched(decode: Callable[[bytes], Any], tried: list[bool]) -> Callable[[bytes], Any]:
    def watched(value: bytes) -> Any:
        tried.append(False)
        row = decode(value)
        tried[-1] = True
        return row

    return watched
