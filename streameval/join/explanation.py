"""Explains one request or user: its lists and interactions, and their outcomes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from streameval.events import Id
from streameval.events.previews import redact_ids
from streameval.events.records import Partition
from streameval.join.attribution import OUTCOMES, Outcome
from streameval.join.open_records import OpenInteractions, OpenLists, OpenRecords
from streameval.join.state import JoinedState

Status: TypeAlias = Outcome | Literal["open"]


class ExplainedList(msgspec.Struct, frozen=True, kw_only=True):
    """A list that was shown.

    Attributes:
        outcome: "counted" or "open".
        complete_at: event time that all logs must pass before it is counted, microseconds.
    """

    request: str
    time: int
    items: list[Id]
    labels: tuple[str, ...]
    outcome: Status
    complete_at: int


class ExplainedRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An interaction, or a rejected record.

    Attributes:
        item: of an interaction; None for an impression.
        rank: of the item in its list, from 1; None if the list did not show it.
        why: a sentence about the outcome.
    """

    log: Partition
    offset: int
    time: int
    item: Id | None
    type: str | None
    rank: int | None
    outcome: Status
    why: str


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """The lists and records of a request or a user."""

    lists: Sequence[ExplainedList]
    records: Sequence[ExplainedRecord]


class KeyListener:
    """Listens to a join, and explains the records of one key."""

    def __init__(self, key: str, state: JoinedState) -> None:
        self._key = key
        self._joiner, self._logs = state.joiner, state.logs.partitions
        self._by_user = state.joiner.rules.key == "user_item"
        self._lists: list[ExplainedList] = []
        # By log and offset: an interaction may be part of several events.
        self._records: dict[tuple[Partition, int], ExplainedRecord] = {}
        state.joiner.listener = self

    def rejected(self, outcome: Outcome, records: OpenRecords, row: int) -> None:
        """See `Listener.rejected`."""
        if self._is_about(records, row):
            self._note(records, row, outcome, OUTCOMES[outcome])

    def counted(self, lists: OpenLists, row: int, interactions: Sequence[int]) -> None:
        """See `Listener.counted`."""
        if not self._is_about(lists, row):
            return
        explained = self._list(lists, row, "counted")
        self._lists.append(explained)
        for at in interactions:
            self._note(*self._joiner.interactions.at(at), "counted", "", explained.items)

    def explanation(self) -> Explanation | None:
        """The explanation after the join has read its logs; None without records of the key.

        Call it once.
        """
        joiner = self._joiner
        rows = [row for row in joiner.open_lists() if self._is_about(*joiner.lists.at(row))]
        lists = [*self._lists, *(self._list(*joiner.lists.at(row), "open") for row in rows)]
        for attributed, matched in joiner.preview():
            interactions, index = joiner.interactions.at(attributed.row)
            is_about = interactions.keys[index] == self._key or not set(rows).isdisjoint(matched)
            if is_about and self._origin(interactions, index) not in self._records:
                why = "It waits, because an older record may still come."
                if interactions.times[index] < joiner.watermark:
                    why = "It is attributed to a list, which is counted when its window is over."
                items = self._list(*joiner.lists.at(matched[-1]), "open").items if matched else ()
                self._note(interactions, index, "open", why, items)
        if not lists and not self._records:
            return None
        lists.sort(key=lambda explained: (explained.time, explained.request))
        records = sorted(
            self._records.values(), key=lambda record: (record.time, record.log, record.offset)
        )
        return Explanation(
            lists=[*map(_redact_list, lists)], records=[*map(_redact_record, records)]
        )

    def _is_about(self, records: OpenRecords, row: int) -> bool:
        keys = []
        if isinstance(records, OpenInteractions):
            keys = [records.keys[row]]
        elif isinstance(records, OpenLists):
            keys = [records.requests[row], *(records.users[row : row + 1] if self._by_user else ())]
        return self._key in keys

    def _origin(self, records: OpenRecords, row: int) -> tuple[Partition, int]:
        return self._logs[int(records.logs[row])], int(records.offsets[row])

    def _items(self, records: OpenRecords, row: int) -> list[Id]:
        items: list[Id] = self._joiner.items.id_column(records.items.rows(row, row + 1)).ids()
        return items

    def _list(self, lists: OpenLists, row: int, outcome: Status) -> ExplainedList:
        time, rules = int(lists.times[row]), self._joiner.rules
        return ExplainedList(
            request=lists.requests[row],
            time=time,
            items=self._items(lists, row),
            labels=lists.dimensions[row],
            outcome=outcome,
            complete_at=time + rules.window + rules.lateness,
        )

    def _note(
        self, records: OpenRecords, row: int, outcome: Status, why: str, items: Sequence[Id] = ()
    ) -> None:
        """Record the outcome of a record; `items`: of its list."""
        item = rank = kind = None
        if isinstance(records, OpenInteractions):
            (item,), kind = self._items(records, row), records.types[row]
            rank = items.index(item) + 1 if item in items else None
        if outcome == "counted":
            where = f"at rank {rank}" if rank else "with an item that the list did not show"
            why = f"It is part of the event, {where}."
        log, offset = origin = self._origin(records, row)
        self._records[origin] = ExplainedRecord(
            log=log,
            offset=offset,
            time=int(records.times[row]),
            item=item,
            type=kind,
            rank=rank,
            outcome=outcome,
            why=why,
        )


def _redact_list(explained: ExplainedList) -> ExplainedList:
    request, *items = redact_ids([explained.request, *explained.items])
    return replace(explained, request=str(request), items=items)


def _redact_record(explained: ExplainedRecord) -> ExplainedRecord:
    return (
        explained
        if explained.item is None
        else replace(explained, item=redact_ids([explained.item])[0])
    )
