"""The join equals the offline join for any interleaving, batches and restarts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streameval.events.records import Partition
from streameval.join import joiner, state
from streameval.join.attribution import FOREVER, OUTCOMES
from streameval.join.explanation import ExplainedRecord, Explanation, KeyListener
from tests.effort import few_examples
from tests.join.offline import Case, Log, joined
from tests.join.streams import REQUESTS, USERS, Run, cases

Step: TypeAlias = tuple[int, int, int, bool]
"""Number of a log, number of its records to read, steps of work, and whether to restart then."""

steps = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 6), st.integers(0, 4), st.booleans()), max_size=20
)


@pytest.fixture(
    params=[2, pytest.param(joiner.STEP_LIMIT, marks=pytest.mark.nightly)],
    ids="at most {} at once".format,
    autouse=True,
    scope="module",
)
def _at_once(request: pytest.FixtureRequest) -> Iterator[None]:
    """Large steps of work, and small ones, which leave work unfinished more often."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (joiner, state):
            patch.setattr(module, "STEP_LIMIT", request.param)
        patch.setattr(joiner, "MANY_LISTS", request.param)
        yield


def played(case: Case, schedule: Sequence[Step]) -> Run:
    run = Run(case)
    partitions = list(run.logs)
    for log, count, parts, restart in schedule:
        run.read(partitions[log % len(partitions)], count, parts)
        if restart:
            run.restart()
    return run


@given(cases(), steps)
def test_the_join_equals_the_offline_join_and_every_record_has_an_outcome_or_is_open(
    case: Case, schedule: list[Step]
) -> None:
    run = played(case, schedule)
    for counts, logs in zip(run.state.outcomes, case.streams, strict=True):
        assert 0 <= counts.open <= counts.records <= sum(map(len, logs))
    live, expected = run.joined(), joined(case)
    assert live.events == expected.events
    assert live.outcomes == expected.outcomes
    assert [counts.open for counts in run.state.outcomes] == [0] * len(case.streams)
    assert run.state.joiner.watermark == FOREVER, "no more records come"


@given(cases(), steps, steps)
def test_any_interleaving_with_restarts_gives_the_same_bytes(
    case: Case, one_order: list[Step], other: list[Step]
) -> None:
    first, second = played(case, one_order), played(case, other)
    assert first.joined() == second.joined()
    assert first.content() == second.content()


@pytest.mark.parametrize("key", ["request_id", "user_item"])
def test_a_click_at_the_end_of_the_window_counts_and_one_after_it_does_not(key: Any) -> None:
    lists: list[Any] = [
        {"ts": at, "request_id": f"r{at}", "user": f"u{at}", "variant": "x", "shown": ["a"]}
        for at in (0, 1)
    ]
    clicks: list[Any] = [
        {"ts": at + late, "request_id": f"r{at}", "user": f"u{at}", "item": "a", "type": "click"}
        | {"event_id": str(at)}
        for at, late in ((0, 10), (1, 11))
    ]
    run = played(Case([[lists], [[*clicks]]], key=key, window=10), [])
    events = run.joined().events
    hits = {(time, items): gains for time, _, items, gains, _ in events}
    assert hits == {(0, ("a",)): (("a", 1.0),), (1, ("a",)): ()}
    outcomes = run.state.outcomes[1]
    assert (outcomes.counted, outcomes.orphan, outcomes.outside) == (1, 1, 0)


@pytest.mark.parametrize(("per_variant", "clicked"), [(False, ["y"]), (True, ["x", "y"])])
def test_a_click_counts_for_the_latest_list_or_for_that_of_each_variant(
    clicked: list[str], *, per_variant: bool
) -> None:
    impression = {"user": "u", "shown": ["a"]}
    lists: list[Any] = [
        impression | {"ts": at, "request_id": variant, "variant": variant}
        for at, variant in enumerate("xy")
    ]
    click = {"ts": 2, "request_id": "", "user": "u", "item": "a", "type": "click", "event_id": "1"}
    case = Case([[lists], [[click]]], key="user_item", window=10, per_variant=per_variant)
    events = played(case, []).joined().events
    assert [variant for _, (variant,), _, gains, _ in events if gains] == clicked


WHO = ["u1", "u2", None, "u1", "u3", "u2"]
LISTS = [
    {"ts": at, "request_id": f"r{at}", "user": user, "variant": "x", "shown": ["a", "b"]}
    for at, user in enumerate(WHO)
]
CLICKS = [
    {"ts": 3, "request_id": "r1", "user": "u2", "item": "a", "type": "click", "event_id": "1"},
    {"ts": 60, "request_id": "r9", "user": "u2", "item": "a", "type": "click", "event_id": "2"},
]
WITH_USERS = Case(
    streams=[[[dict(record) for record in LISTS]], [[dict(record) for record in CLICKS]]],
    window=5,
    lateness=2,
)
EXPECTED = [(record["request_id"], record["user"]) for record in LISTS]


def test_joined_lists_name_their_users_and_requests_after_a_restart_too() -> None:
    total, split = Run(WITH_USERS, users=True), Run(WITH_USERS, users=True)
    for partition in split.logs:
        split.read(partition, 3)
        split.restart()
    for run in (total, split):
        run.joined()
        assert sorted(run.seen) == EXPECTED
    assert total.content() == split.content()


def test_users_are_not_kept_unless_needed() -> None:
    run = Run(WITH_USERS)
    run.joined()
    assert set(run.seen) == {(None, None)}


def test_lists_saved_without_users_continue_with_users() -> None:
    at_once: Log = [{**record, "ts": 0} for record in LISTS]
    case = WITH_USERS._replace(streams=[[at_once], WITH_USERS.streams[1]])
    before, after = Run(case), Run(case, users=True)
    impressions, interactions = before.logs
    before.read(interactions, 2)
    before.read(impressions, 3)
    after.restart(before)
    after.joined()
    without = [(f"r{at}", None) for at in range(3)]
    assert sorted(after.seen) == [*without, *EXPECTED[3:]]


NOT_OF_A_KEY = {"invalid", "tombstone"}


def explanations(case: Case, counts: list[int], *, ended: bool) -> tuple[Run, list[Explanation]]:
    """The explanations of all keys after the same records."""
    entries = []
    run = Run(case)
    for key in USERS if case.key == "user_item" else REQUESTS:
        run = Run(case)
        listener = KeyListener(key, run.state)
        for partition, count in zip(run.logs, counts, strict=False):
            run.read(partition, count)
        if ended:
            run.joined()
        explanation = listener.explanation()
        entries += [] if explanation is None else [explanation]
    return run, entries


@given(case=cases(), counts=st.lists(st.integers(0, 12), max_size=6), ended=st.booleans())
@few_examples()
def test_the_explanations_of_all_keys_add_up_to_the_outcomes(
    *, case: Case, counts: list[int], ended: bool
) -> None:
    run, listed = explanations(case, counts, ended=ended)
    lists = Counter(shown.outcome for of in listed for shown in of.lists)
    records: list[ExplainedRecord] = [record for of in listed for record in of.records]
    assert len({(record.log, record.offset) for record in records}) == len(records)
    for stream, stream_counts in enumerate(run.state.outcomes):
        logs = {Partition(f"s{stream}-{number}", 0) for number in range(len(case.streams[stream]))}
        outcomes = Counter(record.outcome for record in records if record.log in logs)
        if stream == 0:
            outcomes += lists
        expected = {
            name: getattr(stream_counts, name) for name in OUTCOMES if name not in NOT_OF_A_KEY
        }
        assert outcomes == Counter(expected | {"open": stream_counts.open})
