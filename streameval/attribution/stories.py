"""What was shown, what came, what was counted, and why not: the story of one request or user."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from streameval.attribution.account import OUTCOMES, Outcome
from streameval.attribution.joiner import Joiner
from streameval.attribution.state import JoinedState
from streameval.events import Id
from streameval.records import Partition

Fate: TypeAlias = Outcome | Literal["open"]


class ShownStory(msgspec.Struct, frozen=True, kw_only=True):
    """A list that was shown.

    Attributes:
        request: its id; empty where the stream has none.
        time: when, microseconds since the epoch.
        items: what, rank 1 first.
        labels: its label values.
        fate: "counted" or "open".
        complete_at: event time that every log must pass before it is counted, microseconds.
    """

    request: str
    time: int
    items: list[Id]
    labels: tuple[str, ...]
    fate: Fate
    complete_at: int


class RecordStory(msgspec.Struct, frozen=True, kw_only=True):
    """A record that came for it.

    Attributes:
        log: where it lies.
        offset: in that log.
        time: when it happened, microseconds since the epoch.
        item: of an interaction; None of an impression.
        type: of an interaction that has one.
        rank: at which the item was shown, from 1; None where it was not, or nothing was counted.
        fate: what became of it.
        why: the same in words.
    """

    log: Partition
    offset: int
    time: int
    item: Id | None
    type: str | None
    rank: int | None
    fate: Fate
    why: str


class Story(msgspec.Struct, frozen=True, kw_only=True):
    """All that a state knows of a request or a user.

    Attributes:
        lists: by time.
        records: interactions with them, and records that came to nothing; by time.
    """

    lists: Sequence[ShownStory]
    records: Sequence[RecordStory]


def story(state: JoinedState[Any], key: str) -> Story | None:
    """What a state knows of a request id or a user; None where it knows nothing."""
    joiner, logs = state.joiner, state.logs.partitions
    rows = joiner.lists(key)
    records = [*_interactions(joiner, logs, key, rows), *_told(joiner, logs, key)]
    if not rows and not records:
        return None
    return Story(
        lists=sorted((_shown(joiner, row) for row in rows), key=lambda each: each.time),
        records=sorted(records, key=lambda each: (each.time, each.log, each.offset)),
    )


def _shown(joiner: Joiner, row: int) -> ShownStory:
    shown, rules = joiner.shown, joiner.rules
    return ShownStory(
        request=shown.request(row),
        time=shown.time(row),
        items=shown.items(row),
        labels=shown.labels(row),
        fate="counted" if joiner.is_counted(row) else "open",
        complete_at=shown.time(row) + rules.window + rules.lateness,
    )


def _interactions(
    joiner: Joiner, logs: Sequence[Partition], key: str, rows: Sequence[int]
) -> Iterator[RecordStory]:
    for each, own in joiner.about(key, rows):
        if not own and each.time < joiner.watermark:
            continue  # an orphan, which is told with the others
        row = own[-1] if own else None
        counted = row is not None and joiner.is_counted(row)
        items = [] if row is None else joiner.shown.items(row)
        rank = items.index(each.item) + 1 if each.item in items else None
        yield RecordStory(
            log=logs[each.lane],
            offset=each.offset,
            time=each.time,
            item=each.item,
            type=each.type,
            rank=rank,
            fate="counted" if counted else "open",
            why=_why(joiner, each.time, rank, found=row is not None, counted=counted),
        )


def _why(joiner: Joiner, time: int, rank: int | None, *, found: bool, counted: bool) -> str:
    if counted:
        shown = f"at rank {rank}" if rank else "with an item that the list did not show"
        return f"It is part of the event, {shown}."
    if time >= joiner.watermark:
        return "It waits: an older record may still come."
    return "It has found its list, which is counted when its window is over." if found else ""


def _told(joiner: Joiner, logs: Sequence[Partition], key: str) -> Iterator[RecordStory]:
    for outcome, told in joiner.tales.of(key):
        yield RecordStory(
            log=logs[told.lane],
            offset=told.offset,
            time=told.time,
            item=told.item,
            type=told.type,
            rank=None,
            fate=outcome,
            why=OUTCOMES[outcome],
        )
