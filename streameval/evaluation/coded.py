"""Ids as Arrow dictionaries: each distinct id once, and a code for each row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from streameval.evaluation.event_rows import with_common_type
from streameval.evaluation.files import arrow, decode_array
from streameval.events.batch import IntArray
from streameval.events.ragged import Array


def encode(chunks: Sequence[Any], joined: Callable[[Sequence[Any]], Any]) -> Any:
    """Arrays of ids, one after the other, as one Arrow dictionary with only the ids of its rows.

    Args:
        chunks: each of integers or text, or a dictionary of these.
        joined: puts the distinct ids of all chunks into one array.
    """
    if len(chunks) == 1 and not arrow().types.is_dictionary(chunks[0].type):
        return decode_array(chunks[0]).dictionary_encode()
    parts = [_as_dictionary(chunk) for chunk in chunks]
    words = joined([decode_array(part.dictionary) for part in parts]).dictionary_encode()
    code_of, codes, start = _codes(words), [], 0
    for part in parts:
        # Behind the last word stands that of a missing id.
        of_part = np.append(code_of[start : start + len(part.dictionary)], -1)
        codes.append(of_part[_codes(part)])
        start += len(part.dictionary)
    return _dictionary_of(words.dictionary, np.concatenate(codes))


def merge_coded(arrays: Sequence[Any], *, integers: bool = False) -> tuple[Any, list[IntArray]]:
    """The distinct ids of several dictionaries, in order of first appearance, and each row's code.

    `integers`: whether ids of text become integers.
    """
    words = with_common_type([array.dictionary for array in arrays], integers=integers)
    distinct = arrow().concat_arrays(words).dictionary_encode()
    edges = np.cumsum([len(part) for part in words])[:-1]
    parts = np.split(_codes(distinct), edges)
    codes = [part[_codes(array)] for part, array in zip(parts, arrays, strict=True)]
    count, end = len(distinct.dictionary), sum(map(len, codes))
    size, first = end, np.full(count, end)
    for part in reversed(codes):
        # Backwards, so that the first row of an id is written last.
        first[part[::-1]] = np.arange(end - 1, end - 1 - len(part), -1)
        end -= len(part)
    order = np.argsort(first, kind="stable")[: np.count_nonzero(first < size)]
    renamed = np.zeros(count, np.int64)
    renamed[order] = np.arange(len(order))
    ids = distinct.dictionary.take(arrow().array(order))
    return ids, [renamed[part] for part in codes]


def codes_in(ids: Any, array: Any, *, integers: bool) -> IntArray:
    """The index in `ids` of the id of each row of a dictionary; -1 for an id that is not there."""
    value_set, words = with_common_type([ids, array.dictionary], integers=integers)
    codes = arrow("compute").index_in(words, value_set=value_set)
    at: IntArray = codes.fill_null(-1).to_numpy().astype(np.int64)[_codes(array)]
    return at


def are_in(values: IntArray, members: IntArray) -> Array:
    """True if each value is one of the members, which may repeat."""
    if not members.size:
        return np.zeros(len(values), np.bool_)
    members = np.sort(members)
    at = np.minimum(np.searchsorted(members, values), members.size - 1)
    is_member: Array = members[at] == values
    return is_member


def _as_dictionary(values: Any) -> Any:
    is_coded = arrow().types.is_dictionary(values.type)
    return values if is_coded else decode_array(values).dictionary_encode()


def _codes(dictionary: Any) -> IntArray:
    """The code of each row, -1 for a missing one."""
    indices = dictionary.indices
    codes: IntArray = (indices.fill_null(-1) if indices.null_count else indices).to_numpy()
    return codes


def _dictionary_of(words: Any, codes: IntArray) -> Any:
    """The dictionary of these codes, without words that no row has."""
    used = np.zeros(len(words) + 1, np.bool_)
    used[codes] = True
    is_missing, used = used[-1], used[:-1]
    if not used.all():
        words = words.filter(arrow().array(used))
        codes = np.append(np.cumsum(used) - 1, -1)[codes]
    missing = codes < 0 if is_missing else None
    indices = arrow().array(codes.astype(np.int32), mask=missing)
    return arrow().DictionaryArray.from_arrays(indices, words)
