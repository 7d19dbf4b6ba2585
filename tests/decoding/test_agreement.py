"""All decoders give the same results: the scanner, the row decoder and the general one."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streameval import Accumulator
from streameval.decoding.decode import Decoder
from streameval.decoding.fields import EventFields, TimeUnit
from streameval.decoding.general import DecodedEvent
from streameval.decoding.row_decoder import RowDecoder, row_type
from streameval.decoding.times import microsecond_column, microseconds
from streameval.events import Event, columns_of
from streameval.statistics.matching import Search
from tests.decoding.records import (
    FIELDS,
    LABELS,
    Fallback,
    alike,
    assert_as_alone,
    events_of,
    json_values,
    mutilated,
    plain_records,
    records,
)
from tests.effort import many_examples

some_fields = st.sampled_from(FIELDS)
some_labels = st.sampled_from(LABELS)


def test_the_usual_record_is_decoded_as_a_row() -> None:
    fields = EventFields(time="ts", time_unit="s", positions="ranks")
    row, general = (
        row_type(fields, ["variant"], recommendations_only=False),
        Fallback(fields, ["variant"]),
    )
    assert row is not None
    value = (
        b'{"recommendations": ["a", "b"], "interactions": {"b": 2}, "user": 7, "ts": 1,'
        b' "ranks": [3, 4], "variant": 5}'
    )
    integers = b'{"recommendations": [1], "interactions": [2], "ts": 1}'
    rows = RowDecoder(fields, row, Search(), general)
    event, other = events_of(rows.decode_many([value, integers]))
    assert event == DecodedEvent(
        recommendations=["a", "b"],
        interactions={"b": 2.0},
        user="7",
        ts=1_000_000,
        labels=("5",),
        positions=[3, 4],
    )
    assert (other.recommendations, other.interactions) == (["1"], ["2"])
    assert not general.values


_RANKED = b'{"recommendations": ["a"], "interactions": ["a"], "ranks": [2]}'
_GRADED = b'{"recommendations": [], "interactions": {"a": 1.7356476264662897}}'
values_of_any_kind = (
    st.none() | records() | mutilated(plain_records() | records()) | json_values() | st.binary()
)


@many_examples()
@example(EventFields(positions="ranks"), [], [_RANKED])
@example(EventFields(), [], [_RANKED, _GRADED])
@given(some_fields, some_labels, st.lists(values_of_any_kind))
def test_a_batch_equals_its_records_one_by_one(
    fields: EventFields, labels: list[str], values: list[bytes | None]
) -> None:
    assert_as_alone(fields, labels, values)


@pytest.mark.parametrize("mark", ["-1", '"-1"', '""', "-100", '"-100"', "0"])
@pytest.mark.parametrize("ids", ["string", "integer"])
def test_padding_and_marks_in_any_list_of_a_row_mean_what_they_do_alone(
    ids: Literal["string", "integer"], mark: str
) -> None:
    """Also behind a record and a tombstone that are no rows."""
    fields = EventFields(
        ids=ids, baseline="expected", history="earlier", rankers={"other": "listed"}
    )
    names = ("recommendations", "interactions", "expected", "earlier", "listed")
    plain = {name: [1, 2] for name in names}
    odd = [json.dumps(plain | {name: [3, "?"]}).replace('"?"', mark).encode() for name in names]
    assert_as_alone(fields, [], [None, b"{", *odd, json.dumps(plain).encode()])


FIRST, LAST = -62_135_596_800, 253_402_300_799
usual = st.integers(536_000_000, 4_400_000_000)
written_seconds = (
    st.floats(FIRST, LAST)
    | st.floats(2.0**29 - 2, 2.0**32 + 2)
    | st.builds(lambda whole, part: float(f"{whole}.{part}"), usual, st.integers(0, 10**8))
    | st.builds(lambda whole, part: float(f"{whole}.{part:06d}5"), usual, st.integers(0, 999_999))
    | st.builds(
        lambda power, steps: 2.0**power + steps * 2.0**-24, st.integers(28, 33), st.integers(-9, 9)
    )
)


@many_examples()
@given(st.lists(written_seconds, max_size=20))
def test_a_column_of_seconds_equals_its_values_one_by_one(written: list[float]) -> None:
    column = microsecond_column(written, "s")
    assert column.dtype == np.int64
    assert column.tolist() == [microseconds(text, "s") for text in written]


@given(st.lists(st.integers(FIRST * 1_000, LAST * 1_000)))
def test_a_column_of_integers_equals_its_values_one_by_one(written: list[int]) -> None:
    units: tuple[TimeUnit, ...] = ("ms", "us")
    for unit in units:
        alone = [microseconds(number, unit) for number in written]
        assert microsecond_column(written, unit).tolist() == alone


@given(st.lists(st.datetimes(timezones=st.timezones() | st.just(UTC))))
def test_a_column_of_datetimes_equals_its_values_one_by_one(written: list[datetime]) -> None:
    alone = [microseconds(moment, "iso8601") for moment in written]
    assert microsecond_column(written, "iso8601").tolist() == alone


@given(st.sampled_from(FIELDS), st.sampled_from(LABELS), st.lists(records()), st.data())
def test_kept_events_equal_those_of_their_records_alone(
    fields: EventFields, labels: list[str], values: list[bytes], data: st.DataObject
) -> None:
    total = Decoder(fields, labels).decode_many(values)
    size = len(total.indices)
    rows = np.array(data.draw(st.lists(st.booleans(), min_size=size, max_size=size)), dtype=bool)
    taken = total.keep(rows)
    indices = [index for index, is_kept in zip(total.indices, rows, strict=True) if is_kept]
    alone = Decoder(fields, labels).decode_many([values[index] for index in indices])
    assert taken.indices == indices
    assert alike(taken.batch, alone.batch)
    assert taken.dimensions == alone.dimensions
    assert (taken.invalid, taken.tombstones) == (total.invalid, total.tombstones)


def test_a_kept_event_of_another_form_is_as_decoded_alone() -> None:
    values = [
        b'{"recommendations": ["a"], "interactions": [], "ts": 7, "id": "x"}',
        b'{"recommendations": [0], "interactions": [], "ts": 8, "id": "y"}',
    ]
    decoder = Decoder(EventFields(time="ts", time_unit="s", event_id="id"), [])
    retained = decoder.decode_many(values).keep(np.array([False, True]))
    assert alike(retained.batch, decoder.decode_many(values[1:]).batch)


def test_a_steady_batch_has_its_indices_as_a_range() -> None:
    value = b'{"recommendations": ["a"], "interactions": []}'
    assert Decoder(EventFields(), []).decode_many([value] * 5).indices == range(5)


@pytest.mark.parametrize("rows", [[], [0], [1], [2, 0], [0, 0, 1]])
def test_events_taken_from_columns_are_those_events(rows: list[int]) -> None:
    events = [
        Event(recommendations=["a"], interactions=[], scores=[0.5]),
        Event(recommendations=["b"], interactions=[], positions=[3]),
        Event(recommendations=["c"], interactions={"c": 1.0}, baseline=["d"]),
    ]
    assert alike(
        columns_of(events).take(np.array(rows, int)), columns_of([events[row] for row in rows])
    )


@pytest.mark.parametrize("form", [["a", "b"], [1, 2], [{"id": "a"}, {"id": "b"}]])
def test_users_are_decoded_in_any_form_of_record(form: list[Any]) -> None:
    records = [
        json.dumps({"recommendations": form, "interactions": [], "user": user}).encode()
        for user in ("u1", 2, None, "")
    ]
    batch = Decoder(EventFields(), []).decode_many(records).batch
    assert batch.users == ["u1", "2", None, None]
    accumulator = Accumulator("users_covered")
    accumulator.update_many(batch)
    assert accumulator.read("users_covered").value == 2.0
