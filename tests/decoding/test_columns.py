"""Decoded events as columns: selections, and times."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streameval import Accumulator
from streameval.decoding.decode import Decoder
from streameval.decoding.fields import EventFields, TimeUnit
from streameval.decoding.times import microsecond_column, microseconds
from streameval.events import Event, columns_of
from tests.decoding.records import FIELDS, LABELS, records
from tests.effort import every_case, rare

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


@rare()
@given(st.lists(written_seconds, max_size=20))
def test_a_column_of_seconds_equals_its_values_one_by_one(written: list[float]) -> None:
    found = microsecond_column(written, "s")
    assert found.dtype == np.int64
    assert found.tolist() == [microseconds(each, "s") for each in written]


def test_thousands_of_seconds_as_programs_write_them_are_exact() -> None:
    rng = np.random.default_rng(5)
    seconds = rng.uniform(2.0**29, 2.0**32, 20_000)
    for written in (seconds, np.round(seconds, 7), np.floor(seconds * 1e6) / 1e6 + 5e-7):
        listed = written.tolist()
        assert microsecond_column(listed, "s").tolist() == [microseconds(x, "s") for x in listed]


@given(st.lists(st.integers(FIRST * 1_000, LAST * 1_000)))
def test_a_column_of_integers_equals_its_values_one_by_one(written: list[int]) -> None:
    units: tuple[TimeUnit, ...] = ("ms", "us")
    for unit in units:
        alone = [microseconds(each, unit) for each in written]
        assert microsecond_column(written, unit).tolist() == alone


@given(st.lists(st.datetimes(timezones=st.timezones() | st.just(UTC))))
def test_a_column_of_datetimes_equals_its_values_one_by_one(written: list[datetime]) -> None:
    alone = [microseconds(each, "iso8601") for each in written]
    assert microsecond_column(written, "iso8601").tolist() == alone


@given(st.sampled_from(FIELDS), st.sampled_from(LABELS), st.lists(records()), st.data())
def test_kept_events_equal_those_of_their_records_alone(
    fields: EventFields, labels: list[str], values: list[bytes], data: st.DataObject
) -> None:
    whole = Decoder(fields, labels).decode_many(values)
    size = len(whole.places)
    rows = np.array(data.draw(st.lists(st.booleans(), min_size=size, max_size=size)), dtype=bool)
    kept = whole.keep(rows)
    places = [place for place, wanted in zip(whole.places, rows, strict=True) if wanted]
    alone = Decoder(fields, labels).decode_many([values[place] for place in places])
    assert kept.places == places
    assert (kept.batch, kept.dimensions, kept.event_ids) == (
        (alone.batch, alone.dimensions, alone.event_ids)
    )
    assert (None if kept.times is None else kept.times.tolist()) == (
        None if alone.times is None else alone.times.tolist()
    )
    assert (kept.invalid, kept.tombstones) == (whole.invalid, whole.tombstones)


def test_a_kept_event_of_another_form_is_as_decoded_alone() -> None:
    values = [
        b'{"recommendations": ["a"], "interactions": [], "ts": 7, "id": "x"}',
        b'{"recommendations": [0], "interactions": [], "ts": 8, "id": "y"}',
    ]
    decoder = Decoder(EventFields(time="ts", time_unit="s", event_id="id"), [])
    kept = decoder.decode_many(values).keep(np.array([False, True]))
    assert kept.batch == decoder.decode_many(values[1:]).batch


def test_a_steady_batch_has_its_places_as_a_range() -> None:
    value = b'{"recommendations": ["a"], "interactions": []}'
    assert Decoder(EventFields(), []).decode_many([value] * 5).places == range(5)


@every_case("rows", [[], [0], [1], [2, 0], [0, 0, 1]])
def test_events_taken_from_columns_are_those_events(rows: list[int]) -> None:
    events = [
        Event(recommendations=["a"], interactions=[], scores=[0.5]),
        Event(recommendations=["b"], interactions=[], positions=[3]),
        Event(recommendations=["c"], interactions={"c": 1.0}, baseline=["d"]),
    ]
    assert columns_of(events).take(rows) == columns_of([events[row] for row in rows])


@every_case("form", [["a", "b"], [1, 2], [{"id": "a"}, {"id": "b"}]])
def test_users_are_decoded_in_any_form_of_record(form: list[Any]) -> None:
    records = [
        json.dumps({"recommendations": form, "interactions": [], "user": user}).encode()
        for user in ("u1", 2, None)
    ]
    batch = Decoder(EventFields(), []).decode_many(records).batch
    assert batch.users == ["u1", "2", None]
    accumulator = Accumulator("users_covered")
    accumulator.update_many(batch)
    assert accumulator.read("users_covered").value == 2.0
