"""Random streams for a join, and the real join of them."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
from hypothesis import strategies as st

from streameval.decoding.columns import Decoded
from streameval.decoding.fields import EventFields
from streameval.engine.clock import ClockRule
from streameval.engine.partition import EventCounter, Layout
from streameval.events.records import Partition
from streameval.join.attribution import AttributionOptions, InteractionOptions
from streameval.join.frontend import JoinFrontend
from streameval.join.state import JoinedState
from tests.batches import batch_of, content_of
from tests.join.offline import Case, Joined, Log

SECOND = 1_000_000
REQUESTS = [f"r{number}" for number in range(8)]
USERS, ITEMS = ["u1", "u2"], ["a", "b", "c", "d"]
TYPES = ["click", "cart", "view"]

_impressions = st.fixed_dictionaries(
    {
        "ts": st.integers(0, 50),
        "request_id": st.sampled_from(REQUESTS),
        "user": st.sampled_from(USERS),
        "variant": st.sampled_from(["x", "y"]),
        "shown": st.lists(st.sampled_from(ITEMS), max_size=3, unique=True),
    }
)
_odd: st.SearchStrategy[Any] = st.sampled_from([None, {}])


@st.composite
def cases(draw: Any) -> Case:
    """Streams with disorder, duplicates, late and invalid records, and empty logs."""
    window = draw(st.integers(1, 20))
    shown = draw(st.lists(_logs(_impressions), min_size=1, max_size=2))
    seen = [record for log in shown for record in log if record]
    logs = st.lists(_logs(_interactions(seen, window)), min_size=1, max_size=2)
    return Case(
        streams=[shown, *draw(st.lists(logs, min_size=1, max_size=2))],
        key=draw(st.sampled_from(["request_id", "user_item"])),
        window=window,
        lateness=draw(st.integers(0, 15)),
        combine=draw(st.sampled_from(["max", "sum"])),
        per_variant=draw(st.booleans()),
        gains={"click": 1.0, "cart": 3.0},
        recent=draw(st.sampled_from([1, 3, 5])),
        max_ahead=draw(st.integers(0, 20)),
    )


@st.composite
def _interactions(draw: Any, seen: Sequence[dict[str, Any]], window: int) -> dict[str, Any]:
    """Interactions, mostly with a list that was shown, in or near its window."""
    nothing: dict[str, Any] = {"ts": 30, "request_id": "r0", "user": "u1", "shown": []}
    of = draw(st.sampled_from(seen)) if seen else nothing
    return {
        "ts": min(59, max(0, of["ts"] + draw(st.integers(-2, window + 2)))),
        "request_id": of["request_id"],
        "user": of["user"],
        "item": draw(st.sampled_from(list(of["shown"]) + ITEMS)),
        "type": draw(st.sampled_from(TYPES)),
        "event_id": str(draw(st.integers(0, 40))),
    }


def _logs(records: st.SearchStrategy[Any]) -> st.SearchStrategy[Log]:
    nearly_sorted = st.lists(records, min_size=2, max_size=12).map(
        lambda log: sorted(log, key=_roughly)
    )
    return st.one_of(
        nearly_sorted,
        nearly_sorted,
        st.lists(st.one_of(records, records, records, _odd), max_size=12),
    ).map(lambda log: [dict(record) if record is not None else None for record in log])


def _roughly(record: dict[str, Any]) -> int:
    return int(record["ts"]) // 7


def log_name(stream: int, number: int) -> Partition:
    return Partition(f"s{stream}-{number}", 0)


def join_frontend(case: Case, *, users: bool = False, **limits: Any) -> JoinFrontend:
    shown, *others = [
        [log_name(stream, number).topic for number in range(len(logs))]
        for stream, logs in enumerate(case.streams)
    ]
    options = AttributionOptions(
        impressions=shown,
        interactions=[
            InteractionOptions(source=names, event_id="event_id", types=dict(case.gains))
            for names in others
        ],
        key=case.key,
        request_id="request_id",
        window=f"{case.window}s",
        lateness=f"{case.lateness}s",
        combine=case.combine,
        per=["variant"] if case.per_variant and case.key == "user_item" else [],
        **limits,
    )
    event = EventFields(recommendations="shown", time="ts", time_unit="s")
    rule = ClockRule(case.max_ahead * SECOND, case.recent)
    layout = Layout(families=[], clock=rule)
    return JoinFrontend(options, event, ["variant"], layout, users=users)


class Fed:
    """A join fed by a test, and the events that it gives.

    fed: the records of each log so far.
    """

    def __init__(self, frontend: JoinFrontend, logs: Iterable[Partition]) -> None:
        self.frontend = frontend
        self.events: list[Any] = []
        self.fed: dict[Partition, list[Any]] = {log: [] for log in logs}
        self.state: JoinedState = frontend.state(dict.fromkeys(self.fed, 0), self._counter())

    @property
    def counted(self) -> int:
        return len(self.events)

    def feed(self, log: Partition, records: Sequence[Any], parts: float = math.inf) -> None:
        """Feed a batch of the next records, and do `parts` steps of work."""
        values = [None if record is None else json.dumps(record).encode() for record in records]
        batch = batch_of(log, values, len(self.fed[log]))
        self.state.apply(batch, self.frontend.decode(batch))
        while self.state.unfinished and parts:
            self.state.proceed()
            parts -= 1
        self.fed[log] += records

    def restart(self, other: Fed | None = None) -> dict[Partition, list[Any]]:
        """Restore the state of this or another join; returns the records to feed again."""
        before = other or self
        content, progress = before.content(), before.state.progress()
        positions = {log: log_progress.position for log, log_progress in progress.items()}
        rest = {log: records[positions[log] :] for log, records in before.fed.items()}
        self.fed = {log: records[: positions[log]] for log, records in before.fed.items()}
        self.state = self.frontend.state(positions, self._counter())
        self.state.restore(content)
        assert self.content() == content
        assert self.state.joiner.size == before.state.joiner.size
        return rest

    def _counter(self) -> EventCounter:
        return EventCounter(self.frontend.layout, self._keep)

    def end(self) -> None:
        self.state.end(list(self.fed))
        self.state.finish()

    def content(self) -> dict[str, bytes]:
        return content_of(self.state.sections())

    def _keep(self, decoded: Decoded) -> None:
        self.events.extend(decoded.batch.events())


class Run(Fed):
    """The join of a case, with events as plain tuples."""

    def __init__(self, case: Case, **limits: Any) -> None:
        self.seen: list[tuple[str | None, Any]] = []
        self.logs = {
            log_name(stream, number): log
            for stream, logs in enumerate(case.streams)
            for number, log in enumerate(logs)
        }
        super().__init__(join_frontend(case, **limits), self.logs)

    def read(self, log: Partition, count: int, parts: float = math.inf) -> None:
        """Feed the next records of a log."""
        start = len(self.fed[log])
        self.feed(log, self.logs[log][start : start + count], parts)

    def joined(self) -> Joined:
        """Read the rest, and end all logs."""
        for partition, log in self.logs.items():
            self.read(partition, len(log))
        self.end()
        tally, outcomes = self.state.tally, self.state.outcomes
        assert tally.consumed == sum(outcome.records for outcome in outcomes)
        assert tally.future == sum(outcome.future for outcome in outcomes)
        assert tally.consumed - tally.valid == sum(
            outcome.invalid + outcome.tombstone for outcome in outcomes
        )
        return Joined(
            sorted(self.events), [Counter(msgspec.to_builtins(outcome)) for outcome in outcomes]
        )

    def _keep(self, decoded: Decoded) -> None:
        self.events.extend(_events(decoded))
        self.seen.extend((event.event_id, event.user) for event in decoded.batch.events())


def _events(decoded: Decoded) -> Iterator[tuple[Any, ...]]:
    assert decoded.times is not None
    assert decoded.dimensions is not None
    for row, event in enumerate(decoded.batch.events()):
        interactions = event.interactions
        gains = interactions if isinstance(interactions, dict) else dict.fromkeys(interactions, 1.0)
        yield (
            int(decoded.times[row]) // SECOND,
            decoded.dimensions[row],
            tuple(event.recommendations),
            tuple(sorted(gains.items())),
            tuple(sorted(((act.item, act.type), act.gain) for act in event.typed)),
        )
