"""Outcomes of all joins of a process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from streameval.engine.snapshot import JoinHealth, StreamHealth
from streameval.events.records import Partition
from streameval.join.account import OUTCOMES, Account
from streameval.join.state import JoinedState


class JoinStats:
    """Adds up the outcomes of all joins since the process started, while partitions come and go."""

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
