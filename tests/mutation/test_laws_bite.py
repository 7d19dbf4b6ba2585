"""Every law fails when what it guards is broken: a law that cannot fail says nothing."""

from __future__ import annotations

from functools import partial

import pytest

from tests.contract import laws
from tests.effort import sampled
from tests.mutation import breakages
from tests.mutation.breakages import MISTAKES, Law, Mistake

LAWS = {name: law for name, law in vars(breakages).items() if isinstance(law, partial)}


@pytest.mark.nightly
@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
def test_the_law_holds(law: Law) -> None:
    law()


@pytest.mark.parametrize("mistake", sampled(MISTAKES, 3), ids=lambda mistake: mistake.what)
def test_the_law_fails_when_there_is(mistake: Mistake, monkeypatch: pytest.MonkeyPatch) -> None:
    mistake.broken(monkeypatch)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        mistake.law()


def test_every_law_is_shown_to_bite() -> None:
    written = {name for name, law in vars(laws).items() if _is_law(law)}
    bitten = {mistake.law.func.__name__ for mistake in MISTAKES}
    assert bitten == written


def _is_law(found: object) -> bool:
    """Laws give nothing back: they hold or raise."""
    own = getattr(found, "__module__", None) == laws.__name__
    return own and getattr(found, "__annotations__", {}).get("return") == "None"
