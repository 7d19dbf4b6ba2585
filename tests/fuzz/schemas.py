"""Bytes behind the id of a schema: read or refused; and texts of schemas: compiled or refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TypeAlias

from hypothesis import strategies as st

from streameval.decoding.decode import Decoder
from streameval.decoding.fields import EventFields
from streameval.decoding.framing import FramedDecoder
from streameval.sources.schemas import avro, protobuf
from streameval.sources.schemas.registry import Definition, UnusableSchemaError
from tests.decoding.records import json_values, mutilated
from tests.schemas.producing import (
    AVRO,
    ITEM,
    ITEM_PROTO,
    PROTO,
    avro_payloads,
    events,
    framed,
    protobuf_payloads,
)

Case: TypeAlias = tuple[str, Sequence[bytes], bytes]
"""A format, records without their frames, and the text of an Avro schema."""

_FIELDS = EventFields(
    recommendations="page.items", item="sku", interactions="clicked", time="at", time_unit="us"
)
_TEXT = json.dumps(AVRO)


def cases() -> st.SearchStrategy[Case]:
    """Records that were damaged on the way, and bytes that are none."""
    written = {"avro": avro_payloads(events(9)), "protobuf": protobuf_payloads(events(9))}
    drawn = [
        st.tuples(
            st.just(kind),
            st.lists(mutilated(st.sampled_from(some)) | st.binary(max_size=40), max_size=8),
            json_values() | mutilated(st.just(_TEXT.encode())),
        )
        for kind, some in written.items()
    ]
    return st.one_of(drawn)


@contextmanager
def schemas() -> Iterator[Callable[[Case], None]]:
    """Reads records by their schemas, and then as JSON."""
    item = {"shop.Item": json.dumps(ITEM)}
    readers = {
        "avro": avro.reader(Definition("AVRO", _TEXT, item), "us"),
        "protobuf": protobuf.reader(
            Definition("PROTOBUF", PROTO, {"shop/item.proto": ITEM_PROTO}), "us"
        ),
    }

    def check(case: Case) -> None:
        kind, payloads, text = case
        found = FramedDecoder(Decoder(_FIELDS, ["country"]), readers[kind]).decode_many(
            [framed(1, each) for each in payloads]
        )
        places = sorted([*found.places, *(place for place, _ in found.invalid)])
        assert places == list(range(len(payloads)))
        _compiled(text.decode("utf-8", "replace"), [framed(1, each) for each in payloads])

    yield check


def _compiled(text: str, records: Sequence[bytes]) -> None:
    """Compile what may be a schema, and read records with it that are not of it."""
    with suppress(UnusableSchemaError):
        reader = avro.reader(Definition("AVRO", text, {"shop.Item": json.dumps(ITEM)}), "ms")
        FramedDecoder(Decoder(_FIELDS, []), reader).decode_many(records)
