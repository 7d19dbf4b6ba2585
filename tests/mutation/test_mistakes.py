"""Tests fail when what they guard is broken: a test that cannot fail says nothing."""

from __future__ import annotations

import ast
import os
import sys

import pytest

from tests.effort import sampled
from tests.house.checkout import ROOT
from tests.mutation.mistakes import VARIABLE, Mistake, mistakes
from tests.processes import finished

ALL = [*mistakes()]


@pytest.mark.parametrize("mistake", sampled(ALL, 24), ids=lambda mistake: mistake.what)
def test_it_is_noticed_when_there_is(mistake: Mistake) -> None:
    quiet = ("-q", "-x", "-m", "", "-p", "no:cacheprovider", "--hypothesis-profile", "unshrunk")
    done = finished(
        [
            sys.executable,
            "-m",
            "pytest",
            *quiet,
            "-p",
            "tests.mutation.mistakes",
            f"tests/{mistake.test}",
        ],
        cwd=ROOT,
        env={**os.environ, VARIABLE: mistake.what},
    )
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout + done.stderr


@pytest.mark.parametrize("mistake", ALL, ids=lambda mistake: mistake.what)
def test_it_can_be_made_and_its_test_exists(mistake: Mistake) -> None:
    ast.parse(mistake.source())
    file, _, node = mistake.test.partition("::")
    names = [name.partition("[")[0] for name in node.split("::") if name]
    body = ast.parse((ROOT / "tests" / file).read_text(encoding="utf-8")).body
    for name in names:
        (result,) = (at for at in body if getattr(at, "name", None) == name)
        body = getattr(result, "body", [])


def test_each_has_words_of_its_own() -> None:
    words = [mistake.what for mistake in ALL]
    assert sorted(set(words)) == sorted(words)
