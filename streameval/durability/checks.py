"""What speaks against going on from a saved state; a sentence each, None where nothing does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from streameval.durability.checkpoint import Place

_LONGEST = 120


def lost_records(offset: int, begin: int) -> str | None:
    """The log no longer has what the state counts next.

    Example:
        >>> lost_records(400, 500)
        'its state ends at offset 400 and its log begins at 500: 100 offsets were never counted'
        >>> lost_records(500, 500)
    """
    if offset >= begin:
        return None
    return (
        f"its state ends at offset {offset} and its log begins at {begin}: "
        f"{begin - offset} offsets were never counted"
    )


def truncated(offset: int, end: int) -> str | None:
    """The state has counted what the log does not have."""
    if offset <= end:
        return None
    return f"its state ends at offset {offset} and its log at {end}: the log has lost records"


def other_settings(here: Mapping[str, Any], saved: Mapping[str, Any]) -> str | None:
    """The state was made with other settings; says which.

    Example:
        >>> other_settings({"pane": 60, "labels": ["a"]}, {"pane": 30, "labels": ["a"]})
        'its state was made with other settings: pane is 60 here and was 30'
        >>> other_settings({"event": {"time": "at"}}, {"event": {"time": "ts"}})
        'its state was made with other settings: event.time is "at" here and was "ts"'
    """
    depth = saved.get("depth")
    told_depth = depth is not None and depth != here.get("depth")
    here, saved = _flat(here), _flat(saved)
    differing = [
        f"{key} is {_shown(here, key)} here and was {_shown(saved, key)}"
        for key in sorted({*here, *saved})
        if _shown(here, key, None) != _shown(saved, key, None)
    ]
    if not differing:
        return None
    told = f"its state was made with other settings: {'; '.join(differing)}"
    if not told_depth:
        return told
    return f"{told} (it can be kept with depth = {depth} and no cut-off beyond that)"


def same_shape(here: Mapping[str, Any], saved: Mapping[str, Any]) -> bool:
    """Whether only decoding differs, so that what was counted can be counted on.

    Example:
        >>> same_shape({"event": {"time": "ts"}, "pane": 60}, {"event": {"time": "at"}, "pane": 60})
        True
        >>> same_shape({"pane": 60}, {"pane": 30})
        False
    """
    return {**here, "event": None} == {**saved, "event": None}


def foreign_progress(offset: int, committed: int | None, *, found: bool) -> str | None:
    """The group has committed what no checkpoint covers.

    Args:
        offset: of the checkpoint, or where counting would begin.
        committed: by the group; None where nothing is.
        found: whether there is a checkpoint.
    """
    if committed is None or committed <= offset:
        return None
    newest = f"the newest sound checkpoint ends at {offset}" if found else "no sound one is there"
    return (
        f"the group has committed offset {committed}, and of its checkpoints {newest}: "
        "another store was in use, or files are missing"
    )


def recreated(place: Place, places: Iterable[Place]) -> str | None:
    """The name of the topic is known, and its identity is not."""
    former = {other.identity for other in places if other.topic == place.topic}
    former.discard(place.identity)
    if not former:
        return None
    return (
        f"the topic was deleted and made again: its id is {place.identity}, and there is state "
        f"of {', '.join(sorted(former))}"
    )


def new_partition(number: int, known: int | None) -> str | None:
    """The topic did not have this partition when the state of the others began.

    Args:
        number: of the partition.
        known: how many there were then; None where unknown.
    """
    if known is None or number < known:
        return None
    return (
        f"the topic had {known} partitions when its state began, and this one is new: keys may "
        "have moved to it"
    )


def _flat(settings: Mapping[str, Any]) -> dict[str, Any]:
    """With tables inside written as table.key, so that one key is told and not all of them."""
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        inner = value.items() if isinstance(value, Mapping) and value else ()
        flat |= {f"{key}.{name}": each for name, each in inner} or {key: value}
    return flat


def _shown(settings: Mapping[str, Any], key: str, longest: int | None = _LONGEST) -> str:
    if key not in settings:
        return "absent"
    text = msgspec.json.encode(settings[key], order="sorted").decode()
    return text if longest is None or len(text) <= longest else f"{text[:longest]}..."
