"""Which of our metrics answers to which file of another system's numbers.

To add a system: put its files into the folder, and a line for each of its metrics here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

from tests.metrics.preparation import Shown

Inputs: TypeAlias = Callable[[Mapping[str, Any]], Shown]


def binary(user: Mapping[str, Any]) -> Shown:
    """A user's list and the ids that were relevant."""
    return Shown(user["recommendations"], user["relevant"])


class Answer(NamedTuple):
    """text: our metric, with {k} for the cut-off of the case; inputs: how a user is handed over."""

    text: str
    inputs: Inputs = binary


ANSWERS: Mapping[tuple[str, str], Answer] = {
    ("recbole", "hit"): Answer("recbole:hit@{k}"),
    ("recbole", "mrr"): Answer("recbole:mrr@{k}"),
    ("recbole", "map"): Answer("recbole:map@{k}"),
    ("recbole", "recall"): Answer("recbole:recall@{k}"),
    ("recbole", "ndcg"): Answer("recbole:ndcg@{k}"),
    ("recbole", "precision"): Answer("recbole:precision@{k}"),
}
