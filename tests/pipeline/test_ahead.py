"""Events from the future are invalid, as judged by their log and by no other clock."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from streameval.pipeline.ahead import too_far_ahead
from streameval.pipeline.decode import Decoded, Decoder
from streameval.pipeline.fields import EventFields

FIELDS = EventFields(time="ts", time_unit="us", event_id="id")


def decoded(times: list[int | None]) -> Decoded:
    """None stands for a tombstone, a time below 0 for a record that is no event."""
    return Decoder(FIELDS, []).decode_many(
        [time if time is None else _record(time) for time in times]
    )


def _record(time: int) -> bytes:
    shown: dict[str, object] = {"recommendations": [], "interactions": [], "ts": time, "id": time}
    return b"[]" if time < 0 else msgspec.json.encode(shown)


def test_an_event_may_be_as_far_ahead_as_configured_and_no_further() -> None:
    found = too_far_ahead(decoded([1_600_000, 1_600_001]), [1_000, 1_000], 600_000)
    assert (list(found.places), found.event_ids) == ([0], ["1600000"])
    assert [(place, event.reason) for place, event in found.invalid] == [(1, "future_time")]


def test_the_detail_names_both_times() -> None:
    found = too_far_ahead(decoded([1_767_225_600_000_001]), [1_600_000_000_123], 0)
    assert found.invalid[0][1].detail == (
        "event time 2026-01-01T00:00:00.000001Z,"
        " but the log took the record at 2020-09-13T12:26:40.123Z"
    )


def test_a_record_of_which_the_log_has_no_time_is_not_judged() -> None:
    found = decoded([5_000_000])
    assert too_far_ahead(found, [-1], 0) is found


def test_a_stream_without_time_is_not_judged() -> None:
    found = Decoder(EventFields(), []).decode_many([_record(5_000_000)])
    assert too_far_ahead(found, [0], 0) is found


@given(
    st.lists(
        st.tuples(st.none() | st.integers(-2, 9_000), st.integers(-1, 8) | st.just(2**63 - 1))
    ),
    st.integers(0, 2_000),
)
def test_each_event_is_judged_by_the_timestamp_of_its_own_record(
    log: list[tuple[int | None, int]], most: int
) -> None:
    before = decoded([time for time, _ in log])
    found = too_far_ahead(before, [taken for _, taken in log], most)
    far = [
        place
        for place, (time, taken) in enumerate(log)
        if time is not None and taken >= 0 and time > taken * 1_000 + most
    ]
    assert list(found.places) == [place for place in before.places if place not in far]
    assert [place for place, _ in found.invalid] == sorted(
        [place for place, _ in before.invalid] + far
    )
    assert [each for each in found.invalid if each[0] not in far] == before.invalid
    assert found.tombstones == before.tombstones
    assert len(found.batch) == len(found.places)
