"""Every law fails when what it guards is broken: a law that cannot fail says nothing."""

from __future__ import annotations

from functools import partial

import pytest

from streameval.events.errors import StreamevalError
from tests.contract import laws
from tests.effort import sampled
from tests.mutation import (
    changes,
    clock,
    gaps,
    groups_of_items,
    join,
    kinds,
    metrics,
    per_user,
    policies,
    protocol,
    rankers,
    store,
    verdicts,
)
from tests.mutation.mistake import Mistake

MISTAKES = (
    *metrics.MISTAKES,
    *clock.MISTAKES,
    *join.MISTAKES,
    *store.MISTAKES,
    *protocol.MISTAKES,
    *verdicts.MISTAKES,
    *changes.MISTAKES,
    *gaps.MISTAKES,
    *groups_of_items.MISTAKES,
    *kinds.MISTAKES,
    *per_user.MISTAKES,
    *policies.MISTAKES,
    *rankers.MISTAKES,
)


@pytest.mark.parametrize("mistake", sampled(MISTAKES, 8), ids=lambda mistake: mistake.what)
def test_it_is_noticed_when_there_is(mistake: Mistake, monkeypatch: pytest.MonkeyPatch) -> None:
    mistake.broken(monkeypatch)
    with pytest.raises((AssertionError, pytest.fail.Exception, StreamevalError)):
        mistake.law()


@pytest.mark.parametrize("mistake", kinds.MISTAKES, ids=lambda mistake: mistake.what)
def test_each_of_kinds_of_items_is_noticed(
    mistake: Mistake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They cost little, so that all of them are tried in every run."""
    test_it_is_noticed_when_there_is(mistake, monkeypatch)


@pytest.mark.parametrize("mistake", MISTAKES)
def test_what_it_breaks_exists(mistake: Mistake) -> None:
    with pytest.MonkeyPatch.context() as patch:
        mistake.broken(patch)


def test_every_law_is_shown_to_bite() -> None:
    written = {name for name, law in vars(laws).items() if _is_law(law)}
    bitten = {
        mistake.law.func.__name__
        for mistake in metrics.MISTAKES
        if isinstance(mistake.law, partial)
    }
    assert bitten == written | {"check_metric"}


def _is_law(member: object) -> bool:
    """Laws give nothing back: they hold or raise."""
    is_of_laws = getattr(member, "__module__", None) == laws.__name__
    return is_of_laws and getattr(member, "__annotations__", {}).get("return") == "None"
