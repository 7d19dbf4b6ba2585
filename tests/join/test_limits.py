"""Limits of a join: backpressure on logs that are ahead, open records, and idle logs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest

from streameval.checkpoints.restore import other_settings, same_shape
from streameval.checkpoints.scheduler import ProcessClock
from streameval.daemon.log import Logfmt
from streameval.daemon.loop import JoinDriver
from streameval.engine.ingest import Ingest
from streameval.engine.partition import EventCounter, Sink
from streameval.engine.snapshot import Health, JoinWait
from streameval.events.errors import (
    DamagedStateError,
    RefusedRecordsError,
    SourceError,
    StateVersionError,
    UnevenStreamsError,
    UnlikeStateError,
)
from streameval.events.records import Partition
from streameval.exporters.page.state import daemon_state
from streameval.join import open_records as module
from streameval.join.attribution import LAYOUT, AttributionOptions, InteractionOptions
from streameval.join.frontend import JoinFrontend, JoinStats
from streameval.join.joiner import STEP_LIMIT
from streameval.join.logs import MAX_WAITING
from streameval.join.state import JoinedState
from streameval.sources.source import SourceStatus
from tests.batches import batch_of
from tests.exporters.pictures import picture
from tests.join.offline import Case
from tests.join.streams import Fed, join_frontend

OPTIONS = AttributionOptions(
    impressions="shown", window="10s", interactions=[InteractionOptions(source="done")]
)
SHOWN, DONE = Partition("s0-0", 0), Partition("s1-0", 0)
CASE = Case([[[]], [[]]], lateness=5)


def _state(
    frontend: JoinFrontend, sink: Sink | None = None, logs: Sequence[Partition] = (SHOWN, DONE)
) -> JoinedState:
    """An empty state at the beginning of some logs."""
    return frontend.state(dict.fromkeys(logs, 0), EventCounter(frontend.layout, sink))


def shown(ts: int, request: str) -> dict[str, Any]:
    return {"ts": ts, "request_id": request, "user": "u", "variant": "x", "shown": ["a"]}


def click(ts: int, request: str) -> dict[str, Any]:
    record = {"ts": ts, "request_id": request, "item": "a", "type": "click"}
    return {**record, "event_id": f"{request}-{ts}"}


def fed_with(**limits: Any) -> Fed:
    return Fed(join_frontend(CASE, **limits), [SHOWN, DONE])


def waiting() -> Fed:
    """A join whose log of impressions is ahead, so that a list waits for the log of clicks."""
    fed = fed_with()
    fed.feed(DONE, [click(1, "r0")])
    fed.feed(SHOWN, [shown(0, "r0"), shown(100, "r1")])
    return fed


def skip(fed: Fed, log: Partition) -> None:
    fed.state.propose([log])
    fed.state.accept([log])
    fed.state.finish()


def versions(fed: Fed) -> dict[str, int]:
    return {section.name: section.version for section in fed.state.sections()}


def test_a_log_that_is_an_hour_ahead_is_backpressured() -> None:
    fed = fed_with()
    lists = MAX_WAITING + 100
    fed.feed(DONE, [click(0, "r0")])
    fed.feed(SHOWN, [shown(number * 3_600 // lists, f"r{number}") for number in range(lists)])
    assert fed.state.backpressured == [SHOWN]
    assert fed.state.outcomes[0].open < 30, "only what the clock of the other log allows"
    assert fed.state.logs.slowest == [DONE]
    fed.feed(DONE, [click(3_599, "r9")])
    assert fed.state.backpressured == []
    assert fed.state.outcomes[0].counted > lists * 0.99


@pytest.mark.parametrize("limit", [{"max_open": 3}, {"max_bytes": 900}])
def test_too_many_open_records_are_refused_with_the_name_of_the_limit(
    limit: dict[str, int],
) -> None:
    fed = fed_with(**limit)
    (name,) = limit
    fed.feed(DONE, [click(100, "r0")])
    with pytest.raises(RefusedRecordsError, match=name) as refused:
        fed.feed(SHOWN, [shown(number, f"r{number}") for number in range(9)])
    assert refused.value.allowed == limit[name]


def test_the_size_is_what_max_bytes_allows_and_grows_with_what_waits() -> None:
    fed = fed_with()
    fed.feed(DONE, [click(0, "r0")])
    fed.feed(SHOWN, [shown(0, "r0")])
    sizes = [fed.state.joiner.size]
    for items in (1, 1, 40):
        fed.feed(SHOWN, [{**shown(0, f"r{len(sizes)}"), "shown": list(map(str, range(items)))}])
        sizes.append(fed.state.joiner.size)
    first, second, third = np.diff(sizes).tolist()
    assert first == second > 0
    assert third == first + 4 * 39
    limited = fed_with(max_bytes=sizes[-1] - 1)
    limited.restart(fed)
    with pytest.raises(RefusedRecordsError, match="max_bytes"):
        limited.feed(SHOWN, [shown(0, "r0")])
    fed.restart()
    assert fed.state.joiner.size == sizes[-1]
    fed.feed(SHOWN, [shown(100, "later")])
    fed.feed(DONE, [click(100, "later")])
    fed.feed(SHOWN, [shown(200, "last")])
    assert 0 < fed.state.joiner.size < sizes[-1], "what is over takes no memory"


class Driven:
    """The part of a daemon that skips idle logs.

    Attributes:
        saved: whether a checkpoint has the state.
        ends: end offset of each log, as far as known.
        now: seconds.
        trouble: of the source.
    """

    def __init__(self, state: JoinedState, timeout: str | None = "10m") -> None:
        self.saved, self.now = False, 0.0
        self.ends = dict(state.logs.expected)
        self.trouble: str | None = None
        options = msgspec.structs.replace(OPTIONS, idle_timeout=timeout)
        parts: Any = SimpleNamespace(
            config=SimpleNamespace(attribution=options),
            ingest=SimpleNamespace(partitions={SHOWN: state}, end=lambda _: None),
            source=self,
            checkpointer=SimpleNamespace(saved=lambda *_: self.saved, checkpoint_soon=lambda: None),
        )
        clock = ProcessClock(wall=lambda: 1_000.0 + self.now, monotonic=lambda: self.now)
        driver = JoinDriver(parts, clock)
        self.advance, self.health = driver.advance, driver.health

    @property
    def waits(self) -> Sequence[JoinWait]:
        health = self.health()
        assert health is not None
        return health.waits

    @property
    def status(self) -> SourceStatus:
        return SourceStatus(joined=True, ends=self.ends, problem=self.trouble)


def test_a_join_without_a_timeout_says_for_which_log_it_waits_and_since_when(
    caplog: pytest.LogCaptureFixture,
) -> None:
    fed = waiting()
    driven = Driven(fed.state, timeout=None)
    assert driven.waits == []
    driven.now = 9.0
    assert driven.waits == []
    driven.now = 11.0
    with caplog.at_level("WARNING"):
        (wait,) = driven.waits
        assert driven.waits == [wait]
    assert (wait.log, wait.since) == (DONE, 1_000.0)
    assert wait.records == 3  # two lists and a click
    (record,) = caplog.records
    line = Logfmt().format(record)
    assert f"event=join_waits log={DONE} seconds=11 records=3 advice=" in line
    assert "idle_timeout in [attribution]" in line
    health = Health(consumed=2, valid=2, ready=True, join=driven.health())
    sentence = daemon_state(picture(state=health), healthy=True).sentence
    assert sentence.startswith(
        f"Ready: the join waits for newer records of {DONE} since 1970-01-01 00:16:40 UTC; "
    )
    assert "Set idle_timeout in [attribution]" in sentence
    fed.feed(DONE, [click(200, "r1")])
    driven.ends = dict(fed.state.logs.expected)
    assert DONE not in {wait.log for wait in driven.waits}


def test_a_join_with_a_timeout_does_not_name_it_as_the_remedy() -> None:
    driven = Driven(waiting().state)
    driven.health()
    driven.now = 60.0
    assert driven.waits == []


def proposed() -> tuple[Fed, Driven]:
    """A join whose log of clicks has been idle for the timeout."""
    fed = waiting()
    driven = Driven(fed.state)
    driven.advance()
    assert fed.state.proposed_at is None
    driven.now = 600.0
    driven.advance()
    driven.advance()
    assert fed.state.proposed == {DONE: 1}
    return fed, driven


def restarted(fed: Fed) -> tuple[JoinedState, Driven]:
    """The state of a process that resumes from a checkpoint of this one."""
    again = _state(fed.frontend)
    again.restore(fed.content())
    driven = Driven(again)
    driven.saved = True
    return again, driven


def test_an_idle_log_is_skipped_once_a_checkpoint_has_the_proposal() -> None:
    fed, driven = proposed()
    assert (fed.counted, fed.state.idle_timeouts) == (0, 0)
    position = fed.state.position
    driven.saved = True
    driven.advance()
    assert fed.state.position > position, "or no checkpoint would have what was decided"
    fed.state.finish()
    assert (fed.counted, fed.state.idle_timeouts, fed.state.proposed_at) == (1, 1, None)
    again, _ = restarted(fed)
    assert (again.logs.slowest, again.position) == (fed.state.logs.slowest, fed.state.position)
    skip(fed, SHOWN)
    assert fed.counted == 2, "if all logs are idle, everything is counted"


def test_a_restart_repeats_a_saved_proposal_without_waiting_again() -> None:
    fed, _ = proposed()
    again, driven = restarted(fed)
    assert (again.proposed, again.proposed_at) == ({DONE: 1}, fed.state.position)
    driven.ends = {}
    driven.advance()
    assert again.proposed, "the ends of the logs are not known yet"
    driven.ends, driven.trouble = {SHOWN: 2, DONE: 1}, "the broker is away"
    driven.advance()
    assert again.proposed, "they may be out of date"
    driven.trouble = None
    driven.advance()
    assert (again.idle_timeouts, again.proposed, again.logs.slowest) == (1, {}, [SHOWN])


def test_a_proposal_ends_if_records_have_come_or_the_timeout_is_gone() -> None:
    fed, _ = proposed()
    saved = versions(fed)["~join"]
    again, driven = restarted(fed)
    driven.ends = {SHOWN: 2, DONE: 2}
    driven.advance()
    assert (again.idle_timeouts, again.proposed, again.logs.slowest) == (0, {}, [DONE])
    fed.feed(DONE, [click(5, "r0")])
    fed.state.accept([])
    assert versions(fed)["~join"] != saved, "that it ended is saved"
    fed.feed(DONE, [click(200, "r1")])
    assert (fed.state.outcomes[1].late, fed.state.outcomes[1].counted) == (0, 2)
    without, _ = restarted(proposed()[0])
    driven = Driven(without, None)
    driven.saved = True
    driven.advance()
    assert (without.idle_timeouts, without.proposed) == (0, {})


@pytest.mark.parametrize(("ahead", "counted"), [(5, 6), (10, 6), (11, 5)])
def test_idle_logs_close_a_last_list_ahead_of_their_clock_by_at_most_the_window(
    ahead: int, counted: int
) -> None:
    """No later record comes to confirm its time, and a wrong one must not make all others late."""
    fed = Fed(join_frontend(CASE._replace(recent=3, max_ahead=1)), [SHOWN, DONE])
    fed.feed(SHOWN, [shown(ts, f"r{ts}") for ts in (0, 1, 2, 3, 4, 4 + ahead)])
    skip(fed, SHOWN)
    skip(fed, DONE)
    assert (fed.counted, fed.state.outcomes[0].open) == (counted, 6 - counted)
    fed.feed(SHOWN, [shown(4 + ahead + 11, "later")])
    assert fed.state.outcomes[0].late == 0


def test_an_empty_batch_leaves_a_log_idle() -> None:
    fed = fed_with()
    fed.feed(DONE, [click(1, "r0")])
    fed.feed(SHOWN, [shown(0, "r0"), shown(100, "r1"), shown(200, "r2")])
    skip(fed, DONE)
    fed.feed(DONE, [])
    assert DONE not in fed.state.logs.slowest


def test_records_of_a_log_that_was_skipped_are_late() -> None:
    fed = waiting()
    skip(fed, DONE)
    fed.feed(DONE, [click(5, "r0"), click(101, "r1")])
    assert fed.state.outcomes[1].late == 1
    fed.end()
    assert (fed.counted, fed.state.outcomes[1].counted) == (2, 2)


def test_a_record_that_is_delivered_again_is_refused() -> None:
    fed = fed_with()
    fed.feed(SHOWN, [shown(0, "r0")])
    again = batch_of(SHOWN, [b"{}"])
    with pytest.raises(SourceError, match="was delivered again"):
        fed.state.apply(again, fed.frontend.decode(again))


def test_a_click_that_was_attributed_before_a_restart_counts_after_it() -> None:
    fed = fed_with()
    fed.feed(SHOWN, [shown(0, "r0"), shown(8, "r1")])
    fed.feed(DONE, [click(1, "r0"), click(9, "r1")])
    assert fed.state.joiner.watermark == 3_000_000
    fed.restart()
    fed.end()
    assert (fed.counted, fed.state.outcomes[1].counted) == (2, 2)
    assert [[*event.interactions] for event in fed.events] == [["a"], ["a"]]


def test_a_state_of_other_logs_is_refused() -> None:
    fed = fed_with()
    other = fed.frontend.state(
        {SHOWN: 0, DONE._replace(number=1): 0}, EventCounter(fed.frontend.layout)
    )
    with pytest.raises(UnlikeStateError, match="logs"):
        other.restore(fed.content())


def test_a_stream_without_a_log_is_refused() -> None:
    with pytest.raises(UnevenStreamsError, match="s1-0 was not assigned with it"):
        _state(join_frontend(CASE), logs=[SHOWN])


def test_outcomes_stay_when_a_partition_is_revoked() -> None:
    stats = JoinStats(OPTIONS.names, by_request=OPTIONS.key == "request_id")
    fed = fed_with()
    fed.feed(SHOWN, [shown(0, "r0"), shown(0, "r0")])
    fed.end()
    first = stats.health({SHOWN: fed.state})
    assert dict(first.streams[0].outcomes)["duplicate"] == 1
    restored = _state(fed.frontend)
    restored.restore(fed.content())
    assert stats.health({}).streams[0].outcomes == first.streams[0].outcomes
    assert stats.health({SHOWN: restored}).streams[0].outcomes == first.streams[0].outcomes


def counted_in_parts(fed: Fed) -> list[int]:
    """Number of events that each step of the unfinished work counts."""
    parts = []
    while fed.state.unfinished:
        before = fed.counted
        fed.state.proceed()
        parts.append(fed.counted - before)
    return parts


def test_lists_that_close_at_the_same_time_are_counted_in_steps() -> None:
    fed, lists = fed_with(), 3 * STEP_LIMIT + 10
    fed.feed(DONE, [click(0, "r0")])
    fed.feed(SHOWN, [shown(number % 3, f"r{number}") for number in range(lists)])
    fed.state.end([SHOWN, DONE])
    parts = counted_in_parts(fed)
    assert fed.counted == lists
    assert max(parts) <= 2 * STEP_LIMIT, "lists of the same time are in one step"
    assert sum(map(bool, parts)) == 3


@pytest.mark.parametrize("clicks", [0, 2 * STEP_LIMIT])
def test_lists_and_clicks_of_many_times_are_counted_in_small_steps(clicks: int) -> None:
    fed, lists = fed_with(), 3 * STEP_LIMIT
    fed.feed(SHOWN, [shown(number // 400, f"r{number}") for number in range(lists)])
    fed.feed(DONE, [click(number // 400, f"r{number}") for number in range(clicks)])
    fed.state.end([SHOWN, DONE])
    parts = counted_in_parts(fed)
    assert fed.counted == lists
    assert fed.state.outcomes[1].counted == clicks
    assert max(parts) <= STEP_LIMIT
    assert len(parts) > 3


def test_sections_finish_counting_first() -> None:
    states = []
    for finish in (True, False):
        fed = fed_with()
        fed.feed(SHOWN, [shown(number // 40, f"r{number}") for number in range(3 * STEP_LIMIT)])
        fed.state.end([SHOWN, DONE])
        fed.state.proceed()
        assert fed.state.unfinished
        if finish:
            fed.state.finish()
        states.append((fed.content(), fed.counted, fed.state.position))
    assert states[0] == states[1]


def test_damaged_parts_of_a_join_are_refused() -> None:
    fed = fed_with()
    fed.feed(DONE, [click(1, "r0")])
    fed.feed(SHOWN, [shown(0, "r0")])
    held = {name: part for name, part in fed.content().items() if name.startswith("~join")}
    assert len(held) > 2
    for name, content in held.items():
        state = _state(fed.frontend, sink=lambda _: None)
        with pytest.raises(DamagedStateError):
            state.restore({**fed.content(), name: content[:-1]})
    state = _state(fed.frontend, sink=lambda _: None)
    with pytest.raises(DamagedStateError):
        state.restore({**fed.content(), "~join/shown/none": b"\x90"})
    meta = msgspec.msgpack.decode(held["~join"])
    log, _, *others = meta["logs"][0]
    meta["logs"][0] = [log, None, *others]
    with pytest.raises(DamagedStateError):
        state.restore({**fed.content(), "~join": msgspec.msgpack.encode(meta)})


def test_the_layout_of_an_earlier_release_is_refused_by_its_version() -> None:
    fed = fed_with()
    meta = msgspec.msgpack.decode(fed.content()["~join"])
    del meta["version"]
    with pytest.raises(StateVersionError) as refused:
        fed.state.restore({**fed.content(), "~join": msgspec.msgpack.encode(meta)})
    assert (refused.value.what, refused.value.found, refused.value.known) == ("~join", None, LAYOUT)
    here = {"attribution": OPTIONS.settings()}
    saved = {"attribution": {k: v for k, v in OPTIONS.settings().items() if k != "layout"}}
    message = "settings have changed since its state was made: attribution.layout: absent → 3"
    assert other_settings(here, saved) == message
    assert not same_shape(here, saved), "counting cannot go on"


def test_items_that_no_open_record_has_are_forgotten_and_the_others_stay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_MANY", 20)
    fed, plain = fed_with(), fed_with()
    shows = [
        {**shown(minute * 60, f"r{minute}"), "shown": [f"i{minute}", "a"]} for minute in range(40)
    ]
    clicks = [click(minute * 60 + 3, f"r{minute}") for minute in range(40)]
    for each in (fed, plain):
        # Many lists are open while the first ones close.
        each.feed(SHOWN, shows[:30])
        each.feed(SHOWN, shows[30:])
        for minute in range(40):
            each.feed(DONE, clicks[minute : minute + 1])
        monkeypatch.setattr(module, "_MANY", 10**9)
    assert len(fed.state.joiner.items.codes) < 20 < len(plain.state.joiner.items.codes)
    assert fed.counted == plain.counted > 0
    assert [*map(repr, fed.events)] == [*map(repr, plain.events)]
    assert fed.content() == plain.content()
    fed.restart()


def test_reading_alone_also_does_the_work_that_is_left_to_steps() -> None:
    counting = Ingest(join_frontend(CASE), incremental=True)
    counting.begin(SHOWN, {SHOWN: 0, DONE: 0})
    for number in range(20):
        for log, record in ((SHOWN, shown), (DONE, click)):
            value = json.dumps(record(number, f"r{number}")).encode()
            counting.apply(batch_of(log, [value], number))
    assert counting.positions == {SHOWN: 20, DONE: 20}


def test_the_last_lists_of_one_user_far_ahead_do_not_move_the_clock_of_the_counts() -> None:
    frontend = join_frontend(CASE._replace(recent=21, max_ahead=60), users=True)
    state = _state(frontend)
    lists = [shown(number, f"r{number}") | {"user": f"u{number}"} for number in range(100)]
    far = [shown(3_542_400, f"f{number}") | {"user": "phone"} for number in range(25)]
    values = [msgspec.json.encode(record) for record in [*lists, *far]]
    batch = batch_of(SHOWN, values, 0)
    state.apply(batch, frontend.decode(batch))
    state.end([SHOWN, DONE])
    state.finish()
    assert state.outcomes[0].counted == 125
    assert state.clock == 99 * 1_000_000
