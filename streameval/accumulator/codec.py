"""Encodes and decodes a table as one msgpack value, with equal bytes for equal content."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple
from zlib import crc32

import msgspec
import numpy as np
from msgspec.msgpack import Ext

from streameval.accumulator.inputs import Digests, Inputs, UnlikeInputsError, one_kind
from streameval.accumulator.plan import USER_SUMS_PREFIX
from streameval.events.errors import (
    DamagedStateError,
    StateVersionError,
    UnlikeStateError,
    damage_as_error,
)
from streameval.events.ids import IdKind
from streameval.statistics.groups import Groups
from streameval.statistics.relation import Relation
from streameval.statistics.statistic import Statistic
from streameval.statistics.terms import restore_sums
from streameval.statistics.user_sums import UserSums
from streameval.statistics.vocabulary import Items, SavedItems, decode_names, encode_names, packed

STATE_VERSION: Final = 3
"""The version of everything saved: checkpoints, `state_dict`, `dump` and rows of partials."""

_WHAT: Final = "accumulator"


class TableContent(NamedTuple):
    """The content of a table.

    Attributes:
        inputs: identities of the inputs of each statistic that reads any; for group sums, those
            of each metric.
        seen: the contents of inputs with a version.
    """

    ids: IdKind | None
    items: Items
    events: Relation
    statistics: Mapping[str, Statistic]
    inputs: Mapping[str, Inputs]
    seen: Digests


class _Entry(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    inputs: Inputs
    relations: list[list[Ext]]
    seen: dict[str, list[str]] = {}


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
        inputs = content.inputs.get(name, {})
        seen = {of: sorted(content.seen[of]) for of in sorted(content.seen) if of in inputs}
        yield packed(name) + (b"\x93" if seen else b"\x92") + packed(inputs)
        yield b"\xdd" + len(statistic.relations).to_bytes(4, "big")
        for relation in statistic.relations.values():
            yield packed(relation.saved(cells, numbers))
        if seen:
            yield packed(seen)


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
        raise StateVersionError(_WHAT, version_read, STATE_VERSION)
    ids, lists, names, entries = rest
    kind = one_kind("ids", content.ids, decode(ids, type=IdKind | None))
    codes = decode_names(content.items, decode(names, type=SavedItems))
    entries_by_name = decode(entries, type=dict[str, msgspec.Raw])
    events = content.events.restore(decode(lists, type=list[Ext]), cells, codes)
    missing, seen = set[str](), dict[str, frozenset[str]]()
    for name, statistic in content.statistics.items():
        # Sums by user have a name for each metric.
        is_by_user = name.startswith(USER_SUMS_PREFIX)
        if name not in entries_by_name:
            texts = getattr(statistic.options, "metrics", ())
            missing.update(
                [f"{USER_SUMS_PREFIX}{text}" for text in texts] if is_by_user else [name]
            )
            continue
        entry = decode(entries_by_name[name], type=_Entry)
        here, there = content.inputs.get(name, {}), entry.inputs
        unlike = frozenset([name] if here != there else ())
        if isinstance(statistic, Groups | UserSums):
            # Earlier builds did not save the inputs of each metric.
            both = here.keys() & there.keys()
            unlike = frozenset(text for text in both if there[text] not in (None, here[text]))
        if unlike and not empty_unlike:
            raise UnlikeInputsError(f"inputs of {name}", here, there)
        if isinstance(statistic, Groups | UserSums):
            restore_sums(statistic, entry.relations, list(there), cells, unlike)
            if is_by_user:
                new = here.keys() - (there.keys() - unlike)
                missing.update(f"{USER_SUMS_PREFIX}{text}" for text in new)
        elif unlike:
            missing.add(name)
        else:
            pairs = zip(statistic.relations.items(), entry.relations, strict=True)
            for (relation_name, relation), columns in [*pairs]:
                statistic.relations[relation_name] = relation.restore(columns, cells, codes)
        for input_name, digests in entry.seen.items():
            seen[input_name] = seen.get(input_name, frozenset()) | frozenset(digests)
    return kind, events, frozenset(missing), seen


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
        raise DamagedStateError("accumulator", f"{state!r:.80} is not a state_dict")
    if state.get("version") != STATE_VERSION:
        raise StateVersionError("accumulator", state.get("version"), STATE_VERSION)
    if state.get("inputs") != inputs:
        raise UnlikeStateError("inputs", inputs, state.get("inputs"))
    if state.get("statistics") != statistics:
        raise UnlikeStateError("statistics", statistics, state.get("statistics"))
    with damage_as_error(_WHAT):
        content = b64decode(state["content"], validate=True)
    # A state from before the checksum has none.
    if state.get("crc") not in (None, crc32(content)):
        raise DamagedStateError("accumulator", "its CRC-32 differs")
    return content
