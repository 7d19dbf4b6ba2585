"""Each command of mistakes.toml and values.toml has its result, and every line that it says."""

from __future__ import annotations

import re
from itertools import chain
from pathlib import Path

import pytest

from tests.cli.answers import FILES, Answer, answers


@pytest.mark.parametrize(
    "answer", [*chain.from_iterable(map(answers, FILES))], ids=lambda answer: answer.about
)
def test_a_command_prints_and_says_these_lines(answer: Answer, tmp_path: Path) -> None:
    result, said = answer.of_today(tmp_path)
    assert result == answer.result, said
    # What another library says differs between its versions.
    assert re.fullmatch(".+".join(map(re.escape, answer.said.split("..."))), said), said
