"""A snapshot as one HTML file that loads nothing from elsewhere."""

from __future__ import annotations

import re

import msgspec

from streameval.analyses.experiments.page import section
from streameval.engine.snapshot import Snapshot
from streameval.exporters.page import document
from tests.exporters.experiments import findings, report
from tests.exporters.pictures import charts, health, mean, picture

HOUR = 3_600_000_000


def hours(count: int) -> list[tuple[int | None, Snapshot]]:
    """A snapshot of two variants for each hour."""
    return [
        (
            number * HOUR,
            picture(mean("ctr", ("<b>",), number, 10), mean("ctr", ("control",), 2 + number, 10)),
        )
        for number in range(count)
    ]


def test_a_file_has_verdicts_checks_values_and_warnings() -> None:
    snapshot = msgspec.structs.replace(
        picture(mean("ctr", ("control",), 1, 4), state=health(trouble="a <doubt>")),
        findings=findings(),
    )
    text = document("run <1>", [(None, snapshot)])
    assert "<title>run &lt;1&gt;</title>" in text
    assert section(report()) in text
    assert '<data value="0.25">0.2500</data>' in text
    assert "a &lt;doubt&gt;" in text
    assert [chart["title"] for chart in charts(text)] == [
        "ndcg@10 of treatment against control: evidence by day",
        "ndcg@10 of treatment against control: lift of each day alone",
    ]


def test_a_file_without_charts_has_no_script() -> None:
    assert "<script" not in document("run", [(None, picture(mean("ctr", ("a",), 1, 4)))])


def test_a_file_names_no_other_file() -> None:
    text = document("run", hours(3), begin="1970-01-01 02:00:00 UTC")
    assert re.findall(r'(?:src|href)="[^"#]', text) == []
    assert "@import" not in text
    assert "url(" not in text


def test_several_spans_have_a_chart_and_a_table_of_all_values() -> None:
    text = document("run", hours(3), begin="1970-01-01 02:00:00 UTC")
    (chart,) = charts(text)
    first, second = chart["lines"]
    assert (first["name"], second["name"]) == ("<b>", "control")
    assert first["points"] == [[0.0, 0.0], [3600.0, 0.1], [7200.0, 0.2]]
    assert second["points"] == [[0.0, 0.2], [3600.0, 0.3], [7200.0, 0.4]]
    assert "<b>" not in text
    assert text.count('<th scope="row">1970-01-01 0') == 3
    assert "Metrics, from 1970-01-01 02:00:00 UTC" in text


def test_a_comparison_without_values_has_no_heading_for_metrics() -> None:
    snapshot = msgspec.structs.replace(picture(), findings=findings())
    assert "<h2>Metrics" not in document("run", [(None, snapshot)])


def test_segments_follow_each_other() -> None:
    entry = msgspec.structs.replace(mean("ctr", ("a", "nl"), 7, 10), family=1)
    snapshot = picture(mean("ctr", ("a",), 1, 4), entry, segments=["country"])
    text = document("run", [(None, snapshot)])
    assert text.index(">0.2500<") < text.index("By country") < text.index(">0.7000<")
