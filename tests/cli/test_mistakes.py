"""Each mistake of mistakes.toml has its status, and every line that is said of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.mistakes import Mistake, mistakes


@pytest.mark.parametrize("mistake", [*mistakes()], ids=lambda mistake: mistake.about)
def test_a_mistake_has_its_status_and_is_told_in_these_lines(
    mistake: Mistake, tmp_path: Path
) -> None:
    status, said = mistake.answer(tmp_path)
    assert status == mistake.status
    # What another library says differs between its versions.
    assert re.fullmatch(".+".join(map(re.escape, mistake.said.split("..."))), said), said
