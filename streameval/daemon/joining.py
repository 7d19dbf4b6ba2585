"""Work of a daemon that joins streams: ends of logs, pauses, and idle logs."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from streameval.config.pipeline import joint, readable
from streameval.daemon.assembly import Assembly
from streameval.engine.snapshot import JoinHealth
from streameval.events.records import Owner, Partition
from streameval.join.joint import Grouped, JoinStats, require_together
from streameval.join.state import JoinedState
from streameval.sources.source import Pausable
from streameval.windows.times import SECOND, microseconds


def owner_of(parts: Assembly) -> Owner:
    """Who owns the partitions of a source; logs that are joined are one to it."""
    owner = parts.owner
    attribution = parts.config.attribution
    if attribution is None:
        return owner
    topics = [each for stream in attribution.streams for each in stream]
    return Grouped(owner, parts.ingest.home, topics, lambda: _inspect(parts))


def _inspect(parts: Assembly) -> None:
    """Check that the newest records of one key lie in one partition of each topic.

    Raises:
        SplitKeyError: records of one key cannot meet.
    """
    options = parts.config.attribution
    if options is not None and parts.tails is not None:
        front = joint(parts.config, options, parts.ingest.layout, parts.schemas)
        require_together(front, readable(parts.tails(), parts.config, parts.schemas))


class Joining:
    """Looks after the joins of a daemon, between batches; does nothing where there are none."""

    def __init__(self, parts: Assembly, clock: Callable[[], float]) -> None:
        self._parts = parts
        self._clock = clock
        options = parts.config.attribution
        self._stats = None
        if options is not None:
            self._stats = JoinStats(options.names, by_request=options.key == "request_id")
        self._seen: dict[Partition, tuple[int, float]] = {}

    def turn(self) -> None:
        """Tell joins what has ended, the source what leads too far, and pass by what is idle."""
        if self._stats is None:
            return
        parts = self._parts
        parts.ingest.end(parts.source.ended)
        states = dict(self._states())
        if isinstance(parts.source, Pausable):
            parts.source.pause(parts.ingest.backpressured)
        for home, state in states.items():
            self._pass_by(home, state)

    def health(self) -> JoinHealth | None:
        """How they are; None where there are none."""
        return None if self._stats is None else self._stats.health(self._parts.ingest.partitions)

    def _states(self) -> Iterator[tuple[Partition, JoinedState]]:
        for home, state in self._parts.ingest.partitions.items():
            if isinstance(state, JoinedState):
                yield home, state

    @property
    def _timeout(self) -> float | None:
        options = self._parts.config.attribution
        if options is None or options.idle_timeout is None:
            return None
        return microseconds(options.idle_timeout) / SECOND

    def _pass_by(self, home: Partition, state: JoinedState) -> None:
        """What is proposed has effects only after it was saved."""
        owner = self._parts.owner
        if state.proposed_at is not None:
            if owner.saved(home, state.proposed_at):
                state.accept()
            return
        if self._timeout is None:
            return
        expected = state.logs.expected
        idle = [log for log in state.logs.slowest if self._is_idle(log, expected[log])]
        if idle and state.blocked:
            state.propose(idle)
            owner.checkpoint_soon()

    def _is_idle(self, log: Partition, expected: int) -> bool:
        """Whether nothing has come for long, and the source knows of nothing more."""
        now = self._clock()
        offset, since = self._seen.setdefault(log, (expected, now))
        source = self._parts.source
        if offset != expected or source.trouble is not None:
            self._seen[log] = expected, now
            return False
        end = source.end_offsets().get(log)
        waited = now - since >= (self._timeout or 0.0)
        return waited and end is not None and end <= expected
