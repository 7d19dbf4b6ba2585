"""Whether records of one key lie in partitions of one number, by a sample of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from streameval.attribution.interactions import InteractionColumns
from streameval.attribution.joint import Joint
from streameval.attribution.lanes import Content
from streameval.errors import SplitKeyError
from streameval.records import RecordBatch


def require_together(joint: Joint[Any], sample: Iterable[RecordBatch]) -> None:
    """Look where the keys of some records are.

    Raises:
        SplitKeyError: one is in partitions of different numbers, so its records never meet.
    """
    places: dict[str, dict[str, int]] = {}
    for batch in sample:
        for key in _keys(joint.decode(batch), by_user=joint.rules.key == "user_item"):
            known = places.setdefault(key, {})
            known.setdefault(batch.partition.topic, batch.partition.number)
            if set(known.values()) != {batch.partition.number}:
                raise SplitKeyError(key, {**known, batch.partition.topic: batch.partition.number})


def _keys(content: Content, *, by_user: bool) -> Iterable[str]:
    if isinstance(content, InteractionColumns):
        return content.keys
    found = content.users if by_user else content.event_ids
    return [each for each in found or () if each is not None]
