"""The plain form of a record, compiled so that one call into C decodes and checks it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta

from streameval.decoding.fields import EventFields
from streameval.decoding.paths import is_plain
from streameval.decoding.times import KINDS
from streameval.decoding.values import MAX_POSITION
from streameval.events import LARGEST_GAIN

Form: TypeAlias = Literal["strings", "integers"]
"""How the ids of a list shown are written."""

INTEGER = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
"""Longer ones are weighed by the general decoder."""

_RANKS = list[Annotated[int, Meta(ge=1, le=MAX_POSITION)]]


def dimension_slots(dimensions: Sequence[str]) -> tuple[str, ...]:
    """Names of a row's attributes that hold the dimensions, in their order."""
    return tuple(f"dimension_{number}" for number in range(len(dimensions)))


def forms(fields: EventFields) -> tuple[Form, ...]:
    """The forms worth trying, the most usual first."""
    return ("strings", "integers") if fields.ids == "string" else ("integers",)


def compile_row(
    fields: EventFields,
    dimensions: Sequence[str],
    form: Form,
    *,
    shown_only: bool = False,
) -> type[msgspec.Struct] | None:
    """A Struct of exactly what the configured fields need, in the kinds of one form.

    Attributes of its instances: recommendations, user, dimension_0, ..., interactions unless only
    what was shown is read, and, where mapped, time, event_id, positions, scores and baseline.
    None where a path leads into an object or two fields share a path: such records are read by
    the general decoder.
    """
    paths = _paths(fields, dimensions)
    kinds = _kinds(fields, dimensions, form)
    if shown_only:
        kinds = [kind for kind in kinds if kind[0] != "interactions"]
        del paths["interactions"]
    if len(set(paths.values())) < len(paths) or not all(map(is_plain, paths.values())):
        return None
    return msgspec.defstruct("Row", kinds, rename=paths, gc=False, frozen=True)


def _paths(fields: EventFields, dimensions: Sequence[str]) -> dict[str, str]:
    mapped = {
        "recommendations": fields.recommendations,
        "interactions": fields.interactions,
        "time": fields.time,
        "event_id": fields.event_id,
        "positions": fields.positions,
        "scores": fields.scores,
        "baseline": fields.baseline,
        "user": fields.user,
    }
    named = zip(dimension_slots(dimensions), dimensions, strict=True)
    slots = {slot: fields.labels.get(name, name) for slot, name in named}
    return {name: path for name, path in (mapped | slots).items() if path is not None}


def _kinds(fields: EventFields, dimensions: Sequence[str], form: Form) -> list[tuple[Any, ...]]:
    text, one = short_text(fields.max_id_bytes), _id(fields, form)
    required = {
        "recommendations": _ids(one, fields.max_recommendations),
        "interactions": _interactions(fields, form),
        "time": KINDS[fields.time_unit] if fields.time_unit else None,
        "event_id": text | INTEGER if fields.event_id else None,
        "scores": list[float] if fields.scores else None,
        "baseline": _ids(one, fields.max_recommendations) if fields.baseline else None,
    }
    # Integers are turned into text once per distinct value, where rows are grouped.
    label = short_text(fields.max_label_bytes) | INTEGER | None
    slots = [(slot, label, None) for slot in dimension_slots(dimensions)]
    mapped = [(name, kind) for name, kind in required.items() if kind is not None]
    ranks = [("positions", _RANKS | None, None)] if fields.positions else []
    return [*mapped, *ranks, ("user", text | INTEGER | None, None), *slots]


def short_text(most: int) -> Any:
    """Text of at most so many bytes, and more only where the general decoder looks closer.

    A character has up to four bytes, and msgspec counts characters.
    """
    return Annotated[str, Meta(max_length=most // 4)]


def _id(fields: EventFields, form: Form) -> Any:
    return short_text(fields.max_id_bytes) if form == "strings" else INTEGER


def _ids(kind: Any, longest: int) -> Any:
    return Annotated[list[kind], Meta(max_length=longest)]


def _interactions(fields: EventFields, form: Form) -> Any:
    most = fields.max_interactions
    if fields.ids == "integer":
        return _ids(INTEGER, most)  # keys of JSON objects are text
    gain = Annotated[float, Meta(ge=-LARGEST_GAIN, le=LARGEST_GAIN)]
    text: Any = short_text(fields.max_id_bytes)
    gains = Annotated[dict[text, gain], Meta(max_length=most)]
    return _ids(text if form == "strings" else text | INTEGER, most) | gains
