"""The list shown, in any of the forms that a record may have."""

from __future__ import annotations

from typing import Any, NamedTuple

from streameval.events import Id
from streameval.pipeline.fields import EventFields
from streameval.pipeline.ids import Ids
from streameval.pipeline.invalid import Refusal
from streameval.pipeline.lists import as_list, check_count, item_of
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
        if dict not in map(type, values):
            return Shown(self._ids.each(values, self._field), None)
        items = [self._one(value, f"{self._field}[{i}]") for i, value in enumerate(values)]
        scores = [self._score_of(value, f"{self._field}[{i}]") for i, value in enumerate(values)]
        known = [score for score in scores if score is not None]
        return Shown(items, known if len(known) == len(items) else None)

    def _one(self, value: Any, where: str) -> Id:
        return item_of(value, self._item, self._ids, where)

    def _score_of(self, value: Any, where: str) -> float | None:
        score = self._score.of(value) if type(value) is dict else None
        if score is None:
            return None
        return finite(score, f"{where}.{self._score.text}", "invalid_score")
