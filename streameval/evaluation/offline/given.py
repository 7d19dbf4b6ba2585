"""What a caller gives in Python - paths, frames, mappings, lists, scores - as a request."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from streameval.accumulator.intake import side_by_side
from streameval.evaluation.offline.request import AlignedEvents, expand_paths
from streameval.evaluation.offline.scores import ScoredUsers, are_scores
from streameval.evaluation.tables.files import FileTable, arrow
from streameval.events import Batch, Event
from streameval.events.arrow import ArrowTable, as_table
from streameval.events.columns import Columns
from streameval.events.errors import SourceError, UsageError

_TRUTH: Final = "truth"
_SINGULAR: Final = {"gains": "gain", "ratings": "rating", "scores": "score", "ranks": "rank"}
"""Columns of lists in a wide frame -> what a row of a long one calls them."""

_FORMS: Final = (
    "a path, a frame, a mapping of users, a list for each user, or a matrix of scores with truth="
)


class AlignedLists(NamedTuple):
    """Events as `Accumulator.update_many` takes them.

    Attributes:
        batch: events, or the recommendations of each list.
        truth: the interactions of each list; None if the batch has them.
    """

    batch: Any
    truth: Any = None

    def columns(self, _: int | None, *, scores: bool) -> Iterator[Any]:
        """All events at once; lists of recommendations belong to the users 0, 1, 2, ..."""
        del scores
        if self.truth is None:
            yield self.batch
            return
        events = side_by_side(self.batch, self.truth)
        if not isinstance(events, Columns):
            shown, acts = zip(*events, strict=True) if events else ((), ())
            yield Batch(
                recommendations=list(shown),
                interactions=list(acts),
                users=list(range(len(events))),
            )
            return
        yield events


def fields_of(recommendations: Any, truth: Any, exclude: Any) -> dict[str, Any]:
    """The fields of a Request for what was given.

    Raises:
        UsageError: it has none of the forms that can be evaluated.
    """
    if are_scores(recommendations):
        return {"aligned": ScoredUsers(recommendations, truth, exclude)}
    if exclude is not None:
        raise UsageError("exclude= is for a matrix of scores: leave seen items out of the lists.")
    if truth is None:
        return _events(recommendations)
    if _are_lists(recommendations):
        return {"aligned": AlignedLists(recommendations, truth)}
    return {
        "recommendations": source_of("recommendations", recommendations),
        "truth": source_of(_TRUTH, truth),
    }


def _events(given: Any) -> dict[str, Any]:
    """The fields for events that have their interactions."""
    if isinstance(given, Batch | Columns):
        return {"aligned": AlignedLists(given)}
    if is_path(given):
        return {"paths": expand_paths([os.fspath(given)])}
    if is_frame(given):
        return {"paths": [_frame("the frame", given)]}
    if isinstance(given, Mapping):
        raise UsageError("give truth=, the interactions of each user of the recommendations.")
    if not isinstance(given, Iterable):
        raise UsageError(f"found {given!r:.80}; give {_FORMS}.")
    rows = list(given)
    if rows and all(map(is_path, rows)):
        return {"paths": expand_paths(map(os.fspath, rows))}
    if all(isinstance(row, Event) or (isinstance(row, tuple) and len(row) == 2) for row in rows):
        return {"aligned": AlignedLists(rows)}
    raise UsageError(
        "give truth=, the interactions of each list; without it, events are a path, a frame with "
        "recommendations and interactions, or pairs of them."
    )


def model_of(recommendations: Any, truth: Any, exclude: Any) -> str | FileTable | AlignedEvents:
    """The recommendations of one of several models that share a truth."""
    if are_scores(recommendations):
        return ScoredUsers(recommendations, truth, exclude)
    if _are_lists(recommendations):
        return AlignedLists(recommendations, truth)
    return source_of("recommendations", recommendations)


def is_path(given: object) -> bool:
    """Whether it names files."""
    return isinstance(given, str | os.PathLike)


def is_frame(given: Any) -> bool:
    """Whether it is a table with columns, of any library; a lazy one is refused later."""
    if isinstance(given, Columns | Batch) or hasattr(given, "dtype"):
        return False
    return hasattr(given, "collect_schema") or hasattr(given, "columns") or _is_arrow(given)


def _is_arrow(given: Any) -> bool:
    return isinstance(given, ArrowTable) and hasattr(given, "schema")


def _are_lists(given: Any) -> bool:
    """Whether it is a list of items for each user, one after the other."""
    if isinstance(given, Mapping | str | os.PathLike) or is_frame(given) or _mapping(given):
        return False
    if isinstance(given, Sequence) and not isinstance(given, tuple):
        return not given or not hasattr(given[0], "_fields")
    return hasattr(given, "dtype") or hasattr(given, "__arrow_c_stream__") or _is_ragged(given)


def _is_ragged(given: Any) -> bool:
    return isinstance(given, tuple) and len(given) == 2 and hasattr(given[0], "dtype")


def _mapping(given: Any) -> Mapping[Any, Any] | None:
    """A mapping of users, also of ranx' Run and Qrels; None for anything else."""
    if isinstance(given, Mapping):
        return given
    # Run and Qrels hold a mapping of Numba's, and have a method that gives one of Python's.
    to_dict = getattr(given, "to_dict", None)
    if to_dict is None or is_frame(given) or hasattr(given, "dtype"):
        return None
    mapping = to_dict()
    return mapping if isinstance(mapping, Mapping) else None


def source_of(name: str, given: Any) -> str | FileTable:
    """Recommendations or truth as a path or a table of rows."""
    if is_path(given):
        return os.fspath(given)  # type: ignore[no-any-return]  # a text, as the check tells
    if is_frame(given):
        return _exploded(name, _frame(name, given))
    by_user = _mapping(given)
    if by_user is not None:
        return _of_mapping(name, by_user)
    if isinstance(given, Iterable):
        rows = list(given)
        if rows and hasattr(rows[0], "_fields"):
            return _of_tuples(name, rows)
        if name == _TRUTH:
            return _of_mapping(name, dict(enumerate(rows)))
    raise UsageError(f"{name}: found {given!r:.80}; give {_FORMS}.")


def _frame(name: str, given: Any) -> FileTable:
    table = as_table(given)
    return FileTable(name, table, table.column_names, None)


def _of_columns(
    name: str, columns: Mapping[str, Sequence[Any]], idle: Sequence[Any] = ()
) -> FileTable:
    """A table of columns with the usual names; `idle`: users without a row."""
    try:
        table = arrow().table({each: arrow().array(column) for each, column in columns.items()})
        without_rows = arrow().table({"user": arrow().array(idle)}) if idle else None
    except (arrow().ArrowInvalid, arrow().ArrowTypeError, OverflowError) as error:
        why = " ".join(str(error).split())
        remedy = "give ids that are all text or all integers, and numbers as scores"
        raise SourceError(name, why, remedy) from error
    return FileTable(name, table, table.column_names, None, idle=without_rows)


def _of_mapping(name: str, given: Mapping[Any, Any]) -> FileTable:
    """Rows of user -> {item: number}, or user -> items."""
    users: list[Any] = []
    items: list[Any] = []
    numbers: list[Any] = []
    idle = []
    for user, listed in given.items():
        entries = _entries(name, user, listed)
        if isinstance(listed, Mapping):
            numbers.extend(listed.values())
        users.extend([user] * len(entries))
        items.extend(entries)
        if not entries:
            idle.append(user)
    if numbers and len(numbers) != len(items):
        raise UsageError(f"{name}: some users have numbers and others only items; give one form.")
    worth = {"rating" if name == _TRUTH else "score": numbers} if numbers else {}
    return _of_columns(name, {"user": users, "item": items, **worth}, idle)


def _entries(name: str, user: object, listed: Any) -> list[Any]:
    """The items of a user."""
    if isinstance(listed, str) or not isinstance(listed, Iterable):
        raise UsageError(
            f"{name}: user {user!r} has {listed!r:.80}; give items, or item -> number."
        )
    if isinstance(listed, set | frozenset) and name != _TRUTH:
        raise UsageError(f"{name}: user {user!r} has a set, which has no order; give a list.")
    return listed.tolist() if hasattr(listed, "tolist") else list(listed)


def _of_tuples(name: str, rows: Sequence[Any]) -> FileTable:
    """Rows of named tuples, as ir_measures has them: (query_id, doc_id, score | relevance)."""
    fields: Sequence[str] = rows[0]._fields
    return _of_columns(name, dict(zip(fields, zip(*rows, strict=True), strict=True)))


def _exploded(name: str, frame: FileTable) -> FileTable:
    """The rows of a wide frame, which has a row for each user with lists of items and numbers.

    A frame without lists is returned unchanged.
    """
    types, compute = arrow().types, arrow("compute")
    kinds = (types.is_list, types.is_large_list, types.is_fixed_size_list)
    wide = [field.name for field in frame.content.schema if any(is_(field.type) for is_ in kinds)]
    if not wide:
        return frame
    whole = "interactions" if name == _TRUTH else "recommendations"
    main = next((candidate for candidate in (whole, "items", "item") if candidate in wide), wide[0])
    columns = {each: frame.content[each].combine_chunks() for each in frame.names}
    lengths = compute.fill_null(compute.list_value_length(columns[main]), 0).to_numpy()
    owners = arrow().array(np.repeat(np.arange(len(lengths)), lengths))
    scalars = {each: columns[each] for each in frame.names if each not in wide}
    if not scalars:
        scalars = {"user": arrow().array(np.arange(len(lengths)))}
    long = {each: values.take(owners) for each, values in scalars.items()}
    for each in wide:
        long[_SINGULAR.get(each, each) if each != main else "item"] = flat = compute.list_flatten(
            columns[each]
        )
        if len(flat) != len(owners):
            raise UsageError(f"{name}: lists of {each!r} are not as long as those of {main!r}.")
    table = arrow().table(long)
    idle = arrow().table(scalars).filter(arrow().array(lengths == 0))
    return FileTable(name, table, table.column_names, None, idle=idle if len(idle) else None)
