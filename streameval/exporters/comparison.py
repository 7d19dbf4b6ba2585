"""Which variant the others are compared with, and by how much they differ from it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from streameval.pipeline.snapshot import Series, SeriesFamily, Snapshot

USUAL = ("control", "baseline")
"""Values that name what the others are compared with, the first that is there."""


class Comparison(NamedTuple):
    """What is compared with what.

    Attributes:
        label: the label by whose values: "variant" where there is one, else the first.
        control: its value that the others are compared with: "control", else "baseline", else the
            first in alphabetical order.
    """

    label: str
    control: str


def comparison(snapshot: Snapshot) -> Comparison | None:
    """What is compared in a snapshot; None where there are not two values to compare.

    `__other__` is none: what was folded is nobody's control.
    """
    names = snapshot.label_names
    if not names:
        return None
    label = "variant" if "variant" in names else names[0]
    place = names.index(label)
    found = {entry.labels[place] for entry in snapshot.series if entry.family == 0}
    values = sorted(found - {"__other__"})
    if len(found) < 2 or not values:
        return None
    return Comparison(label, next((each for each in USUAL if each in found), values[0]))


def differences(snapshot: Snapshot) -> list[float | None]:
    """For each series its value less that of the control with the same other labels.

    None where either has no value, where there is no control, and for the control itself.
    """
    compared = comparison(snapshot)
    if compared is None:
        return [None] * len(snapshot.series)
    families = snapshot.families
    places = [_place(family, compared.label) for family in families]
    controls = {
        _rest(entry, places[entry.family]): entry
        for entry in snapshot.series
        if _is(entry, places[entry.family], compared.control)
    }
    found: list[float | None] = []
    for entry in snapshot.series:
        place = places[entry.family]
        control = None if place is None else controls.get(_rest(entry, place))
        found.append(_difference(entry, control))
    return found


def _place(family: SeriesFamily, label: str) -> int | None:
    return family.label_names.index(label) if label in family.label_names else None


def _is(entry: Series, place: int | None, control: str) -> bool:
    return place is not None and entry.labels[place] == control


def _rest(entry: Series, place: int | None) -> tuple[object, ...]:
    labels: Sequence[str] = entry.labels
    others = tuple(value for index, value in enumerate(labels) if index != place)
    return entry.family, entry.metric.text, entry.window, others


def _difference(entry: Series, control: Series | None) -> float | None:
    if control is None or control is entry:
        return None
    if not (entry.reading.defined and control.reading.defined):
        return None
    return entry.reading.value - control.reading.value
