"""The scanner reads plain records as the general decoder does, and leaves it all others."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streameval.decoding.decode import Decoder
from streameval.decoding.fields import EventFields, TimeUnit
from streameval.decoding.general import GeneralDecoder
from streameval.decoding.row_decoder import RowDecoder
from streameval.decoding.scan import RecordScanner, is_scannable
from streameval.statistics.kernel import COMPILED
from streameval.statistics.matching import Search
from tests.decoding.records import Fallback, assert_as_alone
from tests.effort import many_examples

PLAIN = b'{"recommendations": ["a", "b", "c"], "interactions": ["b", "z"], "user": "u", "ts": 5}'
"""A record before and after the one of a test."""

_UNITS: tuple[TimeUnit, ...] = ("s", "ms", "us", "iso8601")


def _record(**fields: Any) -> bytes:
    record = {"recommendations": ["a", "b"], "interactions": ["b"], "ts": 5}
    return json.dumps({**record, **fields}, ensure_ascii=False).encode()


def _with(text: str, name: str = "other") -> bytes:
    """A record with a field whose value is this text."""
    return f'{{"recommendations":["a"],"interactions":["a"],"ts":5,"{name}":{text}}}'.encode()


def _lists(shown: str, acts: str = "[]") -> bytes:
    return f'{{"recommendations":{shown},"interactions":{acts},"ts":5}}'.encode()


def _fields(unit: TimeUnit = "us", **more: Any) -> EventFields:
    return EventFields(time="ts", time_unit=unit, **more)


def _refused(fields: EventFields, *values: bytes) -> list[int]:
    """The places of the records that the scanner leaves to the decoder."""
    if not COMPILED:
        pytest.skip("no compiled kernel here")
    refused = []
    for index, value in enumerate(values):
        fallback = Fallback(fields, ["variant", "country"])
        RecordScanner(fields, ["variant", "country"], Search(), fallback).decode_many([value])
        refused += [index] * len(fallback.values)
    return refused


@pytest.mark.parametrize(
    "value",
    [
        PLAIN,
        _record(recommendations=[], interactions=[]),
        _record(recommendations=[1, -2, 30], interactions=[30, 30]),
        _record(recommendations=["7", 8], interactions=[7]),
        _record(interactions={"b": 2, "z": 0.5, "y": -1.25}),
        _record(interactions={}),
        _record(recommendations=["é", "物", "😀"], interactions=["物"], country="Österreich"),
        _record(user=7, variant=True, country=-3),
        _record(user=None, variant=None, country="__missing__"),
        _record(user="", variant="", country=False),
        _record(other={"a": [{"b": [1.5, -2, '\\ " \n é']}, None, True]}, more=[], much={}),
        b' { "ts" : 5 ,\t"recommendations"\n:\r[ "a" , "b" ] , "interactions":[ "a" ] } \n',
    ],
)
def test_a_plain_record_is_scanned(value: bytes) -> None:
    assert _refused(_fields(), PLAIN, value, PLAIN) == []
    assert_as_alone(_fields(), ["variant", "country"], [PLAIN, value, PLAIN])


def test_event_ids_and_integer_ids_are_scanned() -> None:
    fields = _fields(ids="integer", event_id="id")
    value = _record(recommendations=[3, -4, 10**17], interactions=[-4], id="x")
    assert _refused(fields, value) == []
    assert_as_alone(fields, ["variant"], [value, _record(recommendations=[3], id=7), PLAIN])


_DEEP = 10_000
_ODD = {
    "a field twice": b'{"recommendations":["a"],"recommendations":["b"],"interactions":[],"ts":5}',
    "a label twice": b'{"variant":1,"recommendations":["a"],"interactions":[],"ts":5,"variant":2}',
    "a gain twice": _lists('["a"]', '{"a":1,"a":2}'),
    "no list": b'{"interactions":[],"ts":5}',
    "no interactions": b'{"recommendations":["a"],"ts":5}',
    "no time": b'{"recommendations":["a"],"interactions":[]}',
    "nothing": b"",
    "blanks": b"  ",
    "an empty object": b"{}",
    "a list": b"[]",
    "text": b'"a"',
    "two objects": PLAIN + PLAIN,
    "a mark of UTF-8": b"\xef\xbb\xbf" + PLAIN,
    "a mark of UTF-16": PLAIN.decode().encode("utf-16"),
    "a comma at the end": _lists('["a",]'),
    "a comma at the beginning": _lists('[,"a"]'),
    "no comma": _lists('["a" "b"]'),
    "a comma before the end": b'{"recommendations":["a"],"interactions":[],"ts":5,}',
    "single quotes": _lists("['a']"),
    "an escape in an id": _lists(r'["\u0061"]', '["a"]'),
    "an escape in a name": rb'{"recommend\u0061tions":["a"],"interactions":["a"],"ts":5}',
    "padding": _lists('["a","",""]', '["a"]'),
    "padding as -1": _lists('["a","-1",-1]', '["a"]'),
    "what losses ignore": _lists("[1,-100]"),
    "text of it": _lists('["1","-100"]', '["-100"]'),
    "marks": _lists('["a","b"]', "[0,1]"),
    "one mark": _lists('["a","1"]', "[1]"),
    "gains beside ids": _with("[2.5]", "gains"),
    "gains of both signs for one id": _record(interactions=["b", "b"], gains=[3, -3]),
    "more gains than ids": _with("[1, 2]", "gains"),
    "gains beside padding": _record(interactions=["b", -1], gains=[-2, 0]),
    "gains beside integers": _record(interactions=["b", 7], gains=[-2, 2]),
    "gains beside gains": _record(interactions={"b": 1}, gains=[2]),
    "no gains": _with("null", "gains"),
    "objects": _lists('[{"id":"a","score":1.5}]', '[{"id":"a","gain":2}]'),
    "no ids": _lists("[null,true]"),
    "a list of lists": _lists('[["a"]]'),
    "whole reals as ids": _lists("[1.0,2e0]"),
    "integers with zeros": _lists("[007]"),
    "a negative zero": _lists("[-0]", "[0]"),
    "19 digits": _lists("[1234567890123456789]"),
    "40 digits": _lists("[" + "9" * 40 + "]", "[" + "9" * 40 + "]"),
    "5,000 digits": _lists("[" + "9" * 5_000 + "]"),
    "an id of 1,024 bytes": _lists(f'["{"é" * 512}"]'),
    "an id of 1,025 bytes": _lists(f'["{"é" * 512}x"]'),
    "a long user": _with(f'"{"x" * 1_025}"', "user"),
    "a long label": _with(f'"{"x" * 257}"', "variant"),
    "a real as a label": _with("1.5", "variant"),
    "a list as a label": _with("[]", "variant"),
    "a truth as a user": _with("true", "user"),
    "a NaN": _with("NaN"),
    "a NaN as a gain": _lists('["a"]', '{"a":NaN}'),
    "an infinity as a gain": _lists('["a"]', '{"a":1e999}'),
    "text as a gain": _lists('["a"]', '{"a":"2"}'),
    "a gain with an exponent": _lists('["a"]', '{"a":1e2}'),
    "a gain of 16 digits": _lists('["a"]', '{"a":0.1234567890123456}'),
    "a gain of zero": _lists('["a"]', '{"a":-0.0}'),
    "a time before 1970": _with("1", "more").replace(b"5", b"-5"),
    "a time of the year 9999": _with("1", "more").replace(b"5", b"253402300799000000"),
    "a huge number": _with("1e400"),
    "a number without an end": _with("1."),
    "a number without digits": _with("-"),
    "a word that is none": _with("nul"),
    "half a pair": _with(r'"\ud800"'),
    "an escape that is none": _with(r'"\x"'),
    "an escape at the end": _with('"a\\"'),
    "a control character": _with('"a\nb"'),
    "a control character in an id": _lists('["a\tb"]'),
    "a zero byte": _lists('["a\0b"]'),
    "nested lists": _with("[" * 20 + "]" * 20),
    "deeply nested lists": _with("[" * _DEEP + "]" * _DEEP),
    "deeply nested objects": _with('{"a":' * _DEEP + "1" + "}" * _DEEP),
    "an unclosed list": _with("[[1]"),
    "another bracket": _with("[1}"),
    "half a pair in UTF-8": _lists('["?"]').replace(b"?", b"\xed\xa0\x80"),
    "two bytes for one": _lists('["?"]').replace(b"?", b"\xc0\x80"),
    "three bytes for two": _lists('["?"]').replace(b"?", b"\xe0\x80\xaf"),
    "four bytes for three": _lists('["?"]').replace(b"?", b"\xf0\x80\x80\x80"),
    "beyond Unicode": _lists('["?"]').replace(b"?", b"\xf4\x90\x80\x80"),
    "a byte that begins nothing": _lists('["?"]').replace(b"?", b"\xff"),
    "a byte in between": _lists('["?"]').replace(b"?", b"\x80"),
    "a truncated character": _lists('["?"]').replace(b"?", b"\xe7\x89"),
    "not UTF-8 where nobody reads": _with('"?"').replace(b"?", b"\xff"),
}


@pytest.mark.parametrize("name", _ODD)
@pytest.mark.parametrize("ids", ["string", "integer"])
def test_an_odd_record_is_decoded_or_refused_as_the_decoder_does(name: str, ids: Any) -> None:
    assert_as_alone(_fields(ids=ids), ["variant", "country"], [PLAIN, _ODD[name], PLAIN])
    assert_as_alone(EventFields(ids=ids), [], [_ODD[name]])


@pytest.mark.parametrize("record", [PLAIN, _record(other=[{"é": ["\\", 1.5]}], user="物")])
def test_every_truncated_record_is_refused_as_the_decoder_does(record: bytes) -> None:
    assert_as_alone(_fields(), ["variant"], [record[:end] for end in range(len(record) + 1)])


def test_an_odd_record_between_plain_ones_makes_none_of_them_read_again() -> None:
    if not COMPILED:
        pytest.skip("no compiled kernel here")
    values = [PLAIN, _ODD["objects"], _ODD["an escape in an id"], PLAIN]
    general = Fallback(_fields())
    decoded = RecordScanner(_fields(), [], Search(), general).decode_many(values)
    matches = decoded.batch.matches
    assert matches is not None
    assert [matches.interacted.tolist(), matches.list_index.tolist()] == [
        [2, 1, 1, 2],
        [0, 1, 2, 3],
    ]
    assert general.values == values[1:3]
    assert_as_alone(_fields(), [], values)


def test_a_part_of_a_column_is_the_same_before_and_after_the_column_is_read() -> None:
    lists = Decoder(_fields(), []).decode_many([PLAIN] * 20).batch.recommendations
    before = lists[17:]
    assert [*lists][17:] == before == lists[17:] == [["a", "b", "c"]] * 3


@pytest.mark.parametrize("labels", [27, 28, 29, 40])
def test_a_record_has_any_number_of_labels(labels: int) -> None:
    names = [f"label-{number}" for number in range(labels)]
    assert_as_alone(EventFields(), names, [_record(**dict.fromkeys(names, "a"))])


def test_lists_longer_than_the_limits_are_refused() -> None:
    fields = _fields(max_recommendations=2, max_interactions=1)
    values = [
        _lists(shown, interactions)
        for shown in ('["a"]', "[1,2,3]")
        for interactions in ("[1]", "[1,2]")
    ]
    assert _refused(fields, *values) == [1, 2, 3]
    assert_as_alone(fields, [], [*values, _lists("[1,2]", '{"a":1,"b":2}')])


seconds = st.one_of(
    st.integers(0, 2**38).map(str),
    st.floats(0, 2**38).map(repr),
    st.floats(2.0**29 - 2, 2.0**32 + 2).map(repr),
    st.builds(
        lambda whole, part, digits: f"{whole}.{part:0{digits}d}"[: 11 + digits],
        st.integers(2**29, 2**32),
        st.integers(0, 10**9),
        st.integers(1, 10),
    ),
)
whole_numbers = st.integers(-5, 2**62).map(str)
_FIRST, _LAST = datetime(1969, 12, 30), datetime(6100, 1, 1)  # noqa: DTZ001  as Hypothesis takes them
moments = st.builds(
    lambda moment, minutes, text: text.format(
        moment.astimezone(timezone(timedelta(minutes=minutes))).isoformat()
    ),
    st.datetimes(_FIRST, _LAST, timezones=st.just(UTC)),
    st.integers(-1_439, 1_439) | st.just(0),
    st.sampled_from(['"{}"', '"{}0"', '"{}Z"', '"{}', '" {}"']),
) | st.sampled_from(
    [
        '"2024-02-29T00:00:00Z"',
        '"2023-02-29T00:00:00Z"',
        '"2000-02-29T23:59:59.999999Z"',
        '"2100-02-29T00:00:00Z"',
        '"2024-04-31T00:00:00Z"',
        '"2024-12-31T23:59:60Z"',
        '"2024-12-31T24:00:00Z"',
        '"2024-01-01T00:00:00.1234567Z"',
        '"2024-01-01T00:00:00-00:00"',
        '"2024-01-01T00:00:00+24:00"',
        '"2024-00-01T00:00:00Z"',
        '"2024-01-00T00:00:00Z"',
        '"2024-01-01 00:00:00Z"',
        '"2024-01-01T00:00:00"',
        '"2024-01-01T00:00:00.Z"',
        '"20240101T000000Z"',
    ]
)


@many_examples()
@given(st.sampled_from(_UNITS), st.lists(seconds | whole_numbers | moments, max_size=20))
def test_times_of_every_unit_are_those_of_the_decoder(unit: TimeUnit, times: list[str]) -> None:
    values = [_with("1", "more").replace(b'"ts":5', f'"ts":{time}'.encode()) for time in times]
    assert_as_alone(_fields(unit), [], values)


def test_usual_times_are_scanned() -> None:
    usual = {
        "s": ["1700000000", "1700000000.25", "1700000000.1234567", "4294967295.999999999", "7.5"],
        "ms": ["1700000000123"],
        "us": ["1700000000123456"],
        "iso8601": ['"2023-11-14T22:13:20.123456Z"', '"2023-11-14T22:13:20+05:30"'],
    }
    for unit in _UNITS:
        values = [_with("1", "m").replace(b'"ts":5', b'"ts":' + t.encode()) for t in usual[unit]]
        assert _refused(_fields(unit), *values) == []
        assert_as_alone(_fields(unit), [], values)


@pytest.mark.parametrize("whole", [2**29 - 1, 2**29, 2**32 - 1, 2**32])
def test_many_digits_of_seconds_are_scanned_where_doubles_tell_them_apart(whole: int) -> None:
    times = [f"{whole}.1234567", f"{whole}.123456", f"{whole}.12345"]
    values = [_with("1", "m").replace(b'"ts":5', f'"ts":{time}'.encode()) for time in times]
    is_recent = 2**29 <= whole < 2**32
    # Outside, 15 digits in all are told apart, and never seven decimals.
    digits = [len(time) - 1 for time in times]
    expected = [] if is_recent else [0, *(n for n in (1, 2) if digits[n] > 15)]
    assert _refused(_fields("s"), *values) == expected
    assert_as_alone(_fields("s"), [], values)


def test_plain_records_of_a_decoder_are_scanned(monkeypatch: pytest.MonkeyPatch) -> None:
    if not COMPILED:
        pytest.skip("no compiled kernel here")
    for decoder in (RowDecoder, GeneralDecoder):
        monkeypatch.setattr(decoder, "decode_many", None)
    decoded = Decoder(_fields(), ["variant"]).decode_many([PLAIN] * 3)
    assert len(decoded.batch) == 3


def test_fields_that_the_scanner_does_not_read_are_left_to_the_decoder() -> None:
    for fields in (
        EventFields(positions="ranks"),
        EventFields(recommendations="payload.items"),
        EventFields(history="earlier"),
        EventFields(event_id="user"),
    ):
        assert not is_scannable(fields, [])
