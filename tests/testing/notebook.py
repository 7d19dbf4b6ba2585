"""Declarations of metrics as a notebook runs them, and their values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import Annotated, Any, Literal

import numpy as np

from streameval import Accumulator, metric
from streameval.catalogue.reading import Bounded
from streameval.catalogue.signature import Span


class Tensor:
    """An array of one number, whose __iter__ raises."""

    def __iter__(self) -> Iterator[float]:
        raise TypeError("iteration over a 0-d tensor")

    def tolist(self) -> float:
        return 0.5


def in_a_notebook(source: str, bounds: Any = (0, 1), **options: Any) -> Callable[..., Any]:
    made: dict[str, Any] = {"np": np, "Tensor": Tensor, "__name__": "a_notebook", "wraps": wraps}
    made |= {"Annotated": Annotated, "Literal": Literal, "Span": Span, "Bounded": Bounded}
    exec(source, made)  # as a notebook runs a cell
    declare: Any = metric(bounds=bounds, source="our own rule", **options)
    declaration: Callable[..., Any] = declare(made["ours"])
    return declaration


def counted(ours: Callable[..., Any]) -> Accumulator:
    """Two lists, and a reading, which says what is wrong with a value."""
    accumulator = Accumulator(ours)
    accumulator.update(["a", "b"], ["b"])
    accumulator.update(["a", "b", "c"], [])
    accumulator.compute()
    return accumulator
