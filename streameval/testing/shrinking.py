"""The smallest events on which something still fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from streameval.events import Event, Interactions

_MOST_TRIES = 2_000


def smallest(events: Sequence[Event], fails: Callable[[Sequence[Event]], bool]) -> list[Event]:
    """Fewer and simpler events on which it fails as well: none of them can be left out.

    Args:
        events: it fails on these.
        fails: says so of others.
    """
    found, tries = list(events), 0
    steps = _simpler(found)
    while tries < _MOST_TRIES and (candidate := next(steps, None)) is not None:
        tries += 1
        if fails(candidate):
            found, steps = candidate, _simpler(candidate)
    return found


def _simpler(events: list[Event]) -> Iterator[list[Event]]:
    size = len(events)
    while size:
        for start in range(0, len(events), size):
            yield events[:start] + events[start + size :]
        size //= 2
    for row, event in enumerate(events):
        for plainer in _plainer(event):
            yield [*events[:row], plainer, *events[row + 1 :]]


def _plainer(event: Event) -> Iterator[Event]:
    for name in ("scores", "baseline", "positions", "typed", "history", "user"):
        nothing = () if name == "typed" else None
        if getattr(event, name) != nothing:
            yield replace(event, **{name: nothing})
    if isinstance(event.interactions, dict):
        yield replace(event, interactions=list(event.interactions))
    for row in range(len(event.recommendations)):
        yield _without_item(event, row)
    for row in range(len(event.interactions)):
        yield replace(event, interactions=_without(event.interactions, row))


def _without_item(event: Event, row: int) -> Event:
    columns: dict[str, Any] = {"recommendations": _but(event.recommendations, row)}
    for name in ("positions", "scores"):
        column = getattr(event, name)
        columns[name] = None if column is None else _but(column, row)
    return replace(event, **columns)


def _without(acts: Interactions, row: int) -> Interactions:
    if isinstance(acts, dict):
        return {item: gain for place, (item, gain) in enumerate(acts.items()) if place != row}
    return _but(list(acts), row)


def _but(column: Sequence[Any], row: int) -> list[Any]:
    return [*column[:row], *column[row + 1 :]]
