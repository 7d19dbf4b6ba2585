"""Every surface says the same of one state: commands, files, page, API, Prometheus and Python."""

from __future__ import annotations

import csv
import io
import json
import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from html import unescape
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

import streameval
from streameval.analyses.changes.analysis import CHANGES
from streameval.config import load
from streameval.config.states import newest_checkpoints, restore
from streameval.engine.capture import RuntimeStatus, SnapshotCapture
from streameval.engine.snapshot import Snapshot
from streameval.exporters.page.page import page
from streameval.exporters.page.selection import Selection
from streameval.exporters.page.state import daemon_state
from streameval.exporters.prometheus import PrometheusExporter
from streameval.exporters.web.answers import snapshot_answer
from tests.cli.program import run
from tests.exposition import named, samples_of
from tests.stores.received import write_state

Texts = Mapping[tuple[str, str], str]
"""Metric and variant -> the verdict in words."""

CONFIG = """
metrics = ["ctr", "hit_rate@1"]
labels = ["variant"]
segments = ["country"]
intervals = {}
source = { type = "files", paths = ["events.ndjson"] }
event = { time = "ts", time_unit = "s", user = "user" }
experiment = { primary = ["ctr"], guardrails = { "hit_rate@1" = -0.01 } }
changes = { label = "variant" }
gap = [{ by = "country", metrics = ["ctr"] }]
"""
USERS = {"control": 400, "better": 400, "alike": 400, "few": 8}
CHANCES = {"control": 0.2, "better": 0.4, "alike": 0.2, "few": 0.2}


class Stored(NamedTuple):
    """A state, and what a daemon shows of it.

    Attributes:
        api: as JSON.
    """

    path: Path
    snapshot: Snapshot
    html: str
    api: dict[str, Any]


def _records(users: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    draw = random.Random(5)
    for variant, count in users.items():
        for number in range(4 * count):
            country = ("AT", "CH")[number % 2]
            chance = CHANCES[variant] * (1.0 if country == "AT" else 0.5)
            yield {
                "ts": 1_767_225_600 + number % 4 * 86_400,
                "user": f"{variant}{number % count}",
                "variant": variant,
                "country": country,
                "recommendations": ["a"],
                "interactions": ["a"] if draw.random() < chance else ["b"],
            }


@pytest.fixture(scope="module", params=["as planned", "control lost users"])
def stored(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Stored:
    path = tmp_path_factory.mktemp("words")
    lost = request.param == "control lost users"
    users = USERS if not lost else {"control": 200, "better": 400, "alike": 400}
    (path / "streameval.toml").write_text(CONFIG)
    write_state(path / "state", load(path / "streameval.toml"), list(_records(users)))
    config, ingest = restore(newest_checkpoints([str(path / "state")], print), None, print)
    labels = config.series_labels()
    capture = SnapshotCapture(ingest.layout, source="", labels=labels, started_at=0.0)
    # Changes are read a few series at a time.
    *_, snapshot = (capture.take(ingest.copied(), 0.0, RuntimeStatus()) for _ in range(9))
    html = page(snapshot, daemon_state(snapshot, healthy=True), Selection())
    return Stored(
        path / "state", snapshot, html, json.loads(msgspec.json.encode(snapshot_answer(snapshot)))
    )


def _command(stored: Stored, *arguments: str) -> str:
    done = run(arguments[0], stored.path, *arguments[1:])
    assert done.returncode == 0, done.stderr
    return done.stdout


def _by_key(rows: list[dict[str, Any]]) -> Texts:
    return {(row["metric"], row["variant"]): row["text"] for row in rows}


def _in_html(html: str) -> Texts:
    """The verdicts of the table of an experiment."""
    part = html.partition("Variants against control</caption>")[2].partition("</table>")[0]
    result = {}
    for group in part.split('<th scope="rowgroup" colspan="6">')[1:]:
        variant = group.partition("<")[0]
        for row in re.findall(r'<th scope="row">(.*?)</tr>', group, re.DOTALL):
            text = re.findall(r'<strong class="verdict \w+">(.*?)</strong>', row)
            words = unescape(text[0]).replace("\N{NO-BREAK SPACE}", " ")
            result[re.split(r"[ <]", row)[0], variant] = words
    return result


def _in_table(text: str) -> Texts:
    """The verdicts of a table in a terminal."""
    lines = [line.split("│")[1:-1] for line in text.splitlines() if line.startswith("│")]
    cells = [[cell.strip() for cell in line] for line in lines]
    return {(row[0].removesuffix(" *"), row[1]): row[-1] for row in cells}


def test_a_verdict_has_the_same_words_everywhere(stored: Stored) -> None:
    report = streameval.compare(str(stored.path))
    expected = {(key.metric, key.variant): row.text for key, row in report.items()}
    assert len(set(expected.values())) > 1
    rows = csv.DictReader(io.StringIO(_command(stored, "compare", "--format", "csv")))
    sentences = {
        "table": _in_table(_command(stored, "compare")),
        "JSON": _by_key(json.loads(_command(stored, "compare", "--format", "json"))["comparisons"]),
        "CSV": _by_key(list(rows)),
        "report": _in_html(_command(stored, "compare", "--format", "html")),
        "page": _in_html(stored.html),
        "API": _by_key(stored.api["experiment"]["comparisons"]),
    }
    assert sentences == dict.fromkeys(sentences, expected)
    verdicts = {(row["metric"], row["variant"], row["verdict"]) for row in _comparisons(stored)}
    text = PrometheusExporter(version="1").exposition(stored.snapshot).decode()
    exposed = [
        dict(labels)
        for labels, is_it in named(samples_of(text), "compare_verdict").items()
        if is_it
    ]
    assert {(each["metric"], each["variant"], each["verdict"]) for each in exposed} == verdicts


def _comparisons(stored: Stored) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = stored.api["experiment"]["comparisons"]
    return rows


def test_a_summary_counts_the_verdicts_and_has_the_same_words_everywhere(stored: Stored) -> None:
    report = streameval.compare(str(stored.path))
    expected = [each.text for each in report.summaries]
    for each in report.summaries:
        verdicts = [row.verdict for key, row in report.items() if key.variant == each.variant]
        assert each.metrics == Counter(verdicts)
        assert each.checks_passed == (not report.trouble)
    of_command = json.loads(_command(stored, "compare", "--format", "json"))
    for answer in (of_command, stored.api["experiment"]):
        assert [each["text"] for each in answer["summaries"]] == expected
    for text in (_command(stored, "compare"), repr(report)):
        assert text.splitlines()[: len(expected)] == expected
    for text in (_command(stored, "compare", "--format", "html"), stored.html):
        lines = re.findall(r'<p class="headline verdict \w+">(.*?)</p>', text)
        assert [unescape(line).replace("\N{NO-BREAK SPACE}", " ") for line in lines] == expected


def test_a_decision_has_the_same_words_everywhere(stored: Stored) -> None:
    report = streameval.compare(str(stored.path))
    expected = {f"Decision: {each.text}" for each in report.decisions}
    decisions = {each.variant: each.decision for each in report.decisions}
    result = re.compile(r"Decision: .*?\.(?=\n|</strong>)")
    texts = {
        "table": _command(stored, "compare"),
        "report": _command(stored, "compare", "--format", "html"),
        "page": stored.html,
        "Python": repr(report),
    }
    sentences = {
        name: {*result.findall(unescape(text).replace("\N{NO-BREAK SPACE}", " "))}
        for name, text in texts.items()
    }
    assert sentences == dict.fromkeys(texts, expected)
    of_command = json.loads(_command(stored, "compare", "--format", "json"))
    for answer in (of_command, stored.api["experiment"]):
        assert {f"Decision: {each['text']}" for each in answer["decisions"]} == expected
    rows = list(csv.DictReader(io.StringIO(_command(stored, "compare", "--format", "csv"))))
    for each in (*rows, *_comparisons(stored)):
        assert each["decision"] == decisions[each["variant"]]
    text = PrometheusExporter(version="1").exposition(stored.snapshot).decode()
    shipped = named(samples_of(text), "compare_ship")
    assert {dict(labels)["variant"]: bool(value) for labels, value in shipped.items()} == {
        variant: decision == "ship" for variant, decision in decisions.items()
    }
    # Not each is shipped.
    assert run("compare", stored.path, "--fail-on", "wait").returncode == 1


def test_a_reason_not_to_trust_has_the_same_words_everywhere(stored: Stored) -> None:
    problems = streameval.compare(str(stored.path)).trouble
    expected = [f"Do not trust these numbers: {problem}." for problem in problems]
    told = re.compile(r"Do not trust these numbers: .*?\.(?=\n|</p>)")
    for text in (
        _command(stored, "compare"),
        unescape(_command(stored, "compare", "--format", "html")),
        unescape(stored.html),
    ):
        assert told.findall(text) == expected
    assert stored.api["experiment"]["checks"]["trouble"] == list(problems)


def test_a_change_has_the_same_words_everywhere(stored: Stored) -> None:
    arguments = ("changes", "--label", "variant", "-m", "ctr")
    rows = json.loads(_command(stored, *arguments, "--format", "json"))["changes"]
    expected = [row["text"] for row in rows]
    lines = _command(stored, *arguments).splitlines()
    assert [line for line in lines if line in expected] == expected
    answer = CHANGES.answer(CHANGES.report_in(stored.snapshot.findings))
    api = json.loads(msgspec.json.encode(answer))["changes"]
    assert [row["text"] for row in api if row["metric"] == "ctr"] == expected
    total = next(row["text"] for row in rows if row["slice"] is None)
    assert f"<p>{total}</p>" in unescape(stored.html).replace("\N{NO-BREAK SPACE}", " ")


def test_a_gap_has_the_same_words_everywhere(stored: Stored) -> None:
    text = _command(stored, "gaps", "--by", "country", "-m", "ctr")
    sentence = text.splitlines()[0].partition(": ")[2]
    marks = [line.split("│")[-2].strip() for line in text.splitlines() if "│" in line]
    part = unescape(stored.html.partition('id="gaps"')[2].partition("</section>")[0])
    assert "The worst is CH." in sentence
    assert marks[-2:] == ["the worst", ""]
    assert re.findall(r'<strong class="verdict open">(.*?)</strong>', part).count("the worst") >= 1
