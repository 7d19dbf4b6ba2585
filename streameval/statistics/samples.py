"""Scored items with their outcome, for classification and rating metrics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, TypeAlias

import msgspec
import numpy as np

from streameval.events import Batch, Interactions
from streameval.statistics.arrays import BoolArray, FloatArray, IntArray

Positive: TypeAlias = Literal["relevant", "one"]
"""Which items are positive: those with a gain above 0 (an id's is 1), or with a gain of just 1."""


class Sampling(msgspec.Struct, frozen=True, kw_only=True):
    """How scored items are read.

    Attributes:
        positive: which items are positive; an item not interacted with is negative.
        single: whether scores are rounded to 32-bit floats, so that more of them tie.
        type: the type of interactions that count; "" for all of them.
    """

    positive: Positive = "relevant"
    single: bool = False
    type: str = ""


def samples(
    batch: Batch, sampling: Sampling, cells: int | IntArray
) -> Iterator[tuple[int, FloatArray, BoolArray]]:
    """For each list with scores: its cell, the scores, and which items are positive."""
    if sampling.type:
        batch = batch.of_type(sampling.type)
    for row, scores in enumerate(batch.scores or ()):
        if scores is not None and len(scores):
            with np.errstate(over="ignore"):
                values = np.array(scores, np.float32 if sampling.single else np.float64)
            gains = gains_of(batch.interactions[row])
            outcome = [gains.get(item, 0.0) for item in batch.recommendations[row]]
            gain = np.array(outcome)
            cell = cells if isinstance(cells, int) else int(cells[row])
            yield (
                cell,
                values.astype(np.float64),
                gain == 1 if sampling.positive == "one" else gain > 0,
            )


def gains_of(interactions: Interactions) -> Mapping[object, float]:
    """Item -> gain; 1 where only the item is known."""
    if isinstance(interactions, Mapping):
        return interactions  # type: ignore[return-value]  # ids are objects
    return dict.fromkeys(interactions, 1.0)
