"""Encodes and decodes a table as one msgpack value, with equal bytes for equal content."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple
from zlib import crc32

import msgspec
import numpy as np
from msgspec.msgpack import Ext

from streameval.accumulator.inputs import (
    Digests,
    InputIdentities,
    UnlikeInputsError,
    check_same_inputs,
    one_kind,
)
from streameval.accumulator.kinds.spec import StatisticSpec
from streameval.catalogue.context import TIME_ZONE, Context
from streameval.events.ids import IdKind
from streameval.events.saved_states import (
    LOADED,
    damage_as_error,
    damaged,
    unknown_version,
    unlike,
)
from streameval.statistics.relation import Relation
from streameval.statistics.statistic import Statistic
from streameval.statistics.vocabulary import Items, SavedItems, decode_names, encode_names, packed

STATE_VERSION: Final = 3
"""The version of everything saved: checkpoints, `state_dict`, `dump` and rows of partials."""

_WHAT: Final = "accumulator"


class TableContent(NamedTuple):
    """The content of a table.

    Attributes:
        specs: of the statistics, by name.
        context: the inputs of metrics.
        digests: the contents of inputs with a version.
    """

    ids: IdKind | None
    items: Items
    events: Relation
    statistics: Mapping[str, Statistic]
    specs: Mapping[str, StatisticSpec]
    context: Context
    digests: Digests


class _Entry(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    inputs: InputIdentities
    relations: list[list[Ext]]
    digests: dict[str, list[str]] = {}


def dump_content(content: TableContent, order: Sequence[int]) -> Iterator[bytes]:
    """Encode these cells, in pieces; cells become 0, 1, 2, ... in this order, items their names."""
    cells = np.array(order, np.int64)
    yield b"\x95" + packed(STATE_VERSION) + packed(content.ids)
    yield packed(content.events.saved(cells, None))
    numbers = None
    used = [each.item_codes(cells) for each in content.statistics.values()]
    codes = np.unique(np.concatenate([np.zeros(0, np.int64), *used]))
    for piece in encode_names(content.items, codes):
        if isinstance(piece, bytes):
            yield piece
        else:
            numbers = np.zeros(len(content.items.names), np.int64)
            numbers[piece] = np.arange(piece.size)
    yield b"\xdf" + len(content.statistics).to_bytes(4, "big")
    for name, statistic in content.statistics.items():
        inputs = content.specs[name].inputs(content.context)
        of_inputs = (pair for pair in sorted(content.digests.items()) if pair[0] in inputs)
        digests = {of: sorted(contents) for of, contents in of_inputs}
        yield packed(name) + (b"\x93" if digests else b"\x92") + packed(inputs)
        yield b"\xdd" + len(statistic.relations).to_bytes(4, "big")
        for relation in statistic.relations.values():
            yield packed(relation.saved(cells, numbers))
        if digests:
            yield packed(digests)


@damage_as_error(_WHAT)
def restore_content(
    content: TableContent, data: bytes, order: Sequence[int], *, empty_unlike: bool = False
) -> tuple[IdKind | None, Relation, frozenset[str], Digests]:
    """Fill the items and statistics of an empty table, see `Table.load`.

    Returns:
        The kind of ids, the events of each cell, the names of the statistics that start empty, and
        the contents of inputs with a version.
    """
    decode, cells = msgspec.msgpack.decode, np.array(order, np.int64)
    version, *rest = decode(data, type=list[msgspec.Raw])
    version_read = decode(version)
    if version_read != STATE_VERSION:
        raise unknown_version(_WHAT, version_read, STATE_VERSION)
    ids, lists, names, entries = rest
    kind = one_kind("ids", content.ids, decode(ids, type=IdKind | None), LOADED)
    codes = decode_names(content.items, decode(names, type=SavedItems))
    entries_by_name = decode(entries, type=dict[str, msgspec.Raw])
    events = content.events.restore(decode(lists, type=list[Ext]), cells, codes)
    missing, digests = set[str](), dict[str, frozenset[str]]()
    for name, statistic in content.statistics.items():
        spec = content.specs[name]
        if name not in entries_by_name:
            missing |= spec.missing(None, frozenset())
            continue
        entry = decode(entries_by_name[name], type=_Entry)
        inputs = spec.inputs(content.context)
        differing = spec.unlike(inputs, entry.inputs)
        if differing and not empty_unlike:
            zones = [of.get(TIME_ZONE, "UTC") for of in (inputs, entry.inputs)]
            if zones[0] != zones[1]:
                what = f"time zone of {name}"
                raise unlike(what, zones[0], zones[1], UnlikeInputsError, LOADED)
            named = [
                {f"input of {text}": identity for text, identity in of.items()}
                for of in (inputs, entry.inputs)
            ]
            raise unlike(f"inputs of {name}", named[0], named[1], UnlikeInputsError, LOADED)
        missing |= spec.missing(entry.inputs, differing)
        if name not in differing:
            texts = [text for text in entry.inputs if text != TIME_ZONE]
            statistic.restore(entry.relations, cells, codes, texts, differing)
        for of, contents in entry.digests.items():
            digests[of] = digests.get(of, frozenset()) | frozenset(contents)
    return kind, events, frozenset(missing), digests


def state_of(
    content: bytes, metrics: list[str], inputs: Mapping[str, Any], statistics: list[str]
) -> dict[str, Any]:
    """The `state_dict` of an accumulator whose `dump` is the content."""
    return {
        "version": STATE_VERSION,
        "metrics": metrics,
        "inputs": inputs,
        "statistics": statistics,
        "content": b64encode(content).decode(),
        "crc": crc32(content),
    }


def content_of(state: Mapping[str, Any], inputs: Mapping[str, Any], statistics: list[str]) -> bytes:
    """The output of `Accumulator.dump` in a `state_dict`, which must have these inputs and names.

    Raises:
        StateVersionError: this release cannot read its version.
        UnlikeStateError: its statistics or inputs differ.
        DamagedStateError: it is damaged.
    """
    if not isinstance(state, Mapping):
        raise damaged("accumulator", f"{state!r:.80} is not a state_dict")
    if state.get("version") != STATE_VERSION:
        raise unknown_version("accumulator", state.get("version"), STATE_VERSION)
    check_same_inputs(inputs, state.get("inputs"), LOADED)
    if state.get("statistics") != statistics:
        raise unlike("statistics", statistics, state.get("statistics"), sides=LOADED)
    with damage_as_error(_WHAT):
        content = b64decode(state["content"], validate=True)
    if state.get("crc") != crc32(content):
        raise damaged("accumulator", "its CRC-32 differs")
    return content
