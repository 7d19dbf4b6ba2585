from __future__ import annotations

import json

import pytest
from hypothesis import given

from streameval.cli import dlq
from streameval.config.options import DeadLetterOptions
from streameval.dead_letters.file import letter_in, line_of
from streameval.dead_letters.topic import HEADERS, headers_of, letter_of
from streameval.engine.dead_letters import ORIGINAL, DeadLetter
from streameval.engine.limits import FEWEST, WINDOW
from tests.dead_letters.places import letter, letters
from tests.effort import every_case
from tests.house.checkout import ROOT

PAGE = (ROOT / "docs" / "how-to" / "dead-letters.md").read_text(encoding="utf-8")


@given(letters)
def test_a_letter_is_read_back_from_its_record_whatever_headers_it_had(letter: DeadLetter) -> None:
    assert letter_of(letter.key, letter.value, headers_of(letter)) == letter


@given(letters)
def test_a_letter_is_read_back_from_its_line(letter: DeadLetter) -> None:
    line = line_of(letter)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert letter_in(line) == letter


def test_the_added_headers_are_those_that_are_documented_in_their_order() -> None:
    added = headers_of(letter(headers=()))
    rows = [line for line in PAGE.splitlines() if line.startswith("| `streameval.dlq.")]
    assert rows == [f"| `{name}` | {text} |" for name, text in HEADERS.items()]
    assert f"`{ORIGINAL}`" in PAGE
    assert [name for name, _ in added] == list(HEADERS)
    assert dict(added) == {
        "streameval.dlq.topic": b"events",
        "streameval.dlq.partition": b"0",
        "streameval.dlq.offset": b"14",
        "streameval.dlq.timestamp": b"1700000000014",
        "streameval.dlq.stage": b"decode",
        "streameval.dlq.reason": b"not_json",
        "streameval.dlq.message": b"found 14 at the beginning",
    }


@every_case("missing", [name for name in HEADERS if not name.endswith("timestamp")])
def test_a_record_without_the_headers_is_not_a_letter(missing: str) -> None:
    headers = [pair for pair in headers_of(letter()) if pair[0] != missing]
    assert letter_of(b"key", b"value", headers) is None


@every_case(
    ("name", "value"),
    [("partition", b"one"), ("offset", b""), ("timestamp", b"\xff"), ("stage", b"elsewhere")],
)
def test_a_record_with_invalid_headers_is_not_a_letter(name: str, value: bytes) -> None:
    headers = dict(headers_of(letter())) | {f"streameval.dlq.{name}": value}
    assert letter_of(b"key", b"value", list(headers.items())) is None


def test_a_line_shows_text_as_text_and_bytes_as_base64() -> None:
    shown = json.loads(line_of(letter(key=None, value=b"\xff{", headers=(("h", "é".encode()),))))
    assert shown["value"] == {"base64": "/3s="}
    assert shown["key"] is None
    assert shown["headers"] == [["h", "é"]]


@every_case("line", [b"", b"{", b"{}", b'{"topic": 1}', b"\xff"])
def test_a_line_without_a_letter_is_rejected(line: bytes) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        letter_in(line)


def test_a_line_with_invalid_base64_is_rejected() -> None:
    line = line_of(letter(value=b"\xff{")).replace(b"/3s=", b"/3s!")
    with pytest.raises(ValueError, match="base64"):
        letter_in(line)


def test_the_documented_limits_are_those_of_the_program() -> None:
    options = DeadLetterOptions()
    assert f"more than {options.max_run:,} invalid records in a row" in PAGE
    share = f"{100 * options.max_ratio:g} %"
    assert f"more than {share} invalid of the last {WINDOW:,} records (at least {FEWEST:,})" in PAGE


def test_the_documented_number_of_samples_is_that_of_the_program() -> None:
    assert dlq.SAMPLES == 3
    assert "the last three records" in " ".join(PAGE.split())
