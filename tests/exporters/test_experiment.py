"""An experiment on all surfaces: page, API, Prometheus."""

from __future__ import annotations

import math
import re
from datetime import date

import numpy as np
import pytest

from streameval.analyses.experiments.page import section
from streameval.analyses.experiments.settings import Experiment
from streameval.analyses.experiments.statistics import Variant
from streameval.analyses.experiments.verdicts import Report
from streameval.exporters.operations import analysis_families
from streameval.exporters.page.charts import at_day
from streameval.inference.words import percent
from streameval.statistics.intervals import GroupSums
from tests.crowds import audience
from tests.exporters.experiments import CONTROL, TREATMENT, findings, report, variant
from tests.exporters.pictures import charts
from tests.present import present


@pytest.fixture(scope="module")
def usual() -> Report:
    return report()


def samples(result: Report) -> dict[tuple[str, str, str], float]:
    return {
        (
            sample.name,
            sample.labels.get("metric", ""),
            sample.labels.get("verdict", ""),
        ): sample.value
        for family in analysis_families(findings(result))
        for sample in family.samples
    }


def two_of(users: int, name: str = "b", days: int = 5) -> dict[str, Variant]:
    """A control and a variant of so few users."""
    names = ("control", name)
    return {of: variant(CONTROL, users=users, seed=n, days=days) for n, of in enumerate(names)}


def test_prometheus_has_every_number_of_a_comparison_and_one_verdict(usual: Report) -> None:
    measured = samples(usual)
    for row in usual.rows:
        of = row
        expected = {
            "difference": of.difference,
            "difference_low": of.low,
            "difference_high": of.high,
            "lift_ratio": of.lift,
            "lift_low_ratio": of.lift_low,
            "lift_high_ratio": of.lift_high,
            "evidence": of.evidence,
            "groups_effective": of.groups,
            "heaviest_group_ratio": of.heaviest,
        }
        for name, value in expected.items():
            assert measured[f"streameval_compare_{name}", row.metric, ""] == value
        verdicts = {
            key[2]: value for key, value in measured.items() if key[1] == row.metric and key[2]
        }
        assert [name for name, value in verdicts.items() if value] == [of.verdict]
        assert set(verdicts.values()) == {0.0, 1.0}
    assert measured["streameval_compare_guardrail_broken", "mrr", ""] == 1.0
    assert ("streameval_compare_guardrail_broken", "ctr", "") not in measured
    assert measured["streameval_audience_untrusted", "", ""] == 0.0


def test_unknown_values_are_absent() -> None:
    few = two_of(1)
    result = report(few)
    names = {name for name, *_ in samples(result)}
    assert "streameval_compare_lift_low_ratio" not in names
    assert {row.verdict for row in result.rows} == {"too few users"}
    drawn = section(result)
    assert drawn.count("no interval") == 2 * len(result.rows)
    assert "verdict better" not in drawn
    assert "verdict worse" not in drawn


def test_only_conclusive_verdicts_have_a_colour(usual: Report) -> None:
    drawn = section(usual)
    coloured = re.findall(r'class="verdict (better|worse)">([^<]*)', drawn)
    assert [kind for kind, _ in coloured] == ["worse", "better", "better", "worse", "worse"]
    decision, better, *_ = (text for _, text in coloured)
    assert decision == "Decision: treatment: do not ship: the guardrail of mrr is broken."
    assert better.startswith("treatment is better: by at least ")
    assert coloured[-1][1] == "treatment breaks the guardrail of -1.0\N{NO-BREAK SPACE}%"
    assert drawn.count('class="verdict open"') == 1
    assert drawn.count('class="zero"') == len(usual.rows)


def test_the_interval_of_the_largest_lift_is_drawn_whole() -> None:
    better = {**CONTROL, "ctr": 0.06}
    arms = {"control": variant(CONTROL, users=300), "b": variant(better, users=300, seed=2)}
    drawn = section(report(arms, Experiment()))
    assert drawn.count('y1="-4" y2="4"') == 2 * len(CONTROL)


def test_the_reason_of_a_verdict_does_not_repeat_it(usual: Report) -> None:
    drawn = section(usual)
    assert "is better than" not in drawn
    assert "differ by" not in drawn
    few = two_of(1)
    drawn = section(report(few))
    assert "<small>The smaller variant has" in drawn
    assert "too few users: " not in drawn


def test_an_open_verdict_has_its_reason_and_the_lift_that_is_detectable_today() -> None:
    result = report(two_of(60, "not enough evidence yet: b"), Experiment())
    drawn = section(result).replace("\N{NO-BREAK SPACE}", " ")
    open_rows = [row for row in result.rows if row.verdict == "not enough evidence"]
    assert open_rows
    # What all rows have in common is said once.
    assert drawn.count("may be better or worse than control") == 1
    assert drawn.count("80 % power") == 1
    for row in open_rows:
        assert f"<small>Detectable today: {percent(present(row.detectable))}.</small>" in drawn


def test_after_a_failed_check_nothing_is_promised() -> None:
    noisy = {metric: value * 1.01 for metric, value in CONTROL.items()}
    arms = {"control": variant(CONTROL), "few": variant(noisy, users=40, seed=5)}
    trusted = report(arms, Experiment(primary=["ndcg@10"], same_users=True))
    assert "is out of reach" in section(trusted)
    untrusted = report(arms)
    assert samples(untrusted)["streameval_audience_untrusted", "", ""] == 1.0
    html = section(untrusted)
    assert html.count("users are not split as planned") == 1
    assert "few: do not trust" in html
    assert "planned 50.0 % each" in html
    for promised in ("out of reach", "evidence by day", "At most 5 %"):
        assert promised not in html


def test_several_variants_have_a_group_each_and_others_are_named() -> None:
    result = report(
        {
            "control": variant(CONTROL),
            "treatment": variant(TREATMENT, seed=2),
            "second <b>": variant(CONTROL, seed=3),
            "__other__": variant(CONTROL, seed=4),
        },
        Experiment(),
    )
    drawn = section(result)
    groups = re.findall(r'scope="rowgroup"[^>]*>([^<]*)<', drawn)
    assert groups == ["treatment", "second &lt;b&gt;"]
    assert "<b>" not in drawn
    assert "__other__" not in drawn
    assert {row.variant for row in result.rows} == {
        "treatment",
        "second <b>",
    }


def test_the_page_estimates_the_remaining_days_if_new_users_go_on_to_come() -> None:
    days = np.arange(20_000, 20_008)

    def coming(share_new: float) -> Report:
        few = two_of(60, days=8)
        for name, arm in few.items():
            users = arm.audience.hashes.size
            new = round(share_new * users)
            first = np.concatenate([np.full(users - new, days[0]), np.full(new, days[5])])
            few[name] = arm._replace(audience=arm.audience._replace(first=first))
        return report(few, Experiment())

    for share, text in (
        (0.0, r"±2.0 % is out of reach: it needs about [\d,]+ users\."),
        (0.05, r"±2.0 % is more than 32 days away at 1.5 new users a day\."),
        (1.0, r"±2.0 % is about \d+ days? away at 30 new users a day\."),
    ):
        result = coming(share)
        drawn = section(result).replace("\N{NO-BREAK SPACE}", " ")
        assert re.search(text, drawn), drawn
        assert {present(row.outlook).days for row in result.rows} == {8}
        if not share:
            assert {row.days_left for row in result.rows} == {None}
    assert {row.outlook for row in report(two_of(20_000, days=1), Experiment()).rows} == {None}


def test_one_user_with_most_of_the_lists_leaves_a_lift_almost_unbounded() -> None:
    lists = np.ones((5, 256), np.int64)
    lists[4, 0] = 1000
    sums = GroupSums(np.arange(20_000, 20_005), 0.05 * lists + 0.85 * (lists - 1), lists)
    lopsided = Variant(
        dict.fromkeys(CONTROL, sums), audience(np.arange(256, dtype=np.uint64), lists=512)
    )
    few = {"control": lopsided, "b": variant(CONTROL, users=60)}
    compared = report(few, Experiment(same_users=True))
    row = compared.rows[0]
    assert row.lift_high is not None
    assert row.lift_high > 1e20
    assert math.isfinite(present(row.outlook).users)
    assert "is out of reach" in section(compared)


def test_evidence_of_primary_metrics_is_drawn_by_day() -> None:
    result = report()
    (followed,) = (row for row in result.rows if row.days)
    assert followed.metric == "ndcg@10"
    assert [day.day.toordinal() for day in followed.days] == [
        date(1970, 1, 1).toordinal() + day for day in range(20_000, 20_005)
    ]
    assert followed.days[-1].evidence == pytest.approx(followed.evidence)
    drawn = section(result)
    (evidence, _) = charts(drawn)
    assert evidence["title"] == "ndcg@10 of treatment against control: evidence by day"
    assert evidence["lines"][0]["points"] == [
        [at_day(day.day), min(day.evidence, 1e5)] for day in followed.days
    ]
    assert evidence["level"] == followed.needed
    for look in followed.days:
        assert f">{look.day.isoformat()}</th>" in drawn


def test_without_a_primary_metric_the_first_has_a_chart_for_anytime_only() -> None:
    assert [bool(row.days) for row in report(experiment=Experiment()).rows] == [True] + 3 * [False]
    assert [bool(row.days) for row in report(method="fixed").rows] == 4 * [False]
    (alone,) = charts(section(report(method="fixed")))
    assert alone["title"] == "ndcg@10 of treatment against control: lift of each day alone"


def test_the_heaviest_group_is_named(usual: Report) -> None:
    heaviest = max(usual.rows, key=lambda row: row.heaviest)
    share = f"{percent(heaviest.heaviest)}"
    assert f"{share}<small>in {heaviest.metric} of treatment" in section(usual)


def test_the_lift_of_each_day_and_week_alone_is_drawn_without_a_verdict(usual: Report) -> None:
    (followed,) = (row for row in usual.rows if row.daily)
    assert followed.metric == "ndcg@10"
    assert [day.start.toordinal() for day in followed.daily] == [
        date(1970, 1, 1).toordinal() + day for day in range(20_000, 20_005)
    ]
    assert {week.start.weekday() for week in followed.weekly} == {0}
    for span in followed.daily:
        assert span.low is not None
        assert span.high is not None
        assert span.lift is not None
        assert span.low < span.lift < span.high
    drawn = section(usual)
    assert "ndcg@10 of treatment against control: lift of each day alone" in drawn
    for span in (*followed.daily, *followed.weekly):
        assert f">{span.start.isoformat()}</th>" in drawn
