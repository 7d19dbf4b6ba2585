"""The list shown, in any of the forms that a record may have."""

from __future__ import annotations

from typing import Any, NamedTuple

from streameval.decoding.fields import EventFields
from streameval.decoding.ids import Ids
from streameval.decoding.lists import as_list, check_count, items_of
from streameval.decoding.numbers import finite
from streameval.decoding.paths import compile_path
from streameval.events import Id


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

    def __init__(self, fields: EventFields, field: str = "recommendations") -> None:
        self._field = str(getattr(fields, field))
        self._longest = fields.max_recommendations
        self._ids = Ids(fields.ids, fields.max_id_bytes)
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
        objects = [value for value in values if type(value) is dict]
        found = self._score.of_each(objects)
        if set(map(type, found)) == {float}:  # JSON has no others than finite ones
            return found if len(found) == len(values) else None
        scores = [self._score_of(value, place) for place, value in enumerate(values)]
        known = [score for score in scores if score is not None]
        return known if known and len(known) == len(values) else None

    def _score_of(self, value: Any, place: int) -> float | None:
        score = self._score.of(value) if type(value) is dict else None
        if score is None:
            return None
        return finite(score, f"{self._field}[{place}].{self._score.text}", "invalid_score")
