"""Joined lists have their user, if users are needed."""

from __future__ import annotations

from tests.join.offline import Case, Log
from tests.join.streams import Run

WHO = ["u1", "u2", None, "u1", "u3", "u2"]
LISTS = [
    {"ts": at, "request_id": f"r{at}", "user": user, "variant": "x", "shown": ["a", "b"]}
    for at, user in enumerate(WHO)
]
CLICKS = [
    {"ts": 3, "request_id": "r1", "user": "u2", "item": "a", "type": "click", "event_id": "1"},
    {"ts": 60, "request_id": "r9", "user": "u2", "item": "a", "type": "click", "event_id": "2"},
]
CASE = Case(
    streams=[[[dict(each) for each in LISTS]], [[dict(each) for each in CLICKS]]],
    window=5,
    lateness=2,
)
EXPECTED = [(each["request_id"], each["user"]) for each in LISTS]


def test_joined_lists_name_their_users_and_requests_after_a_restart_too() -> None:
    whole, split = Run(CASE, users=True), Run(CASE, users=True)
    for partition in split.logs:
        split.read(partition, 3)
        split.restart()
    for run in (whole, split):
        run.joined()
        assert sorted(run.seen) == EXPECTED
    assert whole.content() == split.content()


def test_users_are_not_kept_unless_needed() -> None:
    run = Run(CASE)
    run.joined()
    assert set(run.seen) == {(None, None)}


def test_lists_saved_without_users_continue_with_users() -> None:
    at_once: Log = [{**each, "ts": 0} for each in LISTS]
    case = CASE._replace(streams=[[at_once], CASE.streams[1]])
    before, after = Run(case), Run(case, users=True)
    shown, acts = before.logs
    before.read(acts, 2)
    before.read(shown, 3)
    after.restart(before)
    after.joined()
    without = [(f"r{at}", None) for at in range(3)]
    assert sorted(after.seen) == [*without, *EXPECTED[3:]]
