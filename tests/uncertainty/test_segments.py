"""Users of each value of a segment must be split as planned, or the total compares segments."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from msgspec.structs import asdict

from streameval import ComparisonReport, compare
from streameval.analyses.experiments.analysis import EXPERIMENTS
from streameval.analyses.experiments.comparison import Settings, by_cell, contrast_of, judge
from streameval.analyses.experiments.course import (
    compare_days,
    course_of,
    lifts_alone,
)
from streameval.analyses.experiments.settings import Experiment
from streameval.analyses.experiments.statistics import (
    Variant,
    check_segment,
    compare_with_control,
)
from streameval.analyses.experiments.verdicts import (
    Compared,
    DraftComparison,
    Report,
    unlike_lifts,
)
from streameval.analyses.registry import Configuration
from streameval.catalogue import parse
from streameval.config.pipeline import new_ingest
from streameval.decoding.fields import EventFields
from streameval.engine.capture import ingest_snapshot
from streameval.evaluation.arguments import InputError
from streameval.events.records import Partition
from streameval.inference.interval_formulas import normal_quantile, student_reach
from streameval.sources.settings import SimulatorOptions
from streameval.statistics.intervals import Audience, GroupSums, Intervals
from tests.batches import batch_of
from tests.cli.program import json_lines, run
from tests.comparing import compare_sums
from tests.crowds import audience
from tests.present import present
from tests.simulation.bars import at_most
from tests.uncertainty.test_experiment import crowd, report, variant

SPLIT = {"de": (520, 480), "fr": (300, 310), "se": (60, 0)}
TROUBLE = (
    "in country = se users are not split as planned (control {}, b {}), although the total is: "
    "compare within country (--within country)"
)


def audiences(split: Mapping[str, tuple[int, int]]) -> dict[tuple[str, ...], Audience]:
    """Users of their own of each value and variant."""
    return {
        (value, name): audience(crowd(10 * row + arm, users))
        for row, (value, counts) in enumerate(split.items(), 1)
        for arm, (name, users) in enumerate(zip(("control", "b"), counts, strict=True))
    }


def checked(split: Mapping[str, tuple[int, int]], **how: Any) -> Report:
    """What a report says of the users of a segment."""
    experiment = Experiment(**how)
    before = report(experiment, {"control": variant(10), "b": variant(20, 0.2)})
    return check_segment(before, experiment, "country", audiences(split))


def test_a_country_in_one_variant_alone_is_found_where_the_total_cannot_see_it() -> None:
    found = checked(SPLIT)
    assert found.checks.segment_evidence == pytest.approx(14446.3160772, rel=1e-9)
    assert found.checks.trouble == (TROUBLE.format(60, 0),)
    assert {row.verdict for row in found.rows} == {"do not trust"}
    alone = {value: checked({value: SPLIT[value]}).checks.segment_evidence for value in SPLIT}
    assert alone["se"] == pytest.approx(43337.4353763, rel=1e-9)
    assert checked({"de": (520, 480), "fr": (300, 310)}).checks.segment_evidence == pytest.approx(
        (0.824222893183 + 0.688632528373) / 2, rel=1e-9
    )


@pytest.mark.parametrize(
    ("split", "how"),
    [
        ({"de": (520, 480), "fr": (300, 310)}, {}),
        ({"__missing__": (60, 0), "__other__": (0, 90), "de": (520, 480)}, {}),
        (SPLIT, {"same_users": True}),
        ({"se": (60, 0)} | {f"v{number}": (50, 50) for number in range(60)}, {}),
    ],
    ids=["as planned", "no values", "by design", "one of many"],
)
def test_no_alarm(split: dict[str, tuple[int, int]], how: dict[str, Any]) -> None:
    """The last is a mean of e-values: the largest or their product would be an alarm."""
    assert checked(split, **how).checks.trouble == ()


def visits(users: int = 1_200) -> Iterator[dict[str, Any]]:
    """A fifth of b's place is taken by Swedes of control alone, and other Germans of b."""
    random = np.random.default_rng(4)
    for user in range(users):
        swedish = user % 6 == 0
        name = "control" if swedish else ("b", "control", "b", "b", "control")[user % 5]
        for _ in range(3):
            chance = 0.1 if swedish else 0.3
            yield {
                "recommendations": ["a"],
                "interactions": ["a"] if random.random() < chance else [],
                "country": "se" if swedish else "de",
                "variant": name,
                "user": f"u{user}",
            }


def test_files_and_the_daemon_find_it_alike(tmp_path: Path) -> None:
    events = list(visits())
    counts = {"control": 0, "b": 0}
    for user in range(0, 1_200, 6):
        counts[events[3 * user]["variant"]] += 1
    problem = TROUBLE.format(counts["control"], counts["b"])
    path = str(json_lines(tmp_path / "log.ndjson", events))
    found = compare(path, "hit_rate", by="country")
    assert isinstance(found, ComparisonReport)
    assert found.trouble == (problem,)
    assert found["hit_rate"].verdict == "do not trust"
    assert found["hit_rate", "b", "de"].verdict == "not enough evidence"
    live = read_live(events, Experiment())
    assert live.checks.trouble == (problem,)


def read_live(events: list[dict[str, Any]], experiment: Experiment) -> Report:
    """What a daemon with a segment says."""
    config = Configuration(
        metrics=["hit_rate"],
        source=SimulatorOptions(),
        labels=["variant"],
        segments=["country"],
        event=EventFields(user="user"),
        intervals=Intervals(),
        experiment=experiment,
    )
    ingest = new_ingest(config)
    records = [msgspec.json.encode(event) for event in events]
    ingest.apply(batch_of(Partition("events", 0), records, 0))
    snapshot = ingest_snapshot(ingest, labels=config.labels, now=0.0)
    return present(EXPERIMENTS.report_in(snapshot.findings))


def cell(arm: int, place: int) -> GroupSums:
    """The sums of an arm in one value of the segment, on two days; b has none in the second."""
    day, group = np.arange(2)[:, None], np.arange(16)
    lists = 40 + (7 * day + 11 * group + 5 * arm + 3 * place) % 23
    lists = lists * (1 - arm * place)
    clicks = lists * ((6, 2)[place] + (5 * group + 3 * day + 2 * arm) % 5) // 40
    return GroupSums(np.arange(2), clicks.astype(np.float64), lists)


def within(cells: Mapping[str, tuple[GroupSums, GroupSums]]) -> Compared:
    """The comparison of arms within the values of country."""
    variants = {}
    for arm, name in enumerate(("control", "b")):
        users = audience(crowd(arm, 400))
        sums = [pair[arm] for pair in cells.values()]
        total = GroupSums(
            sums[0].days,
            np.sum([part.numerators for part in sums], axis=0),
            np.sum([part.denominators for part in sums], axis=0),
        )
        strata = {
            value: Variant({"ctr": pair[arm]}, users)
            for value, pair in cells.items()
            if pair[arm].denominators.any()
        }
        variants[name] = Variant({"ctr": total}, users, strata=strata)
    experiment = Experiment(within="country")
    (row,) = compare_with_control(
        experiment, [parse("ctr")], variants, Intervals(groups=16), "fixed"
    ).rows
    return row


CELLS = {"de": (cell(0, 0), cell(1, 0)), "se": (cell(0, 1), cell(1, 1))}


def test_variants_are_compared_within_each_country_and_day() -> None:
    row = within(CELLS)
    assert row.control == pytest.approx(0.178526613081, abs=1e-12)
    assert row.treatment == pytest.approx(0.167297690285, abs=1e-12)
    assert row.lift == pytest.approx(-0.062897752905, abs=1e-12)
    assert row.groups == pytest.approx(14.8638773774, abs=1e-9)
    assert row.comparable == pytest.approx(0.664489795918, abs=1e-12)
    half = student_reach(normal_quantile(0.025), row.groups) * 0.00188812243195
    assert row.high == pytest.approx(present(row.difference) + half, rel=1e-9)


def test_a_country_of_one_variant_alone_changes_nothing_within() -> None:
    row, alone = within(CELLS), within({"de": CELLS["de"]})
    assert msgspec.structs.replace(row, comparable=1.0) == alone


def test_the_course_within_countries_ends_with_the_comparison() -> None:
    days = np.arange(8)
    random = np.random.default_rng(5)

    def arm(rate: float, lists: int) -> GroupSums:
        listed = np.full((8, 16), lists)
        return GroupSums(days, random.binomial(listed, rate).astype(np.float64), listed)

    arms = {"de": (arm(0.3, 60), arm(0.2, 90)), "nl": (arm(0.1, 40), arm(0.05, 20))}
    control, treatment = (by_cell([pair[at] for pair in arms.values()]) for at in (0, 1))
    settings = Settings("anytime", 0.02, 0.95, cells=2)
    contrasts = course_of(control, treatment, cells=2)
    course = compare_days(contrasts, settings)
    total = compare_sums(control, treatment)
    assert [day.day.toordinal() for day in course] == [719_163 + day for day in range(8)]
    assert (course[-1].lift, course[-1].evidence) == (total.lift, total.evidence)
    daily, weekly = (lifts_alone(control, treatment, settings, days=days) for days in (1, 7))
    assert [span.start for span in daily] == [day.day for day in course]
    assert len(weekly) == 2
    first, other = (sums.rows(slice(2)) for sums in (control, treatment))
    assert daily[0].lift == compare_sums(first, other, method="fixed").lift


def test_files_and_the_daemon_compare_within_alike(tmp_path: Path) -> None:
    events = list(visits())
    path = str(json_lines(tmp_path / "log.ndjson", events))
    of_germans = [event for event in events if event["country"] == "de"]
    alone = compare(str(json_lines(tmp_path / "de.ndjson", of_germans)), "hit_rate")
    # Of the Germans, three of five get b.
    shares = {"control": 2.0, "b": 3.0}
    found = compare(path, "hit_rate", within="country", shares=shares)
    live = read_live(events, Experiment(within="country", shares=shares))
    note = (
        f"compared within country: {100 * len(of_germans) / len(events):.1f} % of the lists of "
        "control and b are in values that have both variants"
    )
    assert found.trouble == live.checks.trouble == ()
    assert f"Note: {note}." in found.notes
    assert note in live.checks.notes
    assert found["hit_rate"].lift == pytest.approx(alone["hit_rate"].lift, rel=1e-12)
    by_name = {row.metric: row for row in live.rows}
    for metric in ("hit_rate", "lists_per_user", "clicks_per_user"):
        assert by_name[metric].lift == pytest.approx(alone[metric].lift, rel=1e-12), metric
        assert found[metric].lift == by_name[metric].lift
        assert found[metric].comparable == by_name[metric].comparable


def test_within_is_one_field(tmp_path: Path) -> None:
    path = str(json_lines(tmp_path / "log.ndjson", list(visits(60))))
    for how, said in (
        ({"by": "variant", "within": "country"}, "by='variant' and within='country' are two"),
        ({"within": "contry"}, "has the field 'contry' of within=; name it with within='FIELD' or"),
    ):
        with pytest.raises(InputError, match=re.escape(said)):
            compare(path, "hit_rate", **how)


def within_split(split: Mapping[str, tuple[int, int]], total: tuple[int, int]) -> Report:
    """The report of arms whose users are split so in each country, and in all."""
    arms = {}
    for index, (name, users) in enumerate(zip(("control", "b"), total, strict=True)):
        whole = variant(10 * index)._replace(audience=audience(crowd(100 + index, users)))
        strata = {
            value: Variant(whole.sums, users)
            for (value, arm), users in audiences(split).items()
            if arm == name and users.users
        }
        arms[name] = whole._replace(strata=strata)
    return report(Experiment(within="country"), arms)


def test_a_country_that_a_variant_moves_users_out_of_is_refused() -> None:
    found = within_split({"de": (900, 600), "se": (60, 0)}, (960, 900))
    (problem,) = found.checks.trouble
    assert problem == (
        "in country = de users are not split as planned (control 900, b 600): something removes or "
        "adds users of one variant there, or a variant moves users to another country"
    )
    assert {row.verdict for row in found.rows} == {"do not trust"}


def test_within_countries_the_total_need_not_be_split_as_planned() -> None:
    found = within_split({"de": (505, 495), "se": (900, 0)}, (1405, 495))
    assert found.checks.trouble == ()
    assert found.checks.ratio_evidence < 1


def lifted(lifts: dict[str, float], users: int = 3_000) -> list[dict[str, Any]]:
    """Users of three countries, in each of which b has a lift of its own."""
    random = np.random.default_rng(12)
    countries = [*lifts]
    return [
        {
            "recommendations": ["a"],
            "interactions": ["a" if random.random() < 0.3 * (1 + lift * (user % 2)) else "x"],
            "variant": ("control", "b")[user % 2],
            "user": f"u{user}",
            "country": country,
        }
        for user in range(users)
        for country, lift in [(countries[user // 2 % 3], lifts[countries[user // 2 % 3]])]
        for _ in range(4)
    ]


def test_segments_that_disagree_are_named(tmp_path: Path) -> None:
    for name, lifts, expected in (
        ("unlike", {"de": 0.24, "fr": 0.0, "nl": -0.16}, True),
        ("alike", {"de": 0.1, "fr": 0.1, "nl": 0.1}, False),
    ):
        path = str(json_lines(tmp_path / f"{name}.ndjson", lifted(lifts)))
        found = compare(path, "hit_rate", by="country")
        assert isinstance(found, ComparisonReport)
        assert found.to_html().count('data-head="Segment"') == len(lifts)
        notes = [note for note in found.notes if "between segments" in note]
        assert bool(notes) is expected
        for note in notes:
            assert re.fullmatch(
                r"Note: the lift of hit_rate of b differs between segments: \+\d\d\.\d % in de, "
                r"-\d\d\.\d % in nl; .*\.",
                note,
            )
            assert note in run("compare", path, "-m", "hit_rate", "--by", "country").stdout


def test_segments_that_are_alike_seldom_disagree() -> None:
    """Of three segments and two metrics; the six pairs share the error."""
    random, alarms = np.random.default_rng(13), []
    lists = np.full((1, 64), 50)
    for _ in range(100):
        drafts = []
        for segment, metric in product(("de", "fr", "nl"), ("ctr", "mrr")):
            arms = [
                GroupSums(np.zeros(1, np.int64), random.binomial(lists, rate).astype(float), lists)
                for rate in (0.2, 0.22)
            ]
            contrast = present(contrast_of(*arms))
            settings = Settings("fixed", 0.02, 0.95)
            row = Compared(
                **asdict(judge(contrast, settings)),
                metric=metric,
                variant="b",
                primary=False,
                among=1,
                guardrail=None,
                guardrail_verdict=None,
                segment=segment,
            )
            drafts.append(DraftComparison(row, contrast, settings))
        alarms.append(bool(unlike_lifts(drafts)))
    assert at_most("any pair of equal segments differs", 0.05, alarms).passed
