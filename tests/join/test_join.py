"""The join equals the slow, obvious one, whatever the interleaving, batches and restarts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.join.offline import Case, joined
from tests.join.streams import Run, cases, told

steps = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 6), st.booleans()), max_size=20)


def played(case: Case, schedule: list[tuple[int, int, bool]]) -> Run:
    run = Run(case)
    partitions = list(run.logs)
    for log, count, restart in schedule:
        run.feed(partitions[log % len(partitions)], count)
        if restart:
            run.restart()
    return run


@given(cases(), steps)
def test_it_is_the_offline_join(case: Case, schedule: list[tuple[int, int, bool]]) -> None:
    found = played(case, schedule).end()
    expected = told(joined(case))
    assert found.events == expected.events
    assert found.accounts == expected.accounts


@given(cases(), steps, steps)
def test_interleavings_and_restarts_give_the_same_bytes(
    case: Case, one: list[tuple[int, int, bool]], other: list[tuple[int, int, bool]]
) -> None:
    first, second = played(case, one), played(case, other)
    assert first.end() == second.end()
    assert first.content() == second.content()


@given(cases(), steps)
def test_at_every_moment_each_record_is_somewhere(
    case: Case, schedule: list[tuple[int, int, bool]]
) -> None:
    run = played(case, schedule)
    for account, logs in zip(run.state.accounts, case.streams, strict=True):
        assert 0 <= account.open <= account.records <= sum(map(len, logs))
    run.end()
    assert [account.open for account in run.state.accounts] == [0] * len(case.streams)
    records = [account.records for account in run.state.accounts]
    assert records == [sum(map(len, logs)) for logs in case.streams]
