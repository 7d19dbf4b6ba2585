"""The list shown, in any of the forms that a record may have."""

from __future__ import annotations

from typing import Any, NamedTuple

from streameval.events import Id
from streameval.pipeline.fields import EventFields
from streameval.pipeline.ids import Ids
from streameval.pipeline.lists import as_list, check_count, items_of
from streameval.pipeline.numbers import finite
from streameval.pipeline.paths import compile_path


class Shown(NamedTuple):
    """The list shown.

    Attributes:
        items: ids, rank 1 first.
        scores: one score per item; None unless every item has one.
    """

    items: list[Id]
    scores: list[float] | None


class RecommendationReader:
    """Reads recommendations: ids, or objects with an id and, optionally, a score."""

    def __init__(self, fields: EventFields) -> None:
        self._field = fields.recommendations
        self._longest = fields.max_recommendations
        self._ids = Ids(fields.ids)
        self._item = compile_path(fields.item, "item")
        self._score = compile_path(fields.score, "score")

    def read(self, found: Any) -> Shown:
        """The list shown.

        Raises:
            Refusal: it is none.
        """
        values = as_list(found, self._field)
        check_count(values, self._longest, self._field, "too_many_recommendations")
        items = items_of(values, self._item, self._ids, self._field)
        return Shown(items, self._scores(values))

    def _scores(self, values: list[Any]) -> list[float] | None:
        if dict not in set(map(type, values)):
            return None
        found = [self._score.of(each) if type(each) is dict else None for each in values]
        scores = [
            self._finite(score, place) for place, score in enumerate(found) if score is not None
        ]
        return scores if len(scores) == len(found) else None

    def _finite(self, score: object, place: int) -> float:
        if type(score) is float:
            return score  # JSON has no others than finite ones
        return finite(score, f"{self._field}[{place}].{self._score.text}", "invalid_score")
