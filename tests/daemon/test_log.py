"""Log lines: one per event, and no value can break the format."""

from __future__ import annotations

import io
import json
import logging
import re
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streameval.daemon.log import Logfmt, configure, emit

_PAIR = re.compile(r'([a-z_]+)=("(?:[^"\\]|\\.)*"|[^\s"=]+)(?: |\Z)')


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    before = root.handlers[:], root.level
    stream = io.StringIO()
    configure(stream=stream)
    yield stream
    root.handlers[:], root.level = before
    logging.captureWarnings(capture=False)


def parsed(line: str) -> dict[str, str]:
    found = _PAIR.findall(line)
    assert "".join(f"{key}={value} " for key, value in found).strip() == line
    return {key: json.loads(value) if value[0] == '"' else value for key, value in found}


def test_an_event_has_time_level_name_and_fields(lines: io.StringIO) -> None:
    emit(logging.WARNING, "source_trouble", trouble="no broker", topic=None, tries=3)
    found = parsed(lines.getvalue().rstrip("\n"))
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", found.pop("ts"))
    assert found == {
        "level": "warning",
        "event": "source_trouble",
        "trouble": "no broker",
        "tries": "3",
    }


def test_a_line_of_another_library_is_a_message(lines: io.StringIO) -> None:
    logging.getLogger("elsewhere").error("it is %s", "late")
    found = parsed(lines.getvalue().rstrip("\n"))
    assert (found["event"], found["logger"]) == ("message", "elsewhere")
    assert found["message"] == "it is late"


def test_a_warning_of_python_is_a_line(lines: io.StringIO) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(capture=True)
        warnings.warn("two kinds of ids", UserWarning, stacklevel=1)
    assert "two kinds of ids" in parsed(lines.getvalue().rstrip("\n"))["message"]


def test_an_error_with_its_traceback_stays_on_one_line(lines: io.StringIO) -> None:
    try:
        Path("gone\naway").read_bytes()
    except OSError:
        logging.getLogger("elsewhere").exception("failed")
    assert lines.getvalue().count("\n") == 1
    assert "No such file" in parsed(lines.getvalue().rstrip("\n"))["error"]


@given(st.text(alphabet=st.characters(codec="utf-8")))
def test_any_text_comes_back_from_its_line(text: str) -> None:
    record = logging.makeLogRecord({"msg": "seen", "fields": {"text": text}})
    line = Logfmt().format(record)
    assert "\n" not in line
    assert parsed(line)["text"] == text
