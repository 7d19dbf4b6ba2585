"""What is read of files, frames, mappings and matrices, as laws over random lists."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given

from tests.evaluation.worlds import World, state, worlds

pytestmark = pytest.mark.filterwarnings("ignore::streameval.events.errors.SuspiciousEventsWarning")


def _pairs(by_user: Any) -> pd.DataFrame:
    rows = [(user, item) for user, items in by_user.items() for item in items]
    return pd.DataFrame(rows, columns=["user", "item"])


def _forms(world: World, folder: Path) -> Iterator[tuple[str, bool, tuple[Any, Any], Any]]:
    """Name, whether ranks are positions, recommendations with truth, and what is left out."""
    rows, truth, seen = world.frame, _pairs(world.truth), _pairs(world.seen)
    yield "mappings", False, (world.lists, world.truth), world.seen
    scored = {
        user: dict(zip(of["item"], of["score"], strict=True)) for user, of in rows.groupby("user")
    }
    if all(len(scored[user]) == len(items) for user, items in world.lists.items()):
        yield "scores by item", False, (scored, world.truth), seen
    yield "frame with scores", False, (rows.drop(columns="rank"), truth), world.seen
    ranked = rows.drop(columns="score")
    yield "frame with ranks", True, (ranked.sample(frac=1, random_state=1), truth), seen
    if not isinstance(world.rows[0].item, str):
        # What is left out is text, and the lists have integers.
        yield "ids of another type", True, (ranked, truth), seen.astype(str)
    paths = [folder / name for name in ("shown.csv", "truth.csv", "seen.csv")]
    for frame, path in zip((ranked, truth, seen), paths, strict=True):
        frame.to_csv(path, index=False)
    if isinstance(world.rows[0].item, str) and isinstance(world.rows[0].user, str):
        yield "csv with ranks", True, (paths[0], paths[1]), paths[2]


@given(world=worlds() | worlds(text=True))
def test_lists_that_leave_items_out_are_lists_without_them(
    world: World, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Ranks keep their gaps but for those of the items left out; an emptied list stays a list."""
    folder = tmp_path_factory.mktemp("law")
    for name, ranked, both, seen in _forms(world, folder):
        whole = world.counted(ranked=ranked, left_out=False)
        assert state(*both) == whole, name
        assert state(*both, exclude=seen) == world.counted(ranked=ranked, left_out=True), name
