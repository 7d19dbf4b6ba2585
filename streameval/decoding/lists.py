"""Reads the lists of a record: recommendations, and interactions with their gains and types.

Every function raises `Refusal` for a value that is not accepted.
"""

from __future__ import annotations

from collections.abc import Sized
from typing import Any, NamedTuple

from streameval.decoding.fields import EventFields
from streameval.decoding.invalid import Reason, Refusal, excerpt
from streameval.decoding.paths import Path, compile_path
from streameval.decoding.values import Ids, as_list, check_bytes, finite
from streameval.events import Id, Interaction, Interactions, largest_gains


def check_count(values: Sized, most: int, field: str, reason: Reason) -> None:
    """Refuse more than `most` elements."""
    if len(values) > most:
        raise Refusal(reason, f"{field} has {len(values)} elements; at most {most} are accepted")


def item_of(element: Any, path: Path, ids: Ids, where: str) -> Id:
    """The item id of an element: an id, or an object with an id."""
    if type(element) is not dict:
        return ids.one(element, where)
    item = path.of(element)
    if item is None:
        raise Refusal("missing_field", f"{where}.{path.text} is absent or null")
    return ids.one(item, f"{where}.{path.text}")


def items_of(elements: list[Any], path: Path, ids: Ids, field: str) -> list[Id]:
    """The item ids of a list of ids or objects."""
    kinds = set(map(type, elements))
    if dict not in kinds:
        return ids.each(elements, field)
    if len(kinds) > 1:
        return [item_of(each, path, ids, f"{field}[{i}]") for i, each in enumerate(elements)]
    found = path.of_each(elements)
    if None in found:
        where = f"{field}[{found.index(None)}].{path.text}"
        raise Refusal("missing_field", f"{where} is absent or null")
    return ids.each(found, field)


class Recommended(NamedTuple):
    """The list shown."""

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

    def read(self, found: Any) -> Recommended:
        """Read the list shown."""
        values = as_list(found, self._field)
        check_count(values, self._longest, self._field, "too_many_recommendations")
        items = items_of(values, self._item, self._ids, self._field)
        return Recommended(items, self._scores(values))

    def _scores(self, values: list[Any]) -> list[float] | None:
        objects = [value for value in values if type(value) is dict]
        found = self._score.of_each(objects)
        if set(map(type, found)) == {float}:  # JSON numbers are finite
            return found if len(found) == len(values) else None
        scores = [self._score_of(value, place) for place, value in enumerate(values)]
        known = [score for score in scores if score is not None]
        return known if known and len(known) == len(values) else None

    def _score_of(self, value: Any, place: int) -> float | None:
        score = self._score.of(value) if type(value) is dict else None
        if score is None:
            return None
        return finite(score, f"{self._field}[{place}].{self._score.text}", "invalid_score")


class Engagement(NamedTuple):
    """The interactions of a record.

    Attributes:
        items: ids, or id -> gain.
        typed: the interactions in record order; empty if the record has ids or gains only.
    """

    items: Interactions
    typed: tuple[Interaction, ...]


class InteractionReader:
    """Reads interactions: ids, id -> gain, or objects with an id, a gain and a type."""

    def __init__(self, fields: EventFields) -> None:
        self._field = fields.interactions
        self._most = fields.max_interactions
        self._ids = Ids(fields.ids, fields.max_id_bytes)
        self._longest_type = fields.max_label_bytes
        self._item = compile_path(fields.interaction_item, "interaction_item")
        self._gain = compile_path(fields.gain, "gain")
        self._type = compile_path(fields.type, "type")

    def read(self, found: Any) -> Engagement:
        """Read the interactions."""
        if type(found) is dict:
            check_count(found, self._most, self._field, "too_many_interactions")
            return Engagement(self._gains(found), ())
        values = as_list(found, self._field)
        check_count(values, self._most, self._field, "too_many_interactions")
        if dict not in map(type, values):
            return Engagement(self._ids.each(values, self._field), ())
        typed = tuple(self._one(each, f"{self._field}[{i}]") for i, each in enumerate(values))
        return Engagement(largest_gains((one.item, one.gain) for one in typed), typed)

    def _gains(self, found: dict[str, Any]) -> dict[Id, float]:
        return largest_gains(
            (self._ids.one(key, self._field), finite(gain, f"{self._field}.{key}", "invalid_gain"))
            for key, gain in found.items()
        )

    def _one(self, value: Any, where: str) -> Interaction:
        item = item_of(value, self._item, self._ids, where)
        if type(value) is not dict:
            return Interaction(item)
        gain, kind = self._gain.of(value), self._type.of(value)
        if kind is not None:
            field = f"{where}.{self._type.text}"
            if type(kind) is not str:
                raise Refusal("wrong_type", f"{field}: {excerpt(kind)} is not a string")
            check_bytes(kind, self._longest_type, field, "label_too_long")
        gain = 1.0 if gain is None else finite(gain, f"{where}.{self._gain.text}", "invalid_gain")
        return Interaction(item, gain, kind)
