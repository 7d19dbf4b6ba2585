"""What the user did, in any of the forms that a record may have."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from streameval.decoding.fields import EventFields
from streameval.decoding.ids import Ids
from streameval.decoding.invalid import Refusal, check_bytes, shown
from streameval.decoding.lists import as_list, check_count, item_of
from streameval.decoding.numbers import finite
from streameval.decoding.paths import compile_path
from streameval.events import Id, Interaction, Interactions


class Outcome(NamedTuple):
    """What the user did.

    Attributes:
        items: ids, or id -> gain.
        typed: the interactions as they came; empty where they are ids or gains alone.
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

    def read(self, found: Any) -> Outcome:
        """What the user did.

        Raises:
            Refusal: it is none of the known forms.
        """
        if type(found) is dict:
            check_count(found, self._most, self._field, "too_many_interactions")
            return Outcome(self._gains(found), ())
        values = as_list(found, self._field)
        check_count(values, self._most, self._field, "too_many_interactions")
        if dict not in map(type, values):
            return Outcome(self._ids.each(values, self._field), ())
        typed = tuple(self._one(each, f"{self._field}[{i}]") for i, each in enumerate(values))
        return Outcome(_largest_gains((one.item, one.gain) for one in typed), typed)

    def _gains(self, found: dict[str, Any]) -> dict[Id, float]:
        return _largest_gains(
            (self._ids.one(key, self._field), finite(gain, f"{self._field}.{key}", "invalid_gain"))
            for key, gain in found.items()
        )

    def _one(self, value: Any, where: str) -> Interaction:
        item = item_of(value, self._item, self._ids, where)
        if type(value) is not dict:
            return Interaction(item)
        gain, kind = self._gain.of(value), self._type.of(value)
        if kind is not None and type(kind) is not str:
            raise Refusal("wrong_type", f"{where}.{self._type.text}: {shown(kind)} is no string")
        if kind is not None:
            check_bytes(kind, self._longest_type, f"{where}.{self._type.text}", "label_too_long")
        gain = 1.0 if gain is None else finite(gain, f"{where}.{self._gain.text}", "invalid_gain")
        return Interaction(item, gain, kind)


def _largest_gains(gains: Iterable[tuple[Id, float]]) -> dict[Id, float]:
    largest: dict[Id, float] = {}
    for item, gain in gains:
        largest[item] = max(gain, largest.get(item, gain))
    return largest
