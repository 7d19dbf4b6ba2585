"""Invalid records: their dead letters, and how many are too many."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args
from unittest.mock import patch

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streameval.decoding.decode import Decoder
from streameval.decoding.fields import EventFields
from streameval.decoding.invalid import REASONS, InvalidEvent, Reason
from streameval.engine import dead_letters as module
from streameval.engine.dead_letters import (
    MESSAGE_BYTES,
    ORIGINAL,
    WINDOW,
    DeadLetter,
    Identity,
    LimitExceeded,
    Limits,
    Stage,
    dead_letters_in,
    too_many_invalid,
)
from streameval.events.records import Partition, RecordBatch
from tests.batches import batch_of
from tests.present import present

PARTITION = Partition("events", 3)


def _batch(*values: bytes | None) -> RecordBatch:
    places = range(len(values))
    return RecordBatch(
        partition=PARTITION,
        values=values,
        offsets=[10 + 2 * index for index in places],
        next_offset=100,
        timestamps=[1_000 + index for index in places],
        keys=[b"key %d" % index for index in places],
        headers=lambda index: [("h", b"%d" % index), ("h", b"\xff")],
    )


def _dead_letter(reason: Reason = "not_json", detail: str = "found nothing") -> DeadLetter:
    return dead_letters_in(_batch(b"bad"), [(0, InvalidEvent(reason, detail))])[0]


def test_a_letter_has_the_original_record_and_the_reason() -> None:
    batch = _batch(b'{"recommendations": [], "interactions": []}', None, b"\xff bytes")
    decoded = Decoder(EventFields(), []).decode_many(batch.values)
    dead_letters = dead_letters_in(batch, decoded.invalid)
    assert dead_letters == [
        DeadLetter(
            partition=PARTITION,
            offset=14,
            timestamp_ms=1_002,
            key=b"key 2",
            headers=(("h", b"2"), ("h", b"\xff")),
            value=b"\xff bytes",
            stage="decode",
            reason="not_utf8",
            message=decoded.invalid[0][1].detail,
        )
    ]
    assert dead_letters_in(batch.piece(1, 3, 15), [(1, decoded.invalid[0][1])]) == dead_letters


def test_letters_of_a_log_without_keys_and_timestamps_have_none() -> None:
    batch = batch_of(PARTITION, [b"x"], 7)
    (dead_letter,) = dead_letters_in(batch, [(0, InvalidEvent("not_json", "no"))])
    assert (dead_letter.key, dead_letter.headers, dead_letter.timestamp_ms) == (None, (), None)
    assert str(dead_letter.identity) == "events/3/7"


@pytest.mark.parametrize("reason", REASONS)
def test_the_stage_tells_decoding_from_validation(reason: Reason) -> None:
    unread = {"not_framed", "unknown_schema", "unusable_schema", "not_of_its_schema"}
    unread |= {"not_utf8", "not_json", "nested_too_deeply", "not_an_object", "number_too_large"}
    stages = dict.fromkeys(unread, "decode") | {"uncountable": "process"}
    assert _dead_letter(reason).stage == stages.get(reason, "validate")
    assert _dead_letter(reason).stage in get_args(Stage)


@given(st.text(st.characters(exclude_categories=()), max_size=50), st.integers(1, 100))
def test_a_message_is_cut_to_a_kilobyte(text: str, times: int) -> None:
    detail = text * times
    message = _dead_letter(detail=detail).message
    assert len(message.encode()) <= MESSAGE_BYTES
    spelt = detail.encode("utf-8", "backslashreplace").decode()
    assert spelt.startswith(message)
    assert message == spelt or len(message.encode()) > MESSAGE_BYTES - 4


@given(
    st.from_regex(r"[a-z/][a-z/0-9.]*", fullmatch=True), st.integers(0, 9**9), st.integers(0, 2**63)
)
def test_an_identity_is_read_back_from_its_text(topic: str, number: int, offset: int) -> None:
    identity = Identity(Partition(topic, number), offset)
    assert Identity.of(str(identity)) == identity


@pytest.mark.parametrize(
    "text",
    ["", "events", "events/1", "/1/2", "events/1/", "events/-1/2", "events/1/2.0", "events/1/٣"],
)
def test_text_that_is_no_identity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=f"found '{text}'; write TOPIC/PARTITION/OFFSET"):
        Identity.of(text)


@pytest.mark.parametrize(
    ("headers", "original"),
    [
        ([], "events/3/7"),
        ([("other", b"events/3/2")], "events/3/7"),
        ([(ORIGINAL, b"events/3/2")], "events/3/2"),
        ([("trace", b""), (ORIGINAL, b"events/4/1"), (ORIGINAL, b"events/3/2")], "events/4/1"),
        ([(ORIGINAL, b"events/3/x")], "events/3/7"),
        ([(ORIGINAL, b"\xff")], "events/3/7"),
    ],
)
def test_a_letter_of_a_replayed_record_names_the_original(
    headers: list[tuple[str, bytes]], original: str
) -> None:
    batch = batch_of(PARTITION, [b"x"], 7, headers=lambda _: headers)
    (dead_letter,) = dead_letters_in(batch, [(0, InvalidEvent("not_json", "no"))])
    assert str(dead_letter.identity) == "events/3/7"
    assert str(dead_letter.original) == original


def _observed(limits: Limits, invalid: Sequence[bool]) -> LimitExceeded | None:
    return limits.observe(len(invalid), [index for index, bad in enumerate(invalid) if bad])


def _slow(invalid: Sequence[bool], max_ratio: float, max_run: int) -> LimitExceeded | None:
    """The exceeded limit by definition, record by record."""
    for seen in range(1, len(invalid) + 1):
        run = 0
        while run < seen and invalid[seen - 1 - run]:
            run += 1
        if run > max_run:
            return LimitExceeded(invalid=run, of=run, limit=f"{max_run:,} in a row (max_run)")
        last = invalid[max(seen - module.WINDOW, 0) : seen]
        if seen >= module.FEWEST_IN_WINDOW and sum(last) > max_ratio * len(last):
            limit = f"{100 * max_ratio:g} % (max_ratio)"
            return LimitExceeded(invalid=sum(last), of=len(last), limit=limit)
    return None


@given(
    st.lists(st.lists(st.booleans(), max_size=12), max_size=8),
    st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]),
    st.integers(1, 7),
)
@example([[True, True, False, False]], 0.25, 7)
@example([[True, True, *[False] * 6]], 0.25, 7)
@example([[True, True, False, False, True]], 0.74, 7)
def test_limits_match_their_definition_for_any_batches(
    batches: list[list[bool]], max_ratio: float, max_run: int
) -> None:
    with patch.multiple(module, WINDOW=10, FEWEST_IN_WINDOW=4):
        limits = Limits(max_ratio, max_run)
        limit_hit = None
        for batch in batches:
            limit_hit = _observed(limits, batch)
        flat = [bad for batch in batches for bad in batch]
        assert limit_hit == _slow(flat, max_ratio, max_run)


def test_one_more_than_five_percent_exceeds_the_limit() -> None:
    limits = Limits(0.05, 1_000)
    good = [False] * (WINDOW - 501)
    assert _observed(limits, [False] * WINDOW) is None
    assert _observed(limits, good + [True] * 500) is None
    assert _observed(limits, [True]) == LimitExceeded(
        invalid=501, of=WINDOW, limit="5 % (max_ratio)"
    )


def test_the_first_exceeded_limit_is_reported_ever_after() -> None:
    limits = Limits(max_ratio=1, max_run=2)
    first = present(limits.observe(3, range(3)))
    assert limits.observe(100_000, []) == limits.observe(5_000, range(5_000)) == first


def test_its_error_says_how_many_which_limit_and_an_example() -> None:
    limit_hit = present(Limits(0.05, 1_000).observe(1_200, range(1_100)))
    error = too_many_invalid(limit_hit, "events[3] offset 14: not_json: found nothing")
    assert (error.found, error.limit) == (limit_hit.invalid, limit_hit.limit)
    assert str(error).startswith("1,000 of the last 1,000 records are invalid, more than 5 % ")
    assert "events[3] offset 14: not_json: found nothing" in str(error)
