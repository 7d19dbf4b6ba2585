from __future__ import annotations

import inspect

from streameval.cli import dlq
from streameval.cli.dlq import SAMPLES
from streameval.dead_letters.topic import HEADERS
from streameval.engine.dead_letters import ORIGINAL
from streameval.engine.limits import FEWEST, WINDOW, Limits
from tests.house.checkout import ROOT

PAGE = (ROOT / "docs" / "how-to" / "dead-letters.md").read_text(encoding="utf-8")


def test_the_headers_in_the_documents_are_those_of_the_program() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| `streameval.dlq.")]
    assert rows == [f"| `{name}` | {text} |" for name, text in HEADERS.items()]
    assert f"`{ORIGINAL}`" in PAGE


def test_the_limits_in_the_documents_are_those_of_the_program() -> None:
    limits = inspect.signature(Limits).parameters
    assert f"more than {limits['max_run'].default:,} invalid records in a row" in PAGE
    share = f"{100 * limits['max_ratio'].default:g} %"
    assert f"more than {share} of the last {WINDOW:,} records, once there were {FEWEST:,}" in PAGE


def test_the_number_of_samples_in_the_documents_is_that_of_the_program() -> None:
    assert SAMPLES == 3
    assert "the last three of each" in " ".join(PAGE.split())


def test_the_options_in_the_documents_are_those_of_the_program() -> None:
    source = inspect.getsource(dlq)
    options = ("--json", "--dry-run", "--reason", "--offset")
    assert [name for name in options if name not in PAGE] == []
    assert [name for name in options if f'"{name}"' not in source and name[2:] not in source] == []
