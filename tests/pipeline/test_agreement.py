"""Which decoder read a record never shows in the result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streameval.events import Batch, Event
from streameval.pipeline.decode import Decoded, Decoder
from streameval.pipeline.fields import EventFields
from streameval.pipeline.general import GeneralDecoder
from streameval.pipeline.parsing import FAILURES
from streameval.pipeline.rows import RowDecoder
from streameval.pipeline.schema import forms
from tests.pipeline.records import FIELDS, LABELS, mutilated, plain_records, records

some_fields = st.sampled_from(FIELDS)
some_labels = st.sampled_from(LABELS)
anything_like_a_record = plain_records() | records() | mutilated(plain_records())


@settings(max_examples=500)
@given(some_fields, some_labels, anything_like_a_record)
def test_the_row_decoder_agrees_with_the_general_one_on_all_that_it_accepts(
    fields: EventFields, labels: list[str], value: bytes
) -> None:
    for form in forms(fields):
        rows = RowDecoder(fields, labels, form)
        event = _event(rows, value)
        assert event is None or event == GeneralDecoder(fields, labels).decode(value)


def _event(rows: RowDecoder, value: bytes) -> Event | None:
    try:
        return rows.event(rows.decode(value)) if rows.decode is not None else None
    except FAILURES:
        return None


def test_the_usual_record_is_read_as_a_row() -> None:
    fields = EventFields(time="ts", time_unit="s", positions="ranks")
    rows = RowDecoder(fields, ["variant"], "strings")
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


def _events(decoded: Decoded) -> list[str]:
    """The events of a batch as comparable text, in no order."""
    return sorted(
        repr((labels, *event)) for labels, batch in decoded.slices for event in _columns(batch)
    )


def _columns(batch: Batch) -> list[tuple[object, ...]]:
    positions = batch.positions or [None] * len(batch)
    return list(zip(batch.recommendations, batch.interactions, positions, strict=True))


@settings(max_examples=300)
@given(some_fields, some_labels, st.lists(st.none() | records() | mutilated(records())))
def test_many_records_give_what_each_alone_gives(
    fields: EventFields, labels: list[str], values: list[bytes | None]
) -> None:
    many = Decoder(fields, labels).decode_many(values)
    alone = [Decoder(fields, labels).decode_many([value]) for value in values]
    assert _events(many) == sorted(event for one in alone for event in _events(one))
    assert [event for _, event in many.invalid] == [e for one in alone for _, e in one.invalid]
    assert many.latest == max((x.latest for x in alone if x.latest is not None), default=None)


@given(some_fields, some_labels, st.lists(records()), st.integers(0, 40))
def test_what_came_before_never_changes_what_a_record_means(
    fields: EventFields, labels: list[str], values: list[bytes], cut: int
) -> None:
    decoder = Decoder(fields, labels)
    halves = [decoder.decode_many(values[:cut]), decoder.decode_many(values[cut:])]
    whole = Decoder(fields, labels).decode_many(values)
    assert sorted(event for half in halves for event in _events(half)) == _events(whole)


@given(some_fields, some_labels, records())
def test_a_record_alone_is_the_event_that_the_batch_counts(
    fields: EventFields, labels: list[str], value: bytes
) -> None:
    decoder = Decoder(fields, labels)
    event, many = decoder.decode(value), decoder.decode_many([value])
    if isinstance(event, Event):
        assert [labels for labels, _ in many.slices] == [event.labels]
        assert many.latest == event.ts
    else:
        assert many.invalid == [(0, event)]


@pytest.mark.parametrize("item", [b"1", b'"a"', b'{"id": 1}', b'1, "a"'])
def test_hardly_a_record_of_a_steady_stream_is_tried_in_vain(item: bytes) -> None:
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


def _watched(decode: Callable[[bytes], Any] | None, tried: list[bool]) -> Callable[[bytes], Any]:
    assert decode is not None

    def watched(value: bytes) -> Any:
        tried.append(False)
        row = decode(value)
        tried[-1] = True
        return row

    return watched
