"""Explanations give every record of a key the outcome that the join counts."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from streameval.events.records import Partition
from streameval.join.explanation import ExplainedRecord, Explanation, KeyTrace
from streameval.join.options import OUTCOMES
from tests.effort import dear
from tests.join.offline import Case
from tests.join.streams import REQUESTS, USERS, Run, cases, join_frontend

NOT_OF_A_KEY = {"invalid", "tombstone"}


def explanations(case: Case, counts: list[int], *, ended: bool) -> tuple[Run, list[Explanation]]:
    """The explanations of all keys after the same records."""
    found = []
    run = Run(case)
    for key in USERS if case.key == "user_item" else REQUESTS:
        trace = KeyTrace(key, join_frontend(case).rules)
        run = Run(case, trace=trace)
        for partition, count in zip(run.logs, counts, strict=False):
            run.read(partition, count)
        if ended:
            run.joined()
        explanation = trace.explanation(run.state)
        found += [] if explanation is None else [explanation]
    return run, found


@given(case=cases(), counts=st.lists(st.integers(0, 12), max_size=6), ended=st.booleans())
@dear()
def test_the_explanations_of_all_keys_add_up_to_the_outcomes(
    *, case: Case, counts: list[int], ended: bool
) -> None:
    run, found = explanations(case, counts, ended=ended)
    lists = Counter(each.outcome for of in found for each in of.lists)
    records: list[ExplainedRecord] = [each for of in found for each in of.records]
    assert len({(each.log, each.offset) for each in records}) == len(records)
    for stream, stream_counts in enumerate(run.state.outcomes):
        logs = {Partition(f"s{stream}-{number}", 0) for number in range(len(case.streams[stream]))}
        outcomes = Counter(each.outcome for each in records if each.log in logs)
        if stream == 0:
            outcomes += lists
        expected = {
            name: getattr(stream_counts, name) for name in OUTCOMES if name not in NOT_OF_A_KEY
        }
        assert outcomes == Counter(expected | {"open": stream_counts.open})
