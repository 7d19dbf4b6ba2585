"""A value outside the range that its metric declares is said, whichever way it is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from streameval import Accumulator, evaluate, metric, metric_at
from streameval.catalogue.metric import Metric
from streameval.events.errors import SuspiciousEventsWarning
from streameval.statistics.hitrows import HitsView, Total
from tests.cli.program import run

RUN = {"u1": ["tea", "milk"], "u2": ["jam"]}
TRUTH = {"u1": ["milk"], "u2": ["jam"]}


@metric(bounds=(0, 1), source="a mistake")
def sevenfold(hits: HitsView, k: int | None) -> Total:
    """Seven times the share of hits.

    Undefined without lists.

        sevenfold@k = 7 * hits at rank <= k / lists
    """
    first = hits.first(k)
    return first.total(7 * first.hits)


SEVEN = metric_at(sevenfold)
SAID = f"{SEVEN.text} is 7, outside 0 to 1, the range that it declares"


def _counted(*metrics: Metric | str) -> Accumulator:
    accumulator = Accumulator(*metrics, catalog=2)
    accumulator.update_many([(RUN[user], TRUTH[user]) for user in RUN])
    return accumulator


def test_an_accumulator_warns() -> None:
    with pytest.warns(SuspiciousEventsWarning) as warned:
        _counted("ndcg@10", SEVEN).compute()
    assert [str(warning.message) for warning in warned] == [SAID]


def test_an_evaluation_warns() -> None:
    with pytest.warns(SuspiciousEventsWarning) as warned:
        evaluate(RUN, TRUTH, SEVEN)
    assert [str(warning.message) for warning in warned] == [SAID]


@pytest.mark.parametrize("configured", [False, True])
def test_the_command_says_so(tmp_path: Path, *, configured: bool) -> None:
    config = tmp_path / "streameval.toml"
    config.write_text('dedup = "1h"\nevent = { event_id = "user", time = "at", time_unit = "s" }\n')
    line = '{{"user": "{}", "at": 1700000000, "recommendations": ["a"], "interactions": ["a"]}}\n'
    events = "".join(map(line.format, "ab")).encode()
    options = ("--config", config) if configured else ()
    done = run("evaluate", "-", "-m", SEVEN.text, *options, stdin=events)
    assert (done.returncode, done.stderr) == (0, f"streameval: {SAID}\n")


def test_a_convention_that_counts_an_item_twice_warns() -> None:
    accumulator = Accumulator("recall", "lenskit:recall")
    accumulator.update(["tea", "tea"], ["tea"])
    with pytest.warns(SuspiciousEventsWarning) as warned:
        accumulator.compute()
    message = "lenskit:recall is 2, outside 0 to 1, the range that it declares"
    assert [str(warning.message) for warning in warned] == [message]
