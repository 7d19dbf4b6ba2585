"""What is read of files, frames, mappings and matrices, as laws over random lists."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streameval import evaluate
from tests.evaluation.worlds import METRICS, World, state, worlds

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
        total = world.counted(ranked=ranked, left_out=False)
        assert state(*both) == total, name
        assert state(*both, exclude=seen) == world.counted(ranked=ranked, left_out=True), name


_DELIMITERS = (",", ";", "|", "\t", "::")
_BARE = ("a", "b c", "é,1", 'i"3', '"3', '"x" y', "007", "7")
"""Ids without a sign that the delimiter of a file without quotes may have."""


def _written(path: Path, frame: pd.DataFrame, draw: st.DataObject, *, header: bool) -> str:
    """Write a file in one of the ways that there are; returns its delimiter."""
    has_quotes = not any(word in _BARE[3:6] for word in frame["item"])
    sign: str = draw.draw(st.sampled_from(_DELIMITERS if has_quotes else _DELIMITERS[3:]))
    end = draw.draw(st.sampled_from(["\n", "\r\n"]))
    rows = [*([list(frame)] if header else []), *frame.astype(str).to_numpy().tolist()]
    with path.open("w", newline="") as file:
        if sign in _DELIMITERS[:3]:
            quoting: Literal[0, 1] = draw.draw(st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))
            csv.writer(file, delimiter=sign, quoting=quoting, lineterminator=end).writerows(rows)
        else:
            file.write("".join(sign.join(row) + end for row in rows))
    return sign


@given(world=worlds(text=True) | worlds(text=True, words=_BARE), draw=st.data())
def test_a_file_has_the_state_of_its_frame_however_it_is_written(
    world: World, draw: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """With any delimiter, quotes and ends of lines, with a header or names, cut anywhere."""
    folder, truth = tmp_path_factory.mktemp("law"), _pairs(world.truth)
    shown = draw.draw(st.permutations(["user", "item", "score"]))
    frame, named = world.frame[shown], draw.draw(st.booleans())
    path = folder / draw.draw(st.sampled_from(["shown.csv", "shown.dat", "shown.tsv"]))
    sign = _written(path, frame, draw, header=not named)
    options: dict[str, Any] = {"header": shown} if named else {}
    options |= {} if sign in "\t,;" else {"delimiter": sign}
    # A block ends in and beside each sign; a row fits into it.
    size = draw.draw(st.integers(60, 140))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("streameval.evaluation.files._BLOCK", size)
        assert state(path, truth, **options) == world.counted(ranked=False, left_out=False)


def test_no_end_of_a_block_changes_a_quoted_field(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one between the two signs that end a line in it."""
    truth = {user: [f'{user}"\r\n,{user}'] for user in "uvwx"}
    path = tmp_path / "shown.csv"
    _pairs(truth).to_csv(path, index=False, lineterminator="\r\n")
    for size in range(24, 60):
        monkeypatch.setattr("streameval.evaluation.files._BLOCK", size)
        assert evaluate(path, truth, "recall", separator="")["recall"].value == 1.0, size


def _folder(frame: pd.DataFrame, path: Path, size: int) -> Path:
    path.mkdir()
    for number, start in enumerate(range(0, len(frame), size)):
        frame[start : start + size].to_parquet(path / f"part-{number:03}.parquet", index=False)
    return path


def _row_groups(frame: pd.DataFrame, path: Path, size: int) -> Path:
    pq.write_table(pa.Table.from_pandas(frame), path.with_suffix(".parquet"), row_group_size=size)
    return path.with_suffix(".parquet")


def _feather(frame: pd.DataFrame, path: Path, size: int) -> Path:
    table = pa.Table.from_pandas(frame)
    pyarrow.feather.write_feather(table, path.with_suffix(".feather"), chunksize=size)
    return path.with_suffix(".feather")


def _categories(frame: pd.DataFrame, _: Path, size: int) -> pd.DataFrame:
    """Some of the categories are in no row."""
    more = pd.concat([frame, frame[:size].assign(thing="in no row")])
    return more.astype({"user": "category", "thing": "category"})[: len(frame)]


def _dictionaries(frame: pd.DataFrame, _: Path, size: int) -> pa.Table:
    """Each chunk has its own dictionary."""
    parts = [pa.Table.from_pandas(frame[at : at + size]) for at in range(0, len(frame), size)]
    coded = [
        part.append_column("coded", part["thing"].combine_chunks().dictionary_encode())
        for part in parts
    ]
    return pa.concat_tables([part.drop_columns(["thing"]) for part in coded]).rename_columns(
        {"coded": "thing"}
    )


_WAYS: tuple[Callable[[pd.DataFrame, Path, int], Any], ...] = (
    *(_folder, _row_groups, _feather, _categories, _dictionaries),
    lambda frame, *_: pl.from_pandas(frame).with_columns(pl.col("thing").cast(pl.Categorical)),
)


@given(world=worlds(text=True), draw=st.data())
def test_how_a_table_is_stored_changes_no_bit(
    world: World, draw: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Row groups, files, categories, names and order of columns, and the order of scored rows."""
    way = draw.draw(st.sampled_from(_WAYS))
    shown = draw.draw(st.permutations(["user", "item", "score", "rank"]))
    frame, truth = (
        world.frame.assign(score=world.frame["score"].round())[shown],
        _pairs(world.truth),
    )
    options: dict[str, Any] = {
        "ties": draw.draw(st.sampled_from(["id_asc", "id_desc", "random"])),
        "columns": {"rank": None},
    }
    expected = state(frame, truth, **options)
    folder, size = tmp_path_factory.mktemp("law"), draw.draw(st.integers(1, 4))
    table = way(frame.rename(columns={"item": "thing"}), folder / "shown", size)
    columns = {"rank": None, "recommendations.item": "thing"}
    assert state(table, truth, **options | {"columns": columns}) == expected
    turned = evaluate(frame[::-1], truth, *METRICS, **options)
    total = evaluate(frame, truth, *METRICS, **options)
    assert {name: of.value for name, of in turned.items()} == pytest.approx(
        {name: of.value for name, of in total.items()}, nan_ok=True, rel=0
    )
