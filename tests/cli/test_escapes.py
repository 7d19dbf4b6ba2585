"""Text of records, states and files controls no terminal, whatever command shows it."""

from __future__ import annotations

import json
import logging
import re
import unicodedata
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path

import msgspec
import pytest

from streameval.checkpoints.format import Shard
from streameval.checkpoints.store import folder_store
from streameval.config import load
from streameval.config.states import newest_checkpoints, restore
from streameval.daemon.log import Logfmt
from streameval.engine.capture import ingest_snapshot
from streameval.events.errors import ConfigError, SourceError
from streameval.events.printable import printable
from streameval.exporters.page.page import page
from streameval.exporters.page.selection import Selection
from streameval.exporters.page.state import daemon_state
from streameval.exporters.page.templates import html_text, in_text
from tests.cli.program import from_csv, in_a_terminal, json_lines, printed, run
from tests.stores.drafts import draft
from tests.stores.received import events, write_state

HOSTILE = "new\x1b[31m\x07\r\nstreameval: all is well\u202e\u2066\x9b\u2028\U000e0001"
"""Colour, bell, a forged line, an override and an isolate of direction, C1, a line end, a tag."""

RIGHT_TO_LEFT = "\u05e0\u05d9\u05e1\u05d5\u05d9"
"""An honest name."""

CONFIG = """
metrics = ["ctr"]
labels = ["variant"]
intervals = { groups = 64 }
windows = { spans = ["24h"] }
source = { type = "files", paths = ["events.ndjson"] }
event = { time = "ts", time_unit = "s" }
"""


def is_plain(text: str) -> None:
    """No character but the ends of lines controls a terminal or the direction of text."""
    wrong = {char for char in text if char != "\n" and unicodedata.category(char)[0] == "C"}
    assert not wrong, (wrong, text)
    assert "\u2028" not in text
    is_html = text.lstrip().startswith("<")
    forged = [line for line in text.splitlines() if line.startswith("streameval: all is well")]
    assert is_html or not forged


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a log and a state with variants of such names."""
    path = tmp_path_factory.mktemp("escapes")
    records = [
        event | {"variant": HOSTILE if event["variant"] == "new" else "control"}
        for event in events(400)
    ]
    json_lines(path / "events.ndjson", records)
    (path / "streameval.toml").write_text(CONFIG)
    write_state(path / "state", load(path / "streameval.toml"), records)
    return path


COMMANDS = [
    ("state", "export", "{0}/state"),
    ("state", "export", "{0}/state", "--format", "table"),
    ("state", "show", "{0}/state"),
    ("compare", "{0}/state"),
    ("compare", "{0}/state", "--format", "json"),
    ("compare", "{0}/state", "--format", "html"),
    ("gaps", "{0}/state", "--by", "variant"),
    ("gaps", "{0}/events.ndjson", "-m", "ctr", "--by", "variant"),
    ("plan", "{0}/state"),
    ("changes", "{0}/state", "--label", "variant"),
    ("changes", "{0}/state", "--label", "variant", "--format", "json"),
    ("evaluate", "{0}/events.ndjson", "-m", "ctr", "--by", "variant", "--format", "json"),
    ("evaluate", "{0}/events.ndjson", "-m", "ctr", "--by", "variant", "--format", "table"),
    ("evaluate", "{0}/events.ndjson", "-m", "ctr", "--by", "variant", "--format", "html"),
]


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_no_output_has_a_character_that_controls_a_terminal(
    folder: Path, arguments: Sequence[str]
) -> None:
    done = run(*(part.format(folder) for part in arguments))
    assert done.returncode == 0, done.stderr
    is_plain(re.sub(r' (value|id|for)="[^"]*"', "", done.stdout))
    is_plain(done.stderr)


def test_no_page_has_a_character_that_controls_a_terminal_or_a_sentence(folder: Path) -> None:
    stored = newest_checkpoints([str(folder / "state")], print)
    config, ingest = restore(stored, None, print)
    snapshot = ingest_snapshot(ingest, labels=config.series_labels(), now=0.0)
    html = page(snapshot, daemon_state(snapshot, healthy=True), Selection())
    assert "new\\x1b[31m" in html
    # The value of an input is what the server gets.
    assert f'value="{escape(HOSTILE)}"' in html
    is_plain(re.sub(r' (value|id|for)="[^"]*"', "", html))


def test_json_reads_back_equal(folder: Path) -> None:
    exported = run("state", "export", folder / "state")
    variants = {row["labels"]["variant"] for row in json.loads(exported.stdout)}
    assert variants == {"control", HOSTILE}


def test_csv_is_exact_for_programs_and_escaped_for_people(folder: Path) -> None:
    arguments = ("evaluate", folder / "events.ndjson", "-m", "ctr", "--by", "variant")
    assert {row["variant"] for row in from_csv(*arguments)} == {"control", HOSTILE}
    output = in_a_terminal(*arguments, "--format", "csv").split("\r\n")
    rows_shown = [line for line in output if line.startswith("ctr,")]
    assert len(rows_shown) == 2
    is_plain("\n".join(rows_shown))


def test_a_name_is_no_markup_of_tables(tmp_path: Path) -> None:
    """An end tag without a beginning was a traceback, and :smile: one character."""
    name = "[red]new[/bold] :smile:"
    store = folder_store(tmp_path / "state")
    store.claim(name, name)
    made = draft(7, Shard(name, "id", 0))
    state = msgspec.structs.replace(made.header.state, cluster=name, group=name)
    header = msgspec.structs.replace(made.header, state=state)
    store.save([msgspec.structs.replace(made, header=header)])
    output = " ".join(printed("state", "show", tmp_path / "state").split())
    assert [f"cluster {name}," in output, f"group {name}" in output, f"{name}[0]" in output] == [
        True
    ] * 3


ITEMS: list[Callable[[Path], Sequence[str | Path]]] = [
    # An item twice in a list of numbers with positions, a name of a column, a metric, a path.
    lambda path: (
        "evaluate",
        json_lines(path / "x.ndjson", [{HOSTILE: [HOSTILE], "interactions": [HOSTILE]}]),
        "-m",
        "ctr",
    ),
    lambda path: ("evaluate", path / HOSTILE, "-m", "ctr"),
    lambda path: ("evaluate", path / "no.ndjson", "-m", HOSTILE),
    lambda path: (
        "evaluate",
        _table(path),
        "-m",
        "ctr",
    ),
    lambda path: ("compare", path / "no.ndjson", "-m", "ctr", "--label", HOSTILE),
    lambda _: ("check", HOSTILE),
    lambda _: (HOSTILE,),
]


def _table(folder: Path) -> Path:
    """A table without the column that is needed, whose columns have such names."""
    path = folder / "x.csv"
    path.write_text('recommendations,"{}"\n'.format(HOSTILE.replace("\r\n", " ")))
    return path


@pytest.mark.parametrize("arguments", ITEMS)
def test_no_error_has_a_character_that_controls_a_terminal(
    tmp_path: Path, arguments: Callable[[Path], Sequence[str | Path]]
) -> None:
    done = run(*arguments(tmp_path))
    assert done.returncode in (1, 2)
    assert all(line.startswith("streameval: ") for line in done.stderr.splitlines())
    is_plain(done.stderr)


def test_an_error_has_its_data_as_it_was_and_its_message_escaped() -> None:
    error = SourceError(HOSTILE, "it is missing", "check it")
    assert error.where == HOSTILE
    is_plain(str(error))
    first = ConfigError("a.toml", HOSTILE, "wrong", ConfigError("a.toml", "b", HOSTILE))
    assert len(first.lines) == 2 == str(first).count("\n") + 1
    is_plain(str(first))


def test_a_line_of_the_log_reads_back_equal_and_controls_nothing() -> None:
    record = logging.makeLogRecord({"msg": "on", "created": 0, "levelname": "INFO"})
    record.fields = {"item": HOSTILE}
    line = Logfmt().format(record)
    is_plain(line)
    assert json.loads(line.partition("item=")[2]) == HOSTILE


def test_names_from_right_to_left_read_well_and_move_no_words() -> None:
    sentence = f"{RIGHT_TO_LEFT} is better by 6.64 %"
    assert printable(sentence) == sentence
    assert in_text(sentence) == f"<bdi>{RIGHT_TO_LEFT}</bdi> is better by 6.64 %"
    two_words = f"{RIGHT_TO_LEFT} 2 {RIGHT_TO_LEFT}"
    assert in_text(f"{two_words}: 1") == f"<bdi>{two_words}</bdi>: 1"
    assert in_text("a\n\x1bb") == "a\n\\x1bb"
    assert html_text(RIGHT_TO_LEFT) == RIGHT_TO_LEFT
    # U+200C stands in many Persian words.
    persian = "\u0645\u06cc\u200c\u0634\u0648\u062f"
    assert printable(persian) == persian


def test_no_name_reverses_a_verdict_in_html() -> None:
    assert in_text("new\u202e is better by 6.64 %") == "new\\u202e is better by 6.64 %"
