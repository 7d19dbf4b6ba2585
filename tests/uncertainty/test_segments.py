"""Users of each value of a segment must be split as planned, or the total compares segments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from streameval import ComparisonReport, compare
from streameval.analyses.experiments.analysis import EXPERIMENTS
from streameval.analyses.experiments.report import Report
from streameval.analyses.experiments.settings import Experiment
from streameval.analyses.experiments.statistics import check_segment
from streameval.analyses.listed import Configuration
from streameval.config.pipeline import new_ingest
from streameval.decoding.fields import EventFields
from streameval.engine.capture import ingest_snapshot
from streameval.events.records import Partition
from streameval.sources.options import SimulatorOptions
from streameval.statistics.intervals import Audience, Intervals
from tests.batches import batch_of
from tests.cli.program import json_lines
from tests.crowds import audience
from tests.uncertainty.test_experiment import crowd, report, variant

SPLIT = {"de": (520, 480), "fr": (300, 310), "se": (60, 0)}
TROUBLE = (
    "in country = se users are not split as planned (control {}, b {}), although in all they are: "
    "compare each country by itself (--by country)"
)


def audiences(split: Mapping[str, tuple[int, int]]) -> dict[str, dict[str, Audience]]:
    """Users of their own of each value and variant."""
    return {
        value: {
            name: audience(crowd(10 * at + place, users))
            for place, (name, users) in enumerate(zip(("control", "b"), counts, strict=True))
        }
        for at, (value, counts) in enumerate(split.items(), 1)
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
    trouble = TROUBLE.format(counts["control"], counts["b"])
    path = str(json_lines(tmp_path / "log.ndjson", events))
    found = compare(path, "hit_rate", by="country")
    assert isinstance(found, ComparisonReport)
    assert found.trouble == (trouble,)
    assert found["hit_rate"].verdict == "do not trust"
    assert found["hit_rate", "b", "de"].verdict == "not enough evidence"
    config = Configuration(
        metrics=["hit_rate"],
        source=SimulatorOptions(),
        labels=["variant"],
        segments=["country"],
        event=EventFields(user="user"),
        intervals=Intervals(),
        experiment=Experiment(),
    )
    ingest = new_ingest(config)
    records = [msgspec.json.encode(event) for event in events]
    ingest.apply(batch_of(Partition("events", 0), records, 0))
    snapshot = ingest_snapshot(ingest, labels=config.labels, now=0.0)
    live = EXPERIMENTS.report_in(snapshot.findings)
    assert live is not None
    assert live.checks.trouble == (trouble,)
