"""Outcomes of records: each ends in one, and they are counted while partitions come and go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal, TypeAlias

import msgspec

from streameval.events.records import Partition
from streameval.join.state import JoinedState
from streameval.pipeline.joined import JoinHealth, StreamHealth

Outcome: TypeAlias = Literal[
    "counted", "duplicate", "late", "future", "orphan", "ignored", "invalid", "tombstone"
]
"""Where a record ends; until then it is open."""

OUTCOMES: Final[dict[Outcome, str]] = {
    "counted": "It is part of an event that was counted.",
    "duplicate": "The same request, or the same event id, came before.",
    "late": "It is older than the clock of its log by more than the lateness.",
    "future": "It is ahead of the clock of its log, and the records after it do not confirm that.",
    "orphan": "No list that it could belong to was shown in the window before it.",
    "ignored": "Its type is none that counts.",
    "invalid": "It is no impression or interaction at all; see the reasons.",
    "tombstone": "It has no value.",
}
"""Each outcome, with its sentence."""


class Account(msgspec.Struct, kw_only=True, gc=False):
    """Records of one stream by what became of them; `open` are those that still wait.

    Attributes:
        records: all of them.
        counted: part of an event that was counted.
        duplicate: came before.
        late: too old when they came.
        future: ahead of their log.
        orphan: belong to no list.
        ignored: of a type that does not count.
        invalid: no impression or interaction.
        tombstone: without a value.
        outside: those of the counted that are with items which the list did not show.

    >>> account = Account(records=3, counted=1, late=1)
    >>> account.open
    1
    """

    records: int = 0
    counted: int = 0
    duplicate: int = 0
    late: int = 0
    future: int = 0
    orphan: int = 0
    ignored: int = 0
    invalid: int = 0
    tombstone: int = 0
    outside: int = 0

    @property
    def open(self) -> int:
        """Records that still wait for what they belong to, or for it to be counted."""
        ended: int = sum(getattr(self, name) for name in OUTCOMES)
        return self.records - ended

    def add(self, other: Account) -> None:
        """Count what another one counted."""
        for name in self.__struct_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def less(self, other: Account) -> Account:
        """What has been counted since it was like another one."""
        return Account(
            **{name: getattr(self, name) - getattr(other, name) for name in self.__struct_fields__}
        )


class JoinStats:
    """Adds up the outcomes of all joins since the process started, while partitions come and go.

    Args:
        names: of the streams, that of impressions first.
        by_request: whether they are joined by request id.
    """

    def __init__(self, names: Sequence[str], *, by_request: bool) -> None:
        self._names = names
        self._by_request = by_request
        self._settled = [Account() for _ in self._names]
        self._passed_by = 0
        self._known: dict[Partition, JoinedState] = {}

    def health(self, states: Mapping[Partition, object]) -> JoinHealth:
        """The health of the join, with these partitions."""
        now = {home: each for home, each in states.items() if isinstance(each, JoinedState)}
        for home, state in self._known.items():
            if now.get(home) is not state:
                self._settle(state)
        self._known = now
        totals = [Account() for _ in self._names]
        for total, settled in zip(totals, self._settled, strict=True):
            total.add(settled)
        for state in now.values():
            for total, done in zip(totals, state.done(), strict=True):
                total.add(done)
        return JoinHealth(
            streams=tuple(map(self._stream, range(len(totals)), totals)),
            bytes=sum(state.joiner.size for state in now.values()),
            clocks={log: at for state in now.values() for log, at in state.logs.clocks.items()},
            passed_by=self._passed_by + sum(state.passed_by for state in now.values()),
            by_request=self._by_request,
        )

    def _stream(self, number: int, total: Account) -> StreamHealth:
        still = sum(state.accounts[number].open for state in self._known.values())
        return StreamHealth(
            name=self._names[number],
            outcomes={name: getattr(total, name) for name in OUTCOMES},
            open=still,
            outside=total.outside,
        )

    def _settle(self, state: JoinedState) -> None:
        """Keep the outcomes of a state that moved away."""
        self._passed_by += state.passed_by
        for settled, done in zip(self._settled, state.done(), strict=True):
            settled.add(done)
