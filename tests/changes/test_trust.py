"""What is not closed does not count, and what sees some of the users says nothing."""

from __future__ import annotations

from streameval.engine import changes
from streameval.exporters.changes import change_families
from tests.exporters.changing import changes_report

DAY = 86_400_000_000


def test_the_day_that_is_open_is_not_closed() -> None:
    noon = 10 * DAY + DAY // 2
    assert changes.closed_day([noon, noon + 5], 0) == 9
    assert changes.closed_day([10 * DAY + 5], 10) == 8
    assert changes.closed_day([noon, 2 * DAY], 0) == 9
    assert changes.closed_day([], 0) is None


def test_a_process_that_counts_some_partitions_has_no_evidence_to_alarm_with() -> None:
    families = {
        family.name: family.samples
        for family in change_families(changes_report().untrusted("others count the rest"))
    }
    for name in ("evidence_days", "since_timestamp_seconds", "low_ratio", "high_ratio"):
        assert families[f"streameval_change_{name}"] == []
    verdicts = families["streameval_change_verdict"]
    shown = {sample.labels["verdict"] for sample in verdicts if sample.value}
    assert shown == {"do not trust"}
