"""The plain form of a record, compiled so that one call into C decodes and checks it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta

from streameval.events import LARGEST_GAIN
from streameval.pipeline.fields import EventFields
from streameval.pipeline.labels import MISSING_LABEL
from streameval.pipeline.numbers import MAX_POSITION
from streameval.pipeline.paths import is_plain
from streameval.pipeline.times import KINDS

Form: TypeAlias = Literal["strings", "integers"]
"""How the ids of a list shown are written."""

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
    one = str if form == "strings" else int
    required = {
        "recommendations": _ids(one, fields.max_recommendations),
        "interactions": _interactions(fields, form),
        "time": KINDS[fields.time_unit] if fields.time_unit else None,
        "event_id": str | int if fields.event_id else None,
        "positions": _RANKS if fields.positions else None,
        "scores": list[float] if fields.scores else None,
        "baseline": _ids(one, fields.max_recommendations) if fields.baseline else None,
    }
    # Integers are turned into text once per distinct value, where rows are grouped.
    slots = [(slot, str | int | None, MISSING_LABEL) for slot in dimension_slots(dimensions)]
    mapped = [(name, kind) for name, kind in required.items() if kind is not None]
    return [*mapped, ("user", str | int | None, None), *slots]


def _ids(kind: Any, longest: int) -> Any:
    return Annotated[list[kind], Meta(max_length=longest)]


def _interactions(fields: EventFields, form: Form) -> Any:
    most = fields.max_interactions
    if fields.ids == "integer":
        return _ids(int, most)  # keys of JSON objects are text
    gain = Annotated[float, Meta(ge=-LARGEST_GAIN, le=LARGEST_GAIN)]
    gains = Annotated[dict[str, gain], Meta(max_length=most)]
    return _ids(str if form == "strings" else str | int, most) | gains
