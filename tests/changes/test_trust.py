"""What is not closed does not count, and what sees some of the users says nothing."""

from __future__ import annotations

from random import Random
from typing import Any

from streameval import Accumulator, Intervals
from streameval import changes as streameval_changes
from streameval.analyses.changes import reader as changes
from streameval.analyses.changes.analysis import change_gauges
from streameval.analyses.changes.words import sentence
from streameval.exporters.families import gauge_families
from streameval.inference.days import Calendar
from tests.exporters.changing import changes_report
from tests.strategies import event_of

DAY = 86_400_000_000


def test_the_day_that_is_open_is_not_closed() -> None:
    noon = 10 * DAY + DAY // 2
    assert changes.closed_day([noon, noon + 5], 0, Calendar()) == 9
    assert changes.closed_day([10 * DAY + 5], 10, Calendar()) == 8
    assert changes.closed_day([noon, 2 * DAY], 0, Calendar()) == 9
    assert changes.closed_day([], 0, Calendar()) is None


def test_a_process_that_counts_some_partitions_has_no_evidence_to_alarm_with() -> None:
    report = changes_report().distrust("others count the rest")
    families = gauge_families(change_gauges(report))
    samples = {family.name: family.samples for family in families}
    for name in ("evidence_days", "since_timestamp_seconds", "low_ratio", "high_ratio"):
        assert samples[f"streameval_change_{name}"] == []
    verdicts = samples["streameval_change_verdict"]
    actual = {sample.labels["verdict"] for sample in verdicts if sample.value}
    assert actual == {"do not trust"}


def test_an_estimate_that_cannot_be_trusted_is_not_judged() -> None:
    accumulators = [_estimated(scale) for scale in (1.0, 0.7)]
    good, bad = (streameval_changes(accumulator, "ips") for accumulator in accumulators)
    assert good.verdict == "no change seen"
    assert (bad.verdict, bad.evidence_days) == ("do not trust", None)
    assert "the mean weight is 0.7" in str(bad.reason)
    assert sentence(bad).startswith("ips: do not trust; the mean weight is 0.7")
    paired = streameval_changes(accumulators[0], "ips", against=accumulators[1])
    assert paired.verdict == "do not trust"


def _estimated(scale: float) -> Accumulator:
    """Lists of 40 days whose weights have a mean of `scale`, which should be 1."""
    chance = Random(5)
    accumulator = Accumulator("ips", intervals=Intervals())
    for day in range(40):
        clicks = (["a"] if chance.random() < 0.3 else [] for _ in range(120))
        more: dict[str, Any] = {
            "per_item": {"propensity": [0.5], "target": [0.5 * scale]},
            "ts": (20_500 + day) * DAY,
        }
        accumulator.update_many(
            event_of(["a"], clicked, user=f"u{user}", **more) for user, clicked in enumerate(clicks)
        )
    return accumulator
