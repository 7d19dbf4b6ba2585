"""The report of `evaluate` has the analyses of the configuration, as a daemon's page has."""

from __future__ import annotations

import re
from pathlib import Path

from tests.changes.events import events
from tests.cli.program import json_lines, run, write_file

CONFIG = """
metrics = ["ctr"]
labels = ["variant"]
segments = ["country"]
event = { user = "user", time = "ts", time_unit = "s" }
intervals = {}
source = { type = "files", paths = ["events.ndjson"] }
[experiment]
control = "a"
[changes]
label = "variant"
[[gap]]
by = "country"
"""


def _report(folder: Path, *options: str) -> str:
    """The report of a log in HTML."""
    log = json_lines(folder / "events.ndjson", events(30, lists=60))
    config = write_file(folder / "streameval.toml", CONFIG)
    done = run("evaluate", log, "--config", config, *options, "--format", "html")
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_report_has_the_sections_of_the_configured_analyses(tmp_path: Path) -> None:
    html = _report(tmp_path)
    sections = re.findall(r'<section id="(\w+)"><h2>(\w+)</h2>', html)
    assert sections == [("changes", "Changes"), ("gaps", "Gaps")], "an experiment has `compare`"
    captions = re.findall(r"<caption[^>]*>([^<]*)<", html)
    gaps = [f"Gap of ctr by country, variant={variant}" for variant in "ab"]
    tables = [text for text in captions if text.startswith(("Gap", "Watched"))]
    assert tables == ["Watched series until the end of 29 Jan in UTC", *gaps]


def test_an_analysis_that_does_not_fit_the_options_is_left_out(tmp_path: Path) -> None:
    html = _report(tmp_path, "--by", "model")
    assert re.findall(r'<section id="(\w+)">', html) == ["gaps"], "changes are by variant"
