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


def test_a_report_has_the_sections_of_the_configured_analyses(tmp_path: Path) -> None:
    log = json_lines(tmp_path / "events.ndjson", events(30, lists=60))
    config = write_file(tmp_path / "streameval.toml", CONFIG)
    done = run("evaluate", log, "--config", config, "--format", "html")
    assert done.returncode == 0, done.stderr
    sections = re.findall(r'<section id="(\w+)"><h2>(\w+)</h2>', done.stdout)
    assert sections == [("changes", "Changes"), ("gaps", "Gaps")], "an experiment has `compare`"
    tables = [text for text in _captions(done.stdout) if text.startswith(("Gap", "Watched"))]
    gaps = [f"Gap of ctr by country, variant={variant}" for variant in "ab"]
    assert tables == ["Watched series", *gaps]


def _captions(html: str) -> list[str]:
    return re.findall(r"<caption[^>]*>([^<]*)<", html)


def test_an_analysis_that_does_not_fit_the_options_is_left_out(tmp_path: Path) -> None:
    log = json_lines(tmp_path / "events.ndjson", events(30, lists=60))
    config = write_file(tmp_path / "streameval.toml", CONFIG)
    done = run("evaluate", log, "--config", config, "--by", "model", "--format", "html")
    assert done.returncode == 0, done.stderr
    assert re.findall(r'<section id="(\w+)">', done.stdout) == ["gaps"], "changes are by variant"
