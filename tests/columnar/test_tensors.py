"""Tensors and frames of other libraries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from streameval import Accumulator, Columns, Similarity
from streameval.evaluation.partials import merged, partials
from streameval.events.columns import as_numpy
from streameval.events.errors import InvalidEventError
from tests.columnar.given import TOP, TRUTH, Tensor

WORDS = {"recommendations": [["a", "b"], ["c", "d"]], "interactions": [["b"], []]}


def value_of(*given: Any, metric: str = "mrr") -> float:
    accumulator = Accumulator(metric)
    accumulator.update_many(*given)
    return accumulator.read(metric).value


EXPECTED = value_of(np.array(TOP), [[item] for item in TRUTH])


def test_tensors_and_vectors_of_targets_count_like_lists() -> None:
    assert value_of(Tensor(TOP), Tensor(TRUTH)) == EXPECTED
    assert value_of(np.array(TOP), np.array(TRUTH)) == EXPECTED
    assert value_of(Tensor(TOP), [Tensor([item]) for item in TRUTH]) == EXPECTED
    columns = Columns(
        recommendations=Tensor(TOP),
        interactions=(Tensor(TRUTH), Tensor([0, 1, 2, 3])),
        scores=Tensor([[0.3, 0.2, 0.1]] * 3),
    )
    assert value_of(columns) == EXPECTED
    assert value_of(np.array(TOP), np.array([1, -1, 9])) == pytest.approx((1 / 2 + 1 / 3) / 3)
    assert value_of(np.arange(10)[:, None], np.array([0, 1] * 5)) == 0.2  # items, not marks


def test_tensors_in_main_memory_are_not_copied() -> None:
    tensor = Tensor(TOP)
    assert np.shares_memory(as_numpy("recommendations", tensor), tensor.values)


def test_tensors_on_a_device_are_copied_by_cpu() -> None:
    assert value_of(Tensor(TOP, device=2), Tensor(TRUTH, device=2)) == EXPECTED


def test_vectors_of_items_may_be_tensors() -> None:
    weight = Tensor([[1.0, 0.0], [0.0, 2.0], [3.0, 0.0]], device=2)
    similarity = Similarity([1, 2, 3], vectors=weight)  # type: ignore[arg-type]  # of another library
    assert (similarity.between(1, 2), similarity.between(1, 3)) == (0.0, 1.0)


def test_string_views_are_text() -> None:
    """Polars uses string views."""
    views = pa.list_(pa.string_view())
    table = pa.table({name: pa.array(lists, views) for name, lists in WORDS.items()})
    table = table.append_column("variant", pa.array(["x", "y"], pa.string_view()))
    assert value_of(table) == value_of(pa.table(WORDS)) == 0.25
    rows = merged(partials([table], "mrr", by=["variant"]))
    assert {cell.labels: accumulator.read("mrr").value for cell, accumulator in rows.items()} == {
        ("x",): 0.5,
        ("y",): 0.0,
    }


def test_polars_frames_are_counted() -> None:
    frame = pl.DataFrame(WORDS)
    assert value_of(frame) == value_of(frame["recommendations"], frame["interactions"]) == 0.25
    element = pl.element().cast(pl.Categorical)
    coded = frame.with_columns(pl.col("recommendations").list.eval(element))
    assert value_of(coded) == 0.25
    fixed = pl.DataFrame({"recommendations": np.array(TOP), "interactions": [[1], [9], [9]]})
    assert value_of(fixed) == EXPECTED
    with pytest.raises(InvalidEventError, match="LazyFrame is lazy"):
        partials([frame.lazy()], "mrr")


class EarlierFrame:
    """A frame without an Arrow interface, as of Polars 1.0: iterating it gives its columns."""

    columns = ("recommendations", "interactions")

    def __iter__(self) -> Iterator[list[list[str]]]:
        return iter(WORDS.values())


def test_a_frame_without_an_arrow_interface_is_refused() -> None:
    with pytest.raises(InvalidEventError, match="EarlierFrame that has no Arrow interface"):
        value_of(EarlierFrame())


def test_pandas_frames_are_counted() -> None:
    frame = pd.DataFrame(WORDS)
    assert value_of(frame) == value_of(frame["recommendations"], frame["interactions"]) == 0.25


@pytest.mark.nightly
def test_torch_tensors_are_counted() -> None:
    torch = pytest.importorskip("torch")
    top, truth = torch.tensor(TOP), torch.tensor(TRUTH)
    assert value_of(top, truth) == EXPECTED
    assert np.shares_memory(as_numpy("recommendations", top), top.numpy())
    assert value_of(top.to(torch.int32), [truth[:1], truth[1:2], truth[2:]]) == EXPECTED
    scores = torch.rand(3, 3, requires_grad=True)
    value_of(Columns(recommendations=top, interactions=truth, scores=scores), metric="auc")
    ranked = torch.rand(3, 9).topk(3)
    with pytest.raises(InvalidEventError, match="topk has scores and ids"):
        value_of(ranked, truth)
    columns = Columns(recommendations=top, interactions=truth, scores=scores.bfloat16())
    with pytest.raises(InvalidEventError, match=r"scores: torch.bfloat16 of shape \(3, 3\) cannot"):
        value_of(columns, metric="auc")
