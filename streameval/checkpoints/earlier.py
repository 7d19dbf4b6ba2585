"""Refuses checkpoints of releases before 0.3, which are one file each."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from streameval.checkpoints.format import VERSION, Shard, decode_name
from streameval.events.errors import StateVersionError
from streameval.events.saved_states import damage_as_error, damaged, unknown_version

_CHECKPOINT: Final = re.compile(r"([0-9]{20})\.checkpoint")
_FIRST_LINE: Final = re.compile(rb"streameval checkpoint ([0-9]{1,9})")
_NUMBER: Final = re.compile(r"0|[1-9][0-9]*")


def shard_and_offset(key: str) -> tuple[Shard, int] | None:
    """Shard and offset in the key of a checkpoint; None if it is not a checkpoint's.

    Example:
        >>> shard_and_offset("shop.events/Zq3kTgZr/3/00000000000000004711.checkpoint")
        (Shard(topic='shop.events', identity='Zq3kTgZr', number=3), 4711)
    """
    if key.count("/") != 3:
        return None
    topic_part, identity_part, number, name = key.split("/")
    topic, identity = decode_name(topic_part), decode_name(identity_part)
    offset = _CHECKPOINT.fullmatch(name)
    if topic is None or identity is None or offset is None or not _NUMBER.fullmatch(number):
        return None
    return Shard(topic, identity, int(number)), int(offset[1])


def earlier_version(what: str, data: bytes) -> StateVersionError:
    """The error for a checkpoint of an earlier release, with its version and release.

    `what`: the path of the file.

    Raises:
        DamagedStateError: it has neither.
    """
    opening, *rest = data.split(b"\n", 2)
    version = _FIRST_LINE.fullmatch(opening)
    if version is None or len(rest) < 2:
        raise damaged(what, "its first line is not that of a checkpoint")
    with damage_as_error(what):
        decoded = msgspec.json.decode(rest[0], type=dict[str, Any])
    return unknown_version(what, int(version[1]), VERSION, f"release {decoded.get('release')}")
