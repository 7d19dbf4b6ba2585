"""Random streams for a join, and the real join of them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from hypothesis import strategies as st

from streameval.decoding.columns import Decoded
from streameval.decoding.fields import EventFields
from streameval.engine.partition import Layout
from streameval.events.records import Partition, RecordBatch
from streameval.join.joiner import Trace
from streameval.join.joint import Joint
from streameval.join.options import AttributionOptions, InteractionOptions
from streameval.join.state import JoinedState
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
    """Streams with shuffles, repeats, late and bad records, and logs that are empty."""
    window = draw(st.integers(1, 20))
    shown = draw(st.lists(_logs(_impressions), min_size=1, max_size=2))
    seen = [each for log in shown for each in log if each]
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
    """Mostly with a list that was shown, around the window after it."""
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
        lambda found: sorted(found, key=_roughly)
    )
    return st.one_of(
        nearly_sorted,
        nearly_sorted,
        st.lists(st.one_of(records, records, records, _odd), max_size=12),
    ).map(lambda log: [dict(each) if each is not None else None for each in log])


def _roughly(record: dict[str, Any]) -> int:
    return int(record["ts"]) // 7


def log_name(stream: int, number: int) -> Partition:
    return Partition(f"s{stream}-{number}", 0)


def joint(case: Case, *, users: bool = False, **limits: Any) -> Joint:
    """The real join of a case."""
    shown, *others = [
        [log_name(stream, number).topic for number in range(len(logs))]
        for stream, logs in enumerate(case.streams)
    ]
    options = AttributionOptions(
        impressions=shown,
        interactions=[
            InteractionOptions(source=names, event_id="event_id", types=case.gains)
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
    layout = Layout(families=[], recent=case.recent, max_ahead=case.max_ahead * SECOND)
    return Joint(options, event, ["variant"], layout, users=users)


class Run:
    """A join that is fed, with the events that come out of it."""

    def __init__(self, case: Case, trace: Trace | None = None, **limits: Any) -> None:
        self.case = case
        self._trace = trace
        self.front = joint(case, **limits)
        self.events: list[tuple[Any, ...]] = []
        self.seen: list[tuple[str | None, Any]] = []
        self.logs = {
            log_name(stream, number): log
            for stream, logs in enumerate(case.streams)
            for number, log in enumerate(logs)
        }
        self.state = self._new(dict.fromkeys(self.logs, 0))

    def feed(self, partition: Partition, count: int, parts: float = math.inf) -> None:
        """The next records of a log, as one batch; counts so many parts of what is complete."""
        start = self._read[partition]
        values = [_encoded(each) for each in self.logs[partition][start : start + count]]
        end = start + len(values)
        batch = RecordBatch(
            partition=partition, values=values, offsets=range(start, end), next_offset=end
        )
        self.state.apply(batch, self.front.decode(batch))
        while self.state.unfinished and parts:
            self.state.proceed()
            parts -= 1
        self._read[partition] = end

    def restart(self) -> None:
        """Go on from what would have been saved."""
        held = {each.name: b"".join(each.content()()) for each in self.state.sections()}
        positions = {log: each.position for log, each in self.state.progress().items()}
        self.state = self._new(positions)
        self.state.restore(held)
        assert self.content() == held

    def take_over(self, other: Run) -> None:
        """Go on from what another one would have saved."""
        found = other.state.progress().items()
        self.state = self._new({log: each.position for log, each in found})
        self.state.restore(other.content())

    def end(self) -> Joined:
        """Read the rest; nothing more comes."""
        for partition, log in self.logs.items():
            self.feed(partition, len(log))
        self.state.end(list(self.logs))
        self.state.finish()
        return Joined(sorted(self.events), [_counter(each) for each in self.state.accounts])

    def content(self) -> dict[str, bytes]:
        """Everything that is saved."""
        return {each.name: b"".join(each.content()()) for each in self.state.sections()}

    def _new(self, positions: dict[Partition, int]) -> JoinedState:
        self._read = dict(positions)
        return self.front.state(positions, self._keep, self._trace)

    def _keep(self, found: Decoded) -> None:
        self.events.extend(_events(found))
        self.seen.extend((event.event_id, event.user) for event in found.named.events())


def _encoded(record: dict[str, Any] | None) -> bytes | None:
    if record is None:
        return None
    return msgspec.json.encode({name: each for name, each in record.items() if name != "case"})


def _events(decoded: Decoded) -> Iterator[tuple[Any, ...]]:
    assert decoded.times is not None
    assert decoded.dimensions is not None
    for row, event in enumerate(decoded.named.events()):
        found = event.interactions
        gains = found if isinstance(found, dict) else dict.fromkeys(found, 1.0)
        yield (
            int(decoded.times[row]) // SECOND,
            decoded.dimensions[row],
            tuple(event.recommendations),
            tuple(sorted(gains.items())),
        )


def _counter(account: Any) -> Counter[str]:
    plain: dict[str, int] = msgspec.to_builtins(account)
    return Counter({name: n for name, n in plain.items() if n and name != "outside"})


def told(found: Joined) -> Joined:
    """The offline join's answer in the terms of the real one, which gives events no names."""
    events: Sequence[tuple[Any, ...]] = [
        (time, (variant,), items, gains) for time, _, variant, items, gains in found.events
    ]
    accounts = [Counter({name: n for name, n in of.items() if n}) for of in found.accounts]
    return Joined(sorted(events), accounts)
