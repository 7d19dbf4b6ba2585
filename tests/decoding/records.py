"""Strategies for records of every form."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st
from msgspec.structs import asdict

from streameval.decoding.columns import Decoded
from streameval.decoding.decode import Decoder
from streameval.decoding.fields import EventFields
from streameval.decoding.general import DecodedEvent, GeneralDecoder
from streameval.decoding.invalid import InvalidEvent
from streameval.decoding.row_decoder import RowDecoder, row_type
from streameval.events import Batch, Event, Matches, columns_of
from streameval.events.lines import LineBlock
from streameval.statistics.matching import Search, hits_of

FIELDS = [
    EventFields(),
    EventFields(time="ts", time_unit="s"),
    EventFields(time="ts", time_unit="us", ids="integer"),
    EventFields(time="at", time_unit="iso8601", positions="ranks"),
    EventFields(positions="ranks"),
    EventFields(per_item={"propensity": "chances", "team": "teams"}),
    EventFields(per_item={"propensity": "recommendations[].score"}),
    EventFields(history="earlier", baseline="interactions"),
    EventFields(rankers={"challenger": "earlier", "other": "later"}),
    EventFields(rankers={"challenger": "interactions", "other": "payload.items"}),
    EventFields(event_id="user", max_recommendations=3, max_interactions=2),
    EventFields(recommendations="payload.items[].id", interactions="payload.clicks"),
    EventFields(time="ts", time_unit="s", event_id="user"),
    EventFields(combine="sum"),
    EventFields(types={"click": 1.0, "purchase": -5.0}),
]
LABELS = [[], ["variant"], ["variant", "user"], ["variant", "campaign"]]

LONG = st.sampled_from(
    [
        letter * length
        for letter in "xä😀"
        for length in (64, 65, 128, 129, 256, 257, 512, 513, 1025)
    ]
)
LISTS = st.lists(
    st.sampled_from(["a", "b", "c", "d"]) | st.integers(-3, 12).map(str) | LONG, max_size=5
)
INTEGERS = st.lists(st.integers(-3, 12) | st.sampled_from([2**63, 2**70, 10**33]), max_size=5)
GAINS = st.lists(st.integers(-3, 3) | st.floats(-5, 5), max_size=5)
PLAIN_GAINS = st.dictionaries(st.sampled_from("abc"), st.integers(-2, 5) | st.floats(-5, 5))

anything: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["id", "gain", "x"]), inner),
    max_leaves=6,
)

ids = st.text() | st.integers() | st.sampled_from(["1", "007", "-1", "1.0"])
objects = st.fixed_dictionaries(
    {"id": ids},
    optional={
        "score": st.none() | st.floats(-5, 5) | st.integers(),
        "gain": st.none() | st.floats(-5, 5) | st.integers(-2, 2),
        "type": st.none() | st.sampled_from(["click", "purchase"]),
    },
)
values = st.none() | st.floats(0, 1) | st.integers(-1, 2) | st.sampled_from(["a", "b", 10**400])
numbers = st.integers(0, 2_000_000_000) | st.floats(0, 2e9)
moments = st.datetimes().map(lambda moment: moment.isoformat() + "Z")
times = numbers | moments


def _encoded(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")


def json_values() -> st.SearchStrategy[bytes]:
    return anything.map(_encoded)


def plain_records() -> st.SearchStrategy[bytes]:
    """Mostly lists of ids, in the form of compiled rows."""
    return st.fixed_dictionaries(
        {
            "recommendations": LISTS | INTEGERS,
            "interactions": LISTS | INTEGERS | PLAIN_GAINS,
            "ts": numbers,
            "at": moments,
        },
        optional={
            "ranks": st.none()
            | st.lists(st.integers(1, 9), max_size=3)
            | st.lists(st.integers(-1, 9)),
            "chances": st.none() | st.lists(values, max_size=5),
            "gains": st.none() | GAINS,
            "earlier": st.none() | LISTS | INTEGERS,
            "later": LISTS | INTEGERS,
            "teams": st.none() | st.lists(values | LONG, max_size=2),
            "user": LONG | st.text() | st.integers() | st.none(),
            "variant": st.sampled_from(["a", "b", "1", 1, -1, True, None, "__missing__"]) | LONG,
            "campaign": st.sampled_from(["a", 2**70, "x", None]),
        },
    ).map(_encoded)


def free_records() -> st.SearchStrategy[bytes]:
    """Any accepted form, sometimes with a wrong field."""
    lists = st.lists(ids | objects, max_size=4)
    return st.fixed_dictionaries(
        {},
        optional={
            "recommendations": lists | anything,
            "interactions": lists | st.dictionaries(st.text(), st.floats() | anything) | anything,
            "payload": st.fixed_dictionaries({"items": st.lists(objects), "clicks": lists}),
            "user": ids | anything,
            "ts": times | anything,
            "at": times | anything,
            "ranks": st.lists(st.integers(1, 9)) | anything,
            "chances": st.lists(values, max_size=4) | anything,
            "gains": GAINS | anything,
            "earlier": lists | anything,
            "variant": ids | anything,
            "campaign": ids | anything,
        },
    ).map(_encoded)


def records() -> st.SearchStrategy[bytes]:
    return plain_records() | free_records()


@st.composite
def mutilated(draw: st.DrawFn, whole: st.SearchStrategy[bytes]) -> bytes:
    """A record with a few bytes removed or overwritten."""
    value = draw(whole)
    start = draw(st.integers(0, len(value)))
    stop = draw(st.integers(start, min(len(value), start + 4)))
    return value[:start] + draw(st.binary(max_size=3)) + value[stop:]


def events_of(decoded: Decoded) -> list[DecodedEvent]:
    """The events of columns, in order."""
    columns = map(asdict, decoded.batch.events())
    events = [DecodedEvent(**fields) for fields in columns]
    for row, event in enumerate(events):
        event.ts = None if decoded.times is None else int(decoded.times[row])
        event.labels = () if decoded.dimensions is None else decoded.dimensions[row]
        event.rankers = () if decoded.rankers is None else tuple(decoded.rankers[row])
        event.event_id = None if decoded.event_ids is None else decoded.event_ids[row]
        event.hides_loss = bool((decoded.batch.hidden_losses or {row: False})[row])
        event.other_types = (decoded.batch.other_types or {row: None})[row]
    return events


def alike(left: Batch, right: Batch) -> bool:
    """Whether batches have equal events."""
    return [*left.events()] == [*right.events()]


def assert_alike(one: Matches, other: Matches) -> None:
    """Check that two searches found the same."""
    for name, left, right in zip(Matches._fields, one, other, strict=True):
        assert np.array_equal(np.asarray(left), np.asarray(right)), name


Row = tuple[int, Event]
"""An event with its place in the batch."""


def rows_of(decoded: Decoded, begin: int = 0) -> list[Row]:
    """The events of columns, each with its place in the log."""
    events = zip(decoded.indices, events_of(decoded), strict=True)
    return [(begin + place, event) for place, event in events]


class Fallback:
    """A decoder to which another leaves odd records; notes them."""

    def __init__(self, fields: EventFields, labels: Sequence[str] = ()) -> None:
        self.values: list[bytes | None] = []
        self._general = GeneralDecoder(fields, labels)

    def decode_many(self, values: Sequence[bytes | None]) -> Decoded:
        self.values += values
        return self._general.decode_many(values)


def assert_as_alone(
    fields: EventFields, labels: Sequence[str], values: Sequence[bytes | None]
) -> None:
    """Check that a batch is decoded as the general decoder decodes each of its records.

    By the scanner, and without it; as objects, and as lines of a block.
    """
    search, general = Search(depth=3), GeneralDecoder(fields, labels)
    alone = [None if value is None else general.decode(value) for value in values]
    row = row_type(fields, labels, recommendations_only=False)
    decoders: list[Any] = [Decoder(fields, labels, search)]
    decoders += [] if row is None else [RowDecoder(fields, row, search, general)]
    for decoder in decoders:
        # Earlier records never change how a record is decoded.
        decoder.decode_many(values[len(values) // 2 :])
        many = decoder.decode_many(values)
        assert rows_of(many) == [pair for pair in enumerate(alone) if isinstance(pair[1], Event)]
        refused = [pair for pair in enumerate(alone) if isinstance(pair[1], InvalidEvent)]
        assert [*many.invalid] == refused
        assert [*many.tombstones] == [index for index, value in enumerate(values) if value is None]
        # Columns that no event has are None in all decoders.
        events = columns_of(list(many.batch.events()))
        assert alike(many.batch, events)
        assert_alike(hits_of(many.batch, search), hits_of(events, search))
        assert (many.times is None) == (fields.time is None)
        assert (many.dimensions is None) == (not labels)
        assert (many.event_ids is None) == (fields.event_id is None)
        if None not in values:
            of_block = decoder.decode_many(_block([value for value in values if value is not None]))
            assert rows_of(of_block) == rows_of(many)
            assert of_block.invalid == many.invalid
            assert_alike(hits_of(of_block.batch, search), hits_of(events, search))


def _block(lines: Sequence[bytes]) -> LineBlock:
    """These lines, between other bytes."""
    edges = np.cumsum([1, *map(len, lines)], dtype=np.int64)
    return LineBlock(b"{" + b"".join(lines) + b"}", edges[:-1], edges[1:])


def read(decoder: Decoder, value: bytes) -> Event | InvalidEvent:
    """The event of a record, or the reason why it is invalid."""
    decoded = decoder.decode_many([value])
    return decoded.invalid[0][1] if decoded.invalid else events_of(decoded)[0]


def rejection(decoder: Decoder, value: bytes) -> InvalidEvent:
    """The reason why a record is invalid, after a check that it is."""
    outcome = read(decoder, value)
    assert isinstance(outcome, InvalidEvent), outcome
    return outcome
