"""Records on which counting raises become dead letters; the others count as if they were alone."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streameval import metric
from streameval.accumulator.table import Table
from streameval.catalogue.reading import Reading
from streameval.decoding.columns import Decoded
from streameval.decoding.decode import Decoder
from streameval.decoding.fields import EventFields
from streameval.engine.capture import ingest_snapshot
from streameval.engine.dead_letters import Limits
from streameval.engine.ingest import EventFrontend, Ingest, uncountable
from streameval.engine.partition import META, Layout
from streameval.events import Batch, Event
from streameval.events.errors import (
    OwnMetricError,
    OwnStatisticError,
    RefusedRecordsError,
    UncountableRecordsError,
)
from streameval.events.records import Partition
from streameval.join.attribution import AttributionOptions, InteractionOptions
from streameval.join.frontend import JoinFrontend
from streameval.statistics.intervals import Intervals
from streameval.statistics.lists import Lists
from tests.batches import batch_of, content_of
from tests.engine.counting import FIELDS, METRICS, MINUTE, batch, ingest, layout, parts, record
from tests.engine.picky import PICKY

PARTITION = Partition("events", 0)


@metric(bounds=(0, 1), source="this test")
def picky_lists(lists: Lists) -> Any:
    """Raises for lists of three items, when lists are flushed."""
    if (lists.length > 2).any():
        raise ZeroDivisionError("by zero")
    return np.ones(len(lists))


@metric(bounds=(0, 1), source="this test")
def words(event: Event) -> Any:
    """A value that is no number for lists of three items."""
    return "long" if len(event.recommendations) > 2 else 1.0


def _layout(**more: Any) -> Layout:
    return layout((*METRICS, PICKY), dedup=10 * MINUTE, spans=(5 * MINUTE,), **more)


def poison(**changed: Any) -> bytes:
    return record(recommendations=["a", "poison"], **changed)


def _content(of: Ingest) -> dict[str, Any]:
    """The state without the outcomes of records."""
    content: dict[str, Any] = dict(parts(of))
    content[META] = msgspec.msgpack.decode(content[META])
    del content[META]["tally"]
    return content


def _fed(of: Ingest, values: Sequence[bytes | None], ends: Sequence[int] = ()) -> Ingest:
    edges = sorted({0, len(values), *(end for end in ends if end < len(values))})
    for start, stop in pairwise(edges):
        of.apply(batch(values[start:stop], start=start))
    return of


def _without(values: Sequence[bytes | None], of: Ingest) -> Ingest:
    """The log with gaps in place of the records with poison."""
    for index, value in enumerate(values):
        if value is None or b"poison" not in value:
            of.apply(batch([value], start=index))
    of.apply(batch([], start=len(values)))
    return of


records = st.builds(
    record,
    ts=st.integers(0, 900),
    id=st.sampled_from("abcdef"),
    variant=st.sampled_from("ab"),
    recommendations=st.sampled_from([["a"], ["a", "b"], ["a", "poison"]]),
)


@given(st.lists(records | st.none(), min_size=1, max_size=20), st.lists(st.integers(0, 20)))
def test_a_record_on_which_a_metric_raises_is_a_letter_and_a_gap_in_the_log(
    values: list[bytes | None], ends: list[int]
) -> None:
    of = _fed(ingest(_layout(), keep_dead_letters=True), values, ends)
    assert _content(of) == _content(_without(values, ingest(_layout())))
    bad = [index for index, value in enumerate(values) if value and b"poison" in value]
    dead_letters = of.take_dead_letters()
    assert [(dead_letter.offset, dead_letter.value) for dead_letter in dead_letters] == [
        (at, values[at]) for at in bad
    ]
    assert {(dead_letter.stage, dead_letter.reason) for dead_letter in dead_letters} <= {
        ("process", "uncountable")
    }
    assert of.tally.invalid["uncountable"] == len(bad)
    assert of.tally.consumed == of.tally.valid + len(bad) + of.tally.duplicates + values.count(None)


@pytest.mark.parametrize("name", ["picky_lists", "picky_lists(statistic=median)", "words"])
@pytest.mark.parametrize("intervals", [None, Intervals(groups=16)])
def test_a_record_that_would_fail_only_at_the_flush_is_a_letter_in_time(
    name: str, intervals: Intervals | None
) -> None:
    def of() -> Ingest:
        kept = layout((*METRICS, f"{__name__}:{name}"), intervals=intervals)
        return ingest(kept, keep_dead_letters=True)

    poisoned = record(recommendations=["a", "poison", "b"])
    values = [poisoned if at % 4 == 1 else record(ts=at, id=str(at)) for at in range(9)]
    together = _fed(of(), values, (3, 4))
    assert _content(together) == _content(_without(values, of()))
    dead_letters = together.take_dead_letters()
    assert [(dead_letter.offset, dead_letter.reason) for dead_letter in dead_letters] == [
        (1, "uncountable"),
        (5, "uncountable"),
    ]
    (reading,) = (
        entry.reading
        for entry in ingest_snapshot(together, labels=["variant"], now=0.0).series
        if __name__ in entry.metric.text
    )
    assert reading.value == 1.0


def test_the_letter_names_the_exception_its_place_and_the_metric() -> None:
    of = ingest(_layout(), keep_dead_letters=True)
    of.apply(batch([record(), poison()]))
    (dead_letter,) = of.take_dead_letters()
    assert dead_letter.message.startswith("ZeroDivisionError: by zero, picky.py:")
    assert dead_letter.message.endswith("Correct picky in tests.engine.picky")


class _Mistaken(Decoder):
    """Raises for one record content."""

    def decode_many(self, values: Sequence[bytes | None]) -> Decoded:
        if any(value is not None and b"poison" in value for value in values):
            raise KeyError("note")
        return super().decode_many(values)


@pytest.mark.parametrize("places", [(0,), (6,), (2, 3), tuple(range(7))])
def test_a_record_on_which_decoding_raises_is_a_letter_too(places: tuple[int, ...]) -> None:
    of = _layout()
    frontend = EventFrontend(_Mistaken(FIELDS, of.families[0].dimensions), of)
    mistaken = Ingest(frontend, keep_dead_letters=True)
    values: list[bytes | None] = [record(ts=at, id=str(at)) for at in range(7)]
    for index in places:
        values[index] = poison()
    mistaken.apply(batch(values))
    assert _content(mistaken) == _content(_without(values, ingest(_layout())))
    letters = [
        (dead_letter.offset, dead_letter.value, dead_letter.reason)
        for dead_letter in mistaken.take_dead_letters()
    ]
    assert letters == [(index, poison(), "uncountable") for index in places]


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (ZeroDivisionError("d"), r"d\b.*\)\. Report this, with the records\. With \[state\]"),
        (OwnMetricError("Correct m.", metric="m"), r"Correct m\..*\)\. With \[state\]"),
        (OwnStatisticError("Correct s.", statistic="s"), r"Correct s\..*\)\. With \[state\]"),
    ],
)
def test_records_that_fail_only_together_end_the_process(
    monkeypatch: pytest.MonkeyPatch, error: Exception, remedy: str
) -> None:
    of = ingest()
    of.apply(batch([record()]))
    count = Table.count

    def failing(self: Table, counted: Batch, *more: Any) -> None:
        if len(counted) > 1:
            raise error
        count(self, counted, *more)

    monkeypatch.setattr(Table, "count", failing)
    with pytest.raises(UncountableRecordsError, match=rf"offsets 1 to 3: .*{remedy}"):
        of.apply(batch([record()] * 3, start=1))


def test_of_many_partitions_that_fail_together_the_first_few_are_named() -> None:
    records = [(f"events[{number}]", number, number + 1) for number in range(1_200)]
    error = uncountable(records, KeyError("x"))
    assert error.records == records
    assert str(error).partition(":")[0] == (
        "events[0] offsets 0 to 1, events[1] offsets 1 to 2, events[2] offsets 2 to 3 "
        "and 1,197 more partitions"
    )


@pytest.fixture
def mistaken_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables with a bug: a list with "poison" makes them raise when they have counted it."""
    count = Table.count

    def mistaken(self: Table, counted: Batch, *more: Any) -> None:
        count(self, counted, *more)
        if any("poison" in shown for shown in counted.recommendations):
            raise KeyError("poison")

    monkeypatch.setattr(Table, "count", mistaken)


@pytest.mark.usefixtures("mistaken_tables")
def test_a_record_that_ends_a_process_is_a_letter_in_the_next_one() -> None:
    values = [record(ts=at, id=str(at)) for at in range(6)]
    values[4] = poison()
    of = layout()
    before = ingest(of)
    before.begin(PARTITION, {PARTITION: 0})
    before.apply(batch(values[:2]))
    saved = parts(before)
    with pytest.raises(UncountableRecordsError, match="offsets 2 to 5"):
        before.apply(batch(values[2:], start=2))
    after = ingest(layout(), keep_dead_letters=True)
    after.restore(PARTITION, {PARTITION: 2}, saved)
    after.apply(batch(values[2:], start=2))
    assert [
        (dead_letter.offset, dead_letter.reason) for dead_letter in after.take_dead_letters()
    ] == [(4, "uncountable")]
    assert _content(after) == _content(_without(values, ingest(layout())))


def _joined(fields: EventFields = FIELDS, asked: str = PICKY, **more: Any) -> Ingest:
    options = AttributionOptions(
        impressions="shown",
        interactions=[InteractionOptions(source="clicked")],
        window="5s",
        lateness="1s",
    )
    of = layout((*METRICS, asked), (), spans=(5 * MINUTE,))
    joined = Ingest(JoinFrontend(options, fields, (), of), keep_dead_letters=True, **more)
    joined.begin(SHOWN, {SHOWN: 0, CLICKED: 0})
    return joined


SHOWN, CLICKED = Partition("shown", 0), Partition("clicked", 0)


def _streams(bad: int) -> dict[Partition, list[bytes]]:
    impressions = [{"ts": n, "request_id": n, "recommendations": ["a", "b"]} for n in range(60)]
    clicked = [{"ts": n + 2, "request_id": n, "item": "ab"[n % 2]} for n in range(60)]
    impressions[bad]["recommendations"] = ["a", "poison"]
    return {
        SHOWN: [json.dumps(event).encode() for event in impressions],
        CLICKED: [json.dumps(event).encode() for event in clicked],
    }


def _feed(of: Ingest, streams: dict[Partition, list[bytes]], size: int) -> None:
    for start in range(0, 60, size):
        for log, values in streams.items():
            of.apply(batch_of(log, values[start : start + size], start))
    of.end([SHOWN, CLICKED])


@pytest.mark.parametrize("size", [60, 7, 1])
def test_a_list_that_fails_when_its_window_is_over_is_a_letter_then(size: int) -> None:
    of, streams = _joined(), _streams(bad=20)
    _feed(of, streams, size)
    (dead_letter,) = of.take_dead_letters()
    assert (str(dead_letter.identity), dead_letter.reason) == ("shown/0/20", "uncountable")
    assert (dead_letter.value, dead_letter.size) == (b"", 0), "its log has the bytes"
    assert (of.tally.consumed, of.tally.valid, of.tally.invalid["uncountable"]) == (120, 119, 1)
    (state,) = of.partitions.values()
    assert state.tally.valid == 119
    lists, clicks = state.outcomes  # type: ignore[attr-defined]  # it is a JoinedState
    assert (lists.counted, lists.invalid, lists.open) == (59, 1, 0)
    assert (clicks.counted, clicks.orphan, clicks.open) == (59, 1, 0)
    once = _joined()
    _feed(once, streams, 60)
    saved = content_of(once.sections(SHOWN))
    assert content_of(of.sections(SHOWN)) == saved


def test_letters_of_closing_lists_count_for_the_limits() -> None:
    of = _joined(limits=Limits(max_ratio=1, max_run=3))
    streams = _streams(bad=0)
    poisoned = json.loads(streams[SHOWN][0])
    streams[SHOWN] = [
        json.dumps(poisoned | {"ts": at, "request_id": at}).encode() for at in range(60)
    ]
    with pytest.raises(RefusedRecordsError, match=r"shown\[0\] offset 3: uncountable: Zero"):
        _feed(of, streams, 60)
    # Those of all lists whose window and lateness are over at second 59 can still be written.
    assert [dead_letter.offset for dead_letter in of.take_dead_letters()] == [*range(53)]


CHANCES = msgspec.structs.replace(FIELDS, per_item={"propensity": "p", "target": "t"})
BAD: list[tuple[str, str]] = [
    ('["high", 0.5]', "'high' is a word; a metric needs a number"),
    ('["", 0.5]', "'' is a word; a metric needs a number"),
    ("[0.5]", "1 values for 2 items"),
    ("[]", "0 values for 2 items"),
    ("[0.5, 0.5, 0.5]", "3 values for 2 items"),
    ("[0.5, true]", "neither a finite number nor a word"),
    ("[[0.5], 0.5]", "neither a finite number nor a word"),
    (f"[{'9' * 400}, 0.5]", "neither a finite number nor a word"),
    ("0.5", "instead of a list"),
    ("{}", "instead of a list"),
]
UNREADABLE: dict[str, str] = {
    "[1e999, 0.5]": "number_too_large",
    "[NaN, 0.5]": "not_json",
    "[Infinity, 0.5]": "not_json",
}


def _chances(at: int, propensity: str = "[0.5, 0.5]", **more: Any) -> bytes:
    target = b', "t": [0.25, 0.5], "p": ' + propensity.encode() + b"}"
    shown = record(ts=at, id=str(at), recommendations=["a", "b"], **more)
    return shown.removesuffix(b"}") + target


@pytest.mark.parametrize(("propensity", "told"), [*BAD, *((text, "") for text in UNREADABLE)])
def test_a_bad_chance_is_a_letter_and_the_other_records_count_as_if_alone(
    propensity: str, told: str
) -> None:
    def counting() -> Ingest:
        of = layout((*METRICS, "ips", "snips", "dr"), (), spans=(5 * MINUTE,))
        return Ingest(EventFrontend(Decoder(CHANCES, ()), of), keep_dead_letters=True)

    values: list[bytes | None] = [_chances(at) for at in range(7)]
    values[3] = _chances(3, propensity, note="poison")
    of = counting()
    of.apply(batch(values))
    (dead_letter,) = of.take_dead_letters()
    reason = UNREADABLE.get(propensity, "invalid_per_item")
    assert (dead_letter.offset, dead_letter.value, dead_letter.reason) == (3, values[3], reason)
    assert told in dead_letter.message
    assert _content(of) == _content(_without(values, counting()))


@pytest.mark.parametrize(
    "propensity", ["null", "[0.5, null]", "[0, 0.5]", "[1.5, 0.5]", "[1e-320, 0.5]"]
)
def test_a_missing_or_impossible_chance_is_no_letter_and_changes_no_other_metric(
    propensity: str,
) -> None:
    def counted(values: Sequence[bytes | None]) -> dict[str, Reading]:
        frontend = EventFrontend(Decoder(CHANCES, ()), layout(("ctr", "ips"), ()))
        of = Ingest(frontend, keep_dead_letters=True)
        of.apply(batch(values))
        assert (of.take_dead_letters(), of.tally.valid) == ([], 7)
        series = ingest_snapshot(of, labels=[], now=0.0).series
        return {entry.metric.text: entry.reading for entry in series}

    good: list[bytes | None] = [_chances(at) for at in range(7)]
    without, changed = counted(good), counted([*good[:6], _chances(6, propensity)])
    assert changed["ctr"] == without["ctr"]
    assert [(read["ips"].lists, read["ips"].count) for read in (without, changed)] == [
        (7, 7),
        (7, 6),
    ]


def test_a_word_instead_of_a_chance_is_a_letter_when_the_window_of_its_list_is_over() -> None:
    of, streams = _joined(CHANCES, "ips"), _streams(bad=20)
    chances = b', "t": [0.25, 0.5], "p": [0.5, %s]}'
    streams[SHOWN] = [
        value.removesuffix(b"}") + chances % (b'"high"' if at == 20 else b"0.5")
        for at, value in enumerate(streams[SHOWN])
    ]
    _feed(of, streams, 7)
    (dead_letter,) = of.take_dead_letters()
    assert (str(dead_letter.identity), dead_letter.reason) == ("shown/0/20", "invalid_per_item")
    assert (of.tally.valid, of.tally.invalid["invalid_per_item"]) == (119, 1)
