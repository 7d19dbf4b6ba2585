"""Explains one request or user: its lists and interactions, and their outcomes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias

import msgspec

from streameval.events import Id
from streameval.events.records import Partition
from streameval.join.impression_buffer import ImpressionBuffer
from streameval.join.interaction_buffer import InteractionRecord
from streameval.join.joiner import Joiner, RejectedRecord
from streameval.join.options import OUTCOMES, Outcome, Rules
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


class KeyTrace:
    """Collects the outcomes of the records of one key."""

    def __init__(self, key: str, rules: Rules) -> None:
        self._key = key
        self._rules = rules
        self._users = rules.key == "user_item"
        self._rejected: list[tuple[Outcome, RejectedRecord]] = []
        self._lists: list[ExplainedList] = []
        self._counted: dict[tuple[int, int], tuple[InteractionRecord, int | None]] = {}

    def rejected(self, outcome: Outcome, record: RejectedRecord) -> None:
        """See `Trace.rejected`."""
        if record.key == self._key or (self._users and record.user == self._key):
            self._rejected.append((outcome, record))

    def counted(
        self, shown: ImpressionBuffer, row: int, interactions: Sequence[InteractionRecord]
    ) -> None:
        """See `Trace.counted`."""
        if shown.request(row) != self._key and not (self._users and shown.user(row) == self._key):
            return
        explained = _list(shown, row, self._rules, "counted")
        self._lists.append(explained)
        for interaction in interactions:
            self._counted[interaction.log, interaction.offset] = (
                interaction,
                _rank(explained.items, interaction.item),
            )

    def explanation(self, state: JoinedState) -> Explanation | None:
        """The explanation after the join has read its logs; None without records of the key."""
        joiner, logs = state.joiner, state.logs.partitions
        waiting = self._open_rows(joiner)
        lists = [
            *self._lists,
            *(_list(joiner.impressions, row, self._rules, "open") for row in waiting),
        ]
        records = [*self._closed(logs), *self._open(joiner, logs)]
        if not lists and not records:
            return None
        return Explanation(
            lists=sorted(
                lists, key=lambda explained_list: (explained_list.time, explained_list.request)
            ),
            records=sorted(
                records,
                key=lambda explained_record: (
                    explained_record.time,
                    explained_record.log,
                    explained_record.offset,
                ),
            ),
        )

    def _open_rows(self, joiner: Joiner) -> list[int]:
        return [row for row in joiner.lists(self._key) if not joiner.is_counted(row)]

    def _closed(self, logs: Sequence[Partition]) -> Iterator[ExplainedRecord]:
        for interaction, rank in self._counted.values():
            shown = f"at rank {rank}" if rank else "with an item that the list did not show"
            why = f"It is part of the event, {shown}."
            yield _record(logs, interaction, "counted", why, rank)
        for outcome, record in self._rejected:
            yield _record(logs, record, outcome, OUTCOMES[outcome])

    def _open(self, joiner: Joiner, logs: Sequence[Partition]) -> Iterator[ExplainedRecord]:
        for interaction, rows in joiner.about(self._key, self._open_rows(joiner)):
            if (interaction.log, interaction.offset) in self._counted:
                continue
            if interaction.time >= joiner.watermark:
                why = "It waits, because an older record may still come."
            elif rows:
                why = "It is attributed to a list, which is counted when its window is over."
            else:
                continue  # an orphan: one of the rejected records
            rank = _rank(joiner.impressions.items(rows[-1]), interaction.item) if rows else None
            yield _record(logs, interaction, "open", why, rank)


def _list(shown: ImpressionBuffer, row: int, rules: Rules, outcome: Status) -> ExplainedList:
    time = shown.time(row)
    return ExplainedList(
        request=shown.request(row),
        time=time,
        items=shown.items(row),
        labels=shown.labels(row),
        outcome=outcome,
        complete_at=time + rules.window + rules.lateness,
    )


def _record(
    logs: Sequence[Partition],
    record: InteractionRecord | RejectedRecord,
    outcome: Status,
    why: str,
    rank: int | None = None,
) -> ExplainedRecord:
    return ExplainedRecord(
        log=logs[record.log],
        offset=record.offset,
        time=record.time,
        item=record.item,
        type=record.type,
        rank=rank,
        outcome=outcome,
        why=why,
    )


def _rank(items: Sequence[Id], item: Id) -> int | None:
    return items.index(item) + 1 if item in items else None
