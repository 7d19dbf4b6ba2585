"""Which decoder read a record never shows in the result."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from streameval.events import Batch, Event
from streameval.pipeline.decode import Decoded, Decoder
from streameval.pipeline.fields import EventFields
from streameval.pipeline.general import GeneralDecoder
from streameval.pipeline.parsing import FAILURES
from streameval.pipeline.rows import RowDecoder
from tests.pipeline.records import FIELDS, LABELS, mutilated, plain_records, records

some_fields = st.sampled_from(FIELDS)
some_labels = st.sampled_from(LABELS)
anything_like_a_record = plain_records() | records() | mutilated(plain_records())


@settings(max_examples=500)
@given(some_fields, some_labels, anything_like_a_record)
def test_the_row_decoder_agrees_with_the_general_one_on_all_that_it_accepts(
    fields: EventFields, labels: list[str], value: bytes
) -> None:
    rows = RowDecoder(fields, labels)
    if rows.decode is None:
        return
    try:
        row = rows.decode(value)
    except FAILURES:
        return
    assert rows.event(row) == GeneralDecoder(fields, labels).decode(value)


def test_the_usual_record_is_read_as_a_row() -> None:
    fields = EventFields(time="ts", time_unit="s", positions="ranks")
    rows = RowDecoder(fields, ["variant"])
    assert rows.decode is not None
    row = rows.decode(
        b'{"recommendations": ["a", "b"], "interactions": {"b": 2}, "user": 7, "ts": 1,'
        b' "ranks": [3, 4], "variant": 5}'
    )
    assert rows.event(row) == Event(
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


def test_a_stream_of_integers_does_not_pay_for_both_decoders() -> None:
    decoder = Decoder(EventFields(), [])
    tried = 0
    plain = decoder._rows.decode
    assert plain is not None

    def counting(value: bytes) -> object:
        nonlocal tried
        tried += 1
        return plain(value)

    decoder._rows.decode = counting
    decoder.decode_many([b'{"recommendations": [1], "interactions": []}'] * 10_000)
    assert tried < 200
    decoder.decode_many([b'{"recommendations": ["a"], "interactions": []}'] * 1_000)
    assert tried > 900
