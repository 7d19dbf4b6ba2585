"""Encodes and decodes a table as one msgpack value, with equal bytes for equal content."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias
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
from streameval.statistics.arrays import IntArray
from streameval.statistics.groups import Groups
from streameval.statistics.relation import Relation
from streameval.statistics.statistic import Statistic
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


class Restored(NamedTuple):
    """What `restore_content` finds besides the content of the statistics.

    Attributes:
        events: of each cell.
        missing: names of the statistics that start empty.
        seen: the contents of inputs with a version.
    """

    ids: IdKind | None
    events: Relation
    missing: frozenset[str]
    seen: Digests


_Numbers: TypeAlias = tuple[IntArray, IntArray]
"""The new number of each saved cell and item."""


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
        seen = {
            input_name: sorted(content.seen[input_name])
            for input_name in sorted(content.seen)
            if input_name in inputs
        }
        yield packed(name) + (b"\x93" if seen else b"\x92") + packed(inputs)
        yield b"\xdd" + len(statistic.relations).to_bytes(4, "big")
        for relation in statistic.relations.values():
            yield packed(relation.saved(cells, numbers))
        if seen:
            yield packed(seen)


def restore_content(
    content: TableContent, data: bytes, cells: Sequence[int], *, empty_unlike: bool = False
) -> Restored:
    """Fill empty statistics from the output of `dump_content`.

    Args:
        content: content of an empty table; its items and statistics are filled.
        data: the bytes.
        cells: the new number of each saved cell.
        empty_unlike: whether a statistic of other inputs starts empty, instead of raising.

    Raises:
        StateVersionError: this release cannot read the version.
        UnlikeInputsError: a statistic had other inputs.
        UnlikeStateError: the ids are of the other kind.
        DamagedStateError: it is not the output of `dump_content`.
    """
    with damage_as_error(_WHAT):
        return _restore_content(content, data, np.array(cells, np.int64), empty_unlike=empty_unlike)


def _restore_content(
    content: TableContent, data: bytes, cells: IntArray, *, empty_unlike: bool
) -> Restored:
    version, *rest = msgspec.msgpack.decode(data, type=list[msgspec.Raw])
    version_read = msgspec.msgpack.decode(version)
    if version_read != STATE_VERSION:
        raise StateVersionError(_WHAT, version_read, STATE_VERSION)
    ids, lists, names, entries = rest
    kind = one_kind("ids", content.ids, msgspec.msgpack.decode(ids, type=IdKind | None))
    codes = decode_names(content.items, msgspec.msgpack.decode(names, type=SavedItems))
    entries_by_name = msgspec.msgpack.decode(entries, type=dict[str, msgspec.Raw])
    columns = msgspec.msgpack.decode(lists, type=list[Ext])
    events = content.events.restore(columns, cells, codes)
    missing, seen = set[str](), dict[str, frozenset[str]]()
    for name, statistic in content.statistics.items():
        if name not in entries_by_name:
            missing |= _names_of(name, statistic)
            continue
        entry = msgspec.msgpack.decode(entries_by_name[name], type=_Entry)
        inputs = content.inputs.get(name, {})
        by_metric = isinstance(statistic, Groups | UserSums)
        fill = _fill_by_metric if by_metric else _fill
        unlike = _unlike(inputs, entry.inputs) if by_metric else inputs != entry.inputs
        if unlike and not empty_unlike:
            raise UnlikeInputsError(f"inputs of {name}", inputs, entry.inputs)
        missing |= fill(name, statistic, inputs, entry, (cells, codes))
        for input_name, digests in entry.seen.items():
            seen[input_name] = seen.get(input_name, frozenset()) | frozenset(digests)
    return Restored(kind, events, frozenset(missing), seen)


def _unlike(here: Inputs, there: Inputs) -> frozenset[str]:
    """The metrics that were counted with other inputs; earlier builds did not save them."""
    both = here.keys() & there.keys()
    return frozenset(name for name in both if there[name] not in (None, here[name]))


def _fill(
    name: str, statistic: Statistic, inputs: Inputs, entry: _Entry, numbers: _Numbers
) -> frozenset[str]:
    """Fill a statistic, unless it was counted with other inputs; returns the missing names."""
    if entry.inputs != inputs:
        return frozenset((name,))
    pairs = zip(statistic.relations.items(), entry.relations, strict=True)
    for (relation_name, relation), columns in [*pairs]:
        statistic.relations[relation_name] = relation.restore(columns, *numbers)
    return frozenset()


def _fill_by_metric(
    name: str, statistic: Any, inputs: Inputs, entry: _Entry, numbers: _Numbers
) -> frozenset[str]:
    """Likewise for sums of several metrics, of which some may be missing."""
    unlike = _unlike(inputs, entry.inputs)
    statistic.restore(entry.relations, list(entry.inputs), numbers[0], unlike)
    if not name.startswith(USER_SUMS_PREFIX):
        return frozenset()
    new = inputs.keys() - (entry.inputs.keys() - unlike)
    return frozenset(f"{USER_SUMS_PREFIX}{text}" for text in new)


def _names_of(name: str, statistic: Statistic) -> frozenset[str]:
    """The names under which a statistic is missing: sums by user have one for each metric."""
    if isinstance(statistic, UserSums) and name.startswith(USER_SUMS_PREFIX):
        return frozenset(f"{USER_SUMS_PREFIX}{metric}" for metric in statistic.options.metrics)
    return frozenset((name,))


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
