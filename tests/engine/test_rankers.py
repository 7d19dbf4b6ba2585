"""Lists of rankers that were not shown: counted by the label `ranker`, and never judged."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from streameval.analyses.changes.analysis import CHANGES
from streameval.analyses.changes.reader import families_in, watched_series
from streameval.analyses.changes.report import ChangeSettings
from streameval.analyses.experiments.analysis import EXPERIMENTS
from streameval.analyses.experiments.reader import segments_in, variants_in
from streameval.analyses.experiments.statistics import Variant
from streameval.analyses.gaps.analysis import GAPS, gaps_in
from streameval.config import Config, load
from streameval.config.config import LABELS
from streameval.config.pipeline import new_ingest
from streameval.engine.capture import ingest_snapshot, lifetimes_of
from streameval.engine.ingest import Ingest
from streameval.engine.partition import META
from streameval.engine.windows.views import FamilyView
from streameval.events import Event
from streameval.events.records import Partition
from streameval.exporters.page.page import page
from streameval.exporters.page.selection import Selection
from streameval.exporters.page.state import daemon_state
from streameval.exporters.prometheus import PrometheusExporter
from streameval.exporters.web.answers import snapshot_answer
from tests.batches import batch_of, content_of
from tests.effort import sampled
from tests.engine.picky import PICKY
from tests.exporters.pictures import ManualClock, samples
from tests.exposition import at

DAY: Final = 86_400
SENTENCE: Final = "biased to the shown ranker: overlap 50 %"
PARTITIONS: Final = (Partition("events", 0), Partition("events", 1))

CONFIG: Final = """
metrics = ["ctr", "ndcg@4", "value_per_list", "item_coverage@3"]
labels = ["variant"]
segments = ["country"]
catalog = 40
dedup = "7d"
intervals = { groups = 64 }
[windows]
spans = ["1h"]
[[gap]]
by = "country"
metrics = ["ctr"]
[changes]
label = "variant"
[source]
type = "kafka"
topics = ["events"]
[event]
time = "ts"
time_unit = "s"
event_id = "id"
"""
RANKED: Final = f"""{CONFIG}
rankers = {{ challenger = "rankings.challenger", control = "rankings.control" }}
[experiment]
label = "ranker"
control = "shown"
same_users = true
guardrails = {{ ctr = -0.01 }}
"""


def configured(folder: Path, text: str) -> Config:
    path = folder / "streameval.toml"
    path.write_text(text)
    return load(path)


@pytest.fixture
def ranked(tmp_path: Path) -> Config:
    return configured(tmp_path, RANKED)


@pytest.fixture
def plain(tmp_path: Path) -> Config:
    """The configuration without rankers and experiment."""
    return configured(tmp_path, CONFIG)


def events(lists: int = 3_000, *, seed: int = 1) -> list[dict[str, Any]]:
    """Events of four items shown; two of them are those of the challenger."""
    draw = random.Random(seed)
    made = []
    for number in range(lists):
        recommended = draw.sample(range(20), 4)
        other = [*recommended[:2], *draw.sample(range(20, 40), 2)]
        made.append(
            {
                "id": str(number),
                "ts": 1_790_000_000 + number * 200,
                "recommendations": [f"i{item}" for item in recommended],
                "interactions": {f"i{item}": 2.0 for item in recommended if draw.random() < 0.3},
                "user": f"u{draw.randrange(400)}",
                "variant": draw.choice(("a", "b")),
                "country": draw.choice(("nl", "de")),
                "rankings": {
                    "challenger": [f"i{item}" for item in draw.sample(other, 4)],
                    "control": [f"i{item}" for item in recommended],
                },
            }
        )
    return made


def counted(
    config: Config, rows: Sequence[dict[str, Any]], ends: Sequence[int] = (), number: int = 0
) -> Ingest:
    """An ingest of one partition with these events, in batches that end at `ends`."""
    ingest = new_ingest(config, keep_dead_letters=True)
    feed(ingest, rows, ends, number)
    return ingest


def feed(
    ingest: Ingest, rows: Sequence[dict[str, Any]], ends: Sequence[int] = (), number: int = 0
) -> None:
    values = [msgspec.json.encode(row) for row in rows]
    for start, end in pairwise(sorted({0, *ends, len(values)})):
        ingest.apply(batch_of(PARTITIONS[number], values[start:end], start))


def content(ingest: Ingest, partition: Partition = PARTITIONS[0]) -> dict[str, bytes]:
    """The saved state, without the outcomes of records."""
    sections = content_of(ingest.sections(partition))
    return {name: data for name, data in sections.items() if name != META}


def lifetime(ingest: Ingest) -> dict[tuple[str, ...], bytes]:
    """Labels of a slice -> its counts as bytes, over all partitions."""
    spec = next(spec for spec in ingest.layout.families if spec.name == LABELS)
    view = FamilyView(spec, ingest.layout.windowing.pane)
    view.refresh(ingest.copied().families[spec.name])
    table = view.lifetime()
    numbers = view.slices(table).tolist()
    return {view.labels(number): b"".join(table.dump([number])) for number in numbers}


def lists_of(row: dict[str, Any]) -> Iterator[tuple[str, list[str], list[str] | None]]:
    """Ranker, its list, and the list that was shown instead of it."""
    yield "shown", row["recommendations"], None
    for name, items in row["rankings"].items():
        yield name, items, row["recommendations"]


def test_each_list_counts_as_if_it_were_an_event_of_its_own(ranked: Config) -> None:
    rows = events(500)
    slices = lifetime(counted(ranked, rows))
    assert len(slices) == 2 * 3
    for labels, data in slices.items():
        alone = ranked.accumulator()
        alone.update_many(
            Event(
                recommendations=items,
                interactions=row["interactions"],
                user=row["user"],
                ts=row["ts"] * 1_000_000,
                shown_instead=instead,
            )
            for row in rows
            for name, items, instead in lists_of(row)
            if (row["variant"], name) == labels
        )
        assert b"".join(alone.dump()) == data, labels


def test_an_event_counts_once_whatever_its_rankers(ranked: Config) -> None:
    rows = events(40)
    ingest = counted(ranked, [*rows, *rows[:15]])
    tally = ingest.tally
    assert (tally.consumed, tally.valid, tally.duplicates) == (55, 40, 15)
    assert lifetime(ingest) == lifetime(counted(ranked, rows))
    assert ingest.event_checks.lists == 55


@pytest.mark.parametrize("seed", sampled([1, 2, 3], 3))
def test_any_order_split_restore_and_merge_gives_the_same_bytes(ranked: Config, seed: int) -> None:
    rows, draw = events(600), random.Random(seed)
    total = lifetime(counted(ranked, rows))
    mixed = draw.sample(rows, len(rows))
    replicas = new_ingest(ranked)
    feed(replicas, mixed[:250], ends=[7, 100])
    feed(replicas, mixed[250:], ends=[33], number=1)
    assert lifetime(replicas) == total
    restored = new_ingest(ranked)
    for partition in PARTITIONS:
        parts = content_of(replicas.sections(partition))
        restored.restore(partition, {partition: replicas.positions[partition]}, parts)
    assert lifetime(restored) == total
    assert content(restored) == content(replicas)


def test_the_size_of_batches_changes_no_byte_even_above_the_cap(tmp_path: Path) -> None:
    """Which combinations keep their series may depend on the order of lists, never on batches."""
    config = configured(tmp_path, RANKED.replace('dedup = "7d"', "max_series = 4\nlabel_cap = 9"))
    rows = events(120)
    for number, row in enumerate(rows):
        row["variant"] = f"v{number % 11}"
    one_by_one = counted(config, rows, ends=range(len(rows)))
    assert content(counted(config, rows)) == content(one_by_one)
    assert {labels[1] for labels in lifetime(one_by_one)} == {"shown", "challenger", "control"}


def test_combinations_above_the_cap_keep_their_ranker_so_lists_shown_are_read_alone(
    tmp_path: Path,
) -> None:
    config = configured(tmp_path, RANKED.replace('dedup = "7d"', "max_series = 2\nlabel_cap = 9"))
    rows = events(200)
    for number, row in enumerate(rows):
        row["variant"] = f"v{number % 7}"
    ingest = counted(config, rows)
    report = ingest_snapshot(ingest, labels=config.series_labels(), now=0.0)
    total = [entry for entry in report.series if (entry.window, entry.family) == ("lifetime", 0)]
    series = [entry for entry in total if entry.metric.text == "ctr"]
    lists = {
        name: sum(entry.reading.lists for entry in series if entry.labels[-1] == name)
        for name in ("shown", "challenger", "control")
    }
    assert lists == dict.fromkeys(lists, 200)


def test_the_series_of_the_rankers_are_never_folded(tmp_path: Path) -> None:
    text = RANKED.replace('labels = ["variant"]', "max_series = 1\nlabel_cap = 3")
    config = configured(tmp_path, text.replace('[changes]\nlabel = "variant"\n', ""))
    slices = lifetime(counted(config, events(60)))
    assert sorted(slices) == [("challenger",), ("control",), ("shown",)]


def verdicts(config: Config, ingest: Ingest) -> list[Any]:
    snapshot = ingest_snapshot(ingest, labels=config.series_labels(), now=0.0)
    report = EXPERIMENTS.report_in(snapshot.findings)
    assert report is not None
    return report.rows


def test_a_ranker_that_was_not_shown_has_no_verdict_and_says_its_overlap(ranked: Config) -> None:
    rows = verdicts(ranked, counted(ranked, events()))
    rows_by_key = {(row.metric, row.variant): row for row in rows}
    for name in ("ctr", "ndcg@4", "value_per_list"):
        assert rows_by_key[name, "challenger"].text == f"challenger: {SENTENCE}"
        assert rows_by_key[name, "control"].text == f"control: {SENTENCE.replace('50', '100')}"
    assert {row.verdict for row in rows} == {"do not trust"}
    assert {row.lift for row in rows} == {None}
    assert rows_by_key["ctr", "challenger"].guardrail_verdict == "do not trust"
    # The same lists of shown variants are told apart: the challenger has half the clicks.
    ratio = rows_by_key["ctr", "challenger"].treatment / rows_by_key["ctr", "challenger"].control
    assert 0.45 < ratio < 0.55


@pytest.mark.parametrize("shared", sampled([8, 5, 2], 2))
def test_of_equal_quality_a_ranker_has_as_many_clicks_as_it_shares_items(
    tmp_path: Path, shared: int
) -> None:
    config = configured(tmp_path, RANKED.replace("country", "nowhere"))
    draw, rows = random.Random(shared), events(1_500)
    for row in rows:
        items = draw.sample([f"i{number}" for number in range(40)], 20 - shared)
        row["recommendations"] = items[:10]
        row["interactions"] = [item for item in items[:10] if draw.random() < 0.3]
        row["rankings"]["challenger"] = [*items[:shared], *items[10:]]
    rows_by_key = {
        (row.metric, row.variant): row for row in verdicts(config, counted(config, rows))
    }
    ctr = rows_by_key["ctr", "challenger"]
    assert ctr.text == f"challenger: biased to the shown ranker: overlap {10 * shared} %"
    assert ctr.treatment / ctr.control == pytest.approx(shared / 10, rel=0.05)


def test_page_api_and_prometheus_say_the_overlap(ranked: Config) -> None:
    ingest = counted(ranked, events(400))
    snapshot = ingest_snapshot(ingest, labels=ranked.series_labels(), now=0.0)
    html = page(snapshot, daemon_state(snapshot, healthy=True), Selection())
    assert SENTENCE.replace(" %", "\N{NO-BREAK SPACE}%") in html
    answer = json.loads(msgspec.json.encode(snapshot_answer(snapshot)))
    entries = answer["metrics"]
    overlaps = {
        (entry["labels"]["variant"], entry["labels"]["ranker"]): entry["value"]
        for entry in entries
        if entry["metric"] == "overlap" and entry["segment"] is None
        if entry["window"] == "lifetime"
    }
    assert overlaps["a", "challenger"] == 0.5
    assert overlaps["a", "control"] == 1.0
    assert overlaps["a", "shown"] is None
    notes = {entry["note"] for entry in entries if entry["labels"]["ranker"] == "challenger"}
    assert f"{SENTENCE[0].upper()}{SENTENCE[1:]}; see ips." in notes
    (row,) = [
        row
        for row in answer["experiment"]["comparisons"]
        if (row["metric"], row["variant"]) == ("ctr", "challenger")
    ]
    assert (row["verdict"], row["text"]) == ("do not trust", f"challenger: {SENTENCE}")
    exporter = PrometheusExporter(version="1", clock=ManualClock(), first_exposure=0)
    exported = samples(exporter, snapshot)
    of_slice = {"variant": "a", "ranker": "challenger"}
    lists = at(exported, "overlap_count", **of_slice)
    assert lists
    assert at(exported, "overlap_sum", **of_slice) == lists / 2
    assert at(exported, "ctr_count", **of_slice) == 4 * lists
    of_row = {"metric": "ctr", "variant": "challenger", "control": "shown"}
    of_row |= {"verdict": "do not trust"}
    assert at(exported, "compare_verdict", **of_row) == 1.0


def sums_of(arms: dict[str, Variant]) -> dict[str, Any]:
    return {
        name: {text: [column.tolist() for column in sums] for text, sums in arm.sums.items()}
        for name, arm in arms.items()
    }


def test_whatever_pools_the_rankers_reads_the_lists_that_were_shown(
    ranked: Config, plain: Config
) -> None:
    """An experiment by another label, its segments, gaps and changes are those without rankers."""
    rows = events(2_000)
    both = (ranked, counted(ranked, rows)), (plain, counted(plain, rows))
    arms, segments, gaps, changes = ([], [], [], [])
    for config, ingest in both:
        labels, intervals = config.series_labels(), config.intervals
        assert intervals is not None
        settings = CHANGES.settings_in(config)
        assert settings is not None
        families = lifetimes_of(ingest, labels)
        arms.append(sums_of(variants_in(families, "variant")[1]))
        by_country = segments_in(families, "variant", "country")
        segments.append({name: sums_of(of_value) for name, of_value in by_country.items()})
        gaps.append(repr(gaps_in(families, "country", intervals, "fixed")))
        watched = watched_series(families_in(families, settings), settings)
        changes.append(repr([*watched]))
    assert arms[0] == arms[1]
    assert segments[0] == segments[1]
    assert gaps[0] == gaps[1]
    assert changes[0] == changes[1]


def test_a_gap_and_a_change_of_a_ranker_that_was_not_shown_are_not_judged(ranked: Config) -> None:
    settings = ChangeSettings(label="ranker")
    config = msgspec.structs.replace(ranked, changes=settings)
    ingest = counted(config, events(2_000))
    families = families_in(lifetimes_of(ingest, config.series_labels()), settings)
    watched = {
        (series.metric, series.slice): series.arm for series in watched_series(families, settings)
    }
    assert watched["ctr", "shown"].reason_not_judged is None
    assert watched["ctr", None].reason_not_judged is None
    assert SENTENCE in str(watched["ctr", "challenger"].reason_not_judged).lower()
    assert "overlap" not in {name for name, _ in watched}
    snapshot = ingest_snapshot(ingest, labels=config.series_labels(), now=0.0)
    for series in GAPS.report_in(snapshot.findings) or ():
        reasons = [value.left_out for value in series.gap.values]
        biased = series.labels["ranker"] != "shown"
        assert all(biased == ("Biased" in str(reason)) for reason in reasons), series


def test_lists_without_hits_or_scores_raise_no_doubt_if_they_were_not_shown(
    tmp_path: Path,
) -> None:
    text = RANKED.replace('"ctr", ', '"ctr", "log_loss", ').replace(
        'event_id = "id"', 'event_id = "id"\nscores = "scores"'
    )
    config = configured(tmp_path, text)
    rows = events(2_500)
    for row in rows:
        row["scores"] = [0.4, 0.3, 0.2, 0.1]
        row["rankings"]["challenger"] = ["x", "y"]
    ingest = counted(config, rows)
    health = ingest_snapshot(ingest, labels=config.series_labels(), now=0.0).health
    assert health.trouble is None


MISTAKES: Final = {
    "no list": ({}, "missing_field", "rankings.challenger is absent or null"),
    "null": ({"challenger": None}, "missing_field", "rankings.challenger is absent or null"),
    "a number": ({"challenger": 7}, "wrong_type", "rankings.challenger: found 7"),
    "no object above": (7, "wrong_type", "rankings: found 7 instead of an object"),
    "an id of a wrong type": ({"challenger": [1.5]}, "invalid_id", "rankings.challenger[0]: 1.5"),
    "padding inside": ({"challenger": ["a", "", "b"]}, "invalid_id", "rankings.challenger has an"),
    "objects without ids": (
        {"challenger": [{"id": "a"}, {}]},
        "missing_field",
        "rankings.challenger[1].id is absent",
    ),
    "too many": (
        {"challenger": ["a"] * 1_001},
        "too_many_recommendations",
        "rankings.challenger has 1001 elements",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_bad_list_of_a_ranker_is_a_letter_and_the_other_records_count_as_if_alone(
    ranked: Config, name: str
) -> None:
    rankings, reason, detail = MISTAKES[name]
    rows = events(30)
    bad = {**rows[10], "id": "bad"}
    bad["rankings"] = {**bad["rankings"], **rankings} if isinstance(rankings, dict) else rankings
    if not rankings:
        del bad["rankings"]["challenger"]
    ingest = counted(ranked, [*rows[:10], bad, *rows[10:]])
    (dead_letter,) = ingest.take_dead_letters()
    assert (dead_letter.reason, dead_letter.offset) == (reason, 10)
    assert detail in dead_letter.message
    assert lifetime(ingest) == lifetime(counted(ranked, rows))


def test_a_list_that_cannot_be_counted_takes_its_whole_event_with_it(tmp_path: Path) -> None:
    config = configured(tmp_path, RANKED.replace('"ctr", ', f'"ctr", "{PICKY}", '))
    rows = events(20)
    bad = {**rows[3], "id": "bad"}
    bad["rankings"] = {**bad["rankings"], "control": ["poison"]}
    ingest = counted(config, [*rows, bad])
    assert [dead_letter.reason for dead_letter in ingest.take_dead_letters()] == ["uncountable"]
    assert lifetime(ingest) == lifetime(counted(config, rows))


def test_padding_and_objects_of_a_ranker_are_read_as_those_of_the_list_shown(
    ranked: Config,
) -> None:
    rows = events(50)
    padded = []
    for row in rows:
        challenger = [{"id": item} for item in row["rankings"]["challenger"]]
        control = [*row["rankings"]["control"], "", ""]
        padded.append({**row, "rankings": {"challenger": challenger, "control": control}})
    assert lifetime(counted(ranked, padded)) == lifetime(counted(ranked, rows))
