"""Each mistake of mistakes.toml has its error, and every word of it."""

from __future__ import annotations

import re

import pytest

from tests.metrics.mistakes import Mistake, mistakes


@pytest.mark.parametrize("mistake", [*mistakes()], ids=lambda mistake: mistake.about)
def test_a_mistake_is_told_in_these_words(mistake: Mistake) -> None:
    error, said = mistake.answer()
    assert error == mistake.error, said
    assert re.fullmatch(".+".join(map(re.escape, mistake.said.split("..."))), said, re.DOTALL), said
