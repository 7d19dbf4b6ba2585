"""Lists inside a record, and their elements."""

from __future__ import annotations

from collections.abc import Sized
from typing import Any

from streameval.decoding.ids import Ids
from streameval.decoding.invalid import Reason, Refusal, shown
from streameval.decoding.paths import Path
from streameval.events import Id


def as_list(found: Any, field: str) -> list[Any]:
    """What was found, if it is an array.

    Raises:
        Refusal: it is absent or null, or something else.
    """
    if type(found) is list:
        return found
    if found is None:
        raise Refusal("missing_field", f"{field} is absent or null; write [] where nothing is")
    raise Refusal("wrong_type", f"{field}: found {shown(found)} in place of an array")


def check_count(values: Sized, most: int, field: str, reason: Reason) -> None:
    """Not more elements than allowed.

    Raises:
        Refusal: for the given reason.
    """
    if len(values) > most:
        raise Refusal(reason, f"{field} has {len(values)} elements; at most {most} are accepted")


def item_of(element: Any, path: Path, ids: Ids, where: str) -> Id:
    """The item of an element that is an object with an id, or the id itself.

    Raises:
        Refusal: it has none, or it is no id.
    """
    if type(element) is not dict:
        return ids.one(element, where)
    item = path.of(element)
    if item is None:
        raise Refusal("missing_field", f"{where}.{path.text} is absent or null")
    return ids.one(item, f"{where}.{path.text}")


def items_of(elements: list[Any], path: Path, ids: Ids, field: str) -> list[Id]:
    """The items of a list of ids or of objects.

    Raises:
        Refusal: one of them has none, or it is no id.
    """
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
