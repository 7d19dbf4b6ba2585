"""A caller's columns of numpy, Arrow or tensors, as batches of events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any, Final

import msgspec
import numpy as np

from streameval.events import (
    LARGEST_GAIN,
    Batch,
    Combine,
    Interaction,
    combine_interactions,
)
from streameval.events.arrow import ArrowTable, flat_column, list_column, null_rows, table_columns
from streameval.events.batch import BoolArray, check_lengths, unequal_error
from streameval.events.errors import InvalidEventError
from streameval.events.gains import reduce_gains
from streameval.events.per_item import item_values
from streameval.events.ragged import (
    Array,
    GradedIds,
    IdColumn,
    Ragged,
    encode_columns,
    is_list,
    matrix_column,
    ragged_column,
    refuse_marks,
)
from streameval.events.rules import in_row, refuse_long

_OF_INTERACTION: Final = frozenset(Interaction.__struct_fields__)

_CPU: Final = 1
"""DLPack's device type of main memory."""


class Columns(msgspec.Struct, frozen=True, kw_only=True):
    """Many events as columns of numpy or Arrow, for `Accumulator.update_many`.

    Each column is one of: a matrix of shape (events, K); a pair (values, offsets), where event i
    has `values[offsets[i]:offsets[i + 1]]`; a list with one array per event; or an Arrow array of
    lists. Interactions may be a vector of one item per event. In every form, -1 and empty text
    are padding at the end of a list of ids, and an error anywhere else. Arrays are numpy arrays or
    tensors that support DLPack (PyTorch and others); tensors on a device are copied to main memory.
    Ids are 64-bit integers or strings. With recommendations, interactions and gains only, and
    metrics that read hits (without repeats=compact_... or type=) or items shown, counting creates
    no Python object per event.

    Attributes:
        recommendations: item ids as shown, rank 1 first.
        interactions: ids of the items interacted with.
        lengths: number of items in each row of a matrix of recommendations, shape (events,).
        gains: one number for each interaction.
        typed: the interactions with their types, for metrics with `type=`: for each event a list of
            `Interaction`, or of mappings or Arrow structs with item, type and gain (1 if absent).
        positions: rank (from 1) of each recommendation; a null row of Arrow means 1, 2, 3, ...
        scores: the recommender's score of each recommendation.
        per_item: name -> column of one number, word or None for each recommendation; of Arrow, a
            column of structs or maps of such lists; or a mapping for each event.
        shown_instead: the list shown instead of each; null if its recommendations were shown.
        users: user id of each event, for intervals and users_covered; null if unknown.
        times: event time of each event: timestamps, or integer microseconds since the epoch.
        combine: how to combine several gains of an item in one event: the largest, or the sum.

    Example:
        >>> from streameval import Accumulator
        >>> accumulator = Accumulator("recall@2")
        >>> recommendations = np.array([[1, 2, 3], [4, 5, -1]])
        >>> interactions = np.array([3, 4]), np.array([0, 1, 2])
        >>> accumulator.update_many(
        ...     Columns(recommendations=recommendations, interactions=interactions)
        ... )
        >>> accumulator.read("recall@2").value
        0.5
    """

    recommendations: Any
    interactions: Any
    lengths: Any = None
    gains: Any = None
    typed: Any = None
    positions: Any = None
    scores: Any = None
    per_item: Any = None
    shown_instead: Any = None
    users: Any = None
    times: Any = None
    combine: Combine = "max"


_COLUMNS: Final = tuple(name for name in Columns.__struct_fields__ if name != "combine")


def read_columns(columns: Columns | ArrowTable, *, may_be_marks: bool = True) -> Batch:
    """Columns, or an Arrow table of them, as a batch, with codes of ids.

    `may_be_marks`: whether interactions may be a 0 or 1 for each item by mistake, which is refused.

    Raises:
        InvalidEventError: a column is not valid.
    """
    if not isinstance(columns, Columns):
        columns = Columns(**table_columns(columns, _COLUMNS))
    columns = msgspec.structs.replace(
        columns, **{name: as_numpy(name, getattr(columns, name)) for name in _COLUMNS}
    )
    padded = _ids("recommendations", columns.recommendations, columns.lengths)
    targets = columns.interactions
    if isinstance(targets, np.ndarray) and targets.ndim == 1 and targets.dtype.kind in "iuUT":
        # One item for each list, such as the targets of a training batch; -1 is none.
        targets = targets[:, None]
    padded_interactions = _ids("interactions", targets)
    recommendations = padded.without_padding("recommendations")
    interactions = padded_interactions.without_padding("interactions")
    if len(recommendations) != len(interactions):
        raise unequal_error(len(recommendations), "interactions", len(interactions))
    if may_be_marks:
        refuse_marks(recommendations, interactions)
    pair: list[Any] = encode_columns([recommendations, interactions])
    hidden_losses = None
    if columns.gains is not None:
        pair[1], hidden_losses = _with_gains(columns, pair[1], padded_interactions.ragged)
    ragged = recommendations.ragged
    batch = Batch(
        recommendations=pair[0],
        interactions=pair[1],
        typed=_typed(columns.typed, columns.combine),
        positions=_per_item("positions", columns.positions, ragged, padded.ragged),
        scores=_per_item("scores", columns.scores, ragged, padded.ragged),
        per_item=_item_values(columns.per_item, ragged, padded.ragged),
        shown_instead=_some(_lists("shown_instead", columns.shown_instead)),
        users=_per_event("users", columns.users),
        times=_per_event("times", columns.times),
        hidden_losses=hidden_losses,
    )
    check_lengths(batch)
    return batch


def _ids(name: str, lists: Any, lengths: Any = None) -> IdColumn:
    column = _column(name, lists, lengths)
    refuse_long(name, column.ragged.lengths)
    kind = column.ragged.values.dtype
    if column.ragged.values.size and kind.kind not in "iuUTO":
        detail = f"{name}: {kind} is not a type of ids; give integers (int64) or strings"
        raise InvalidEventError("invalid_id", detail)
    return column


def _column(name: str, column: Any, lengths: Any = None, *, optional: bool = False) -> IdColumn:
    if isinstance(column, ArrowTable):
        column = list_column(name, column, optional=optional)
    if isinstance(column, np.ndarray) and column.ndim == 2:
        return IdColumn(matrix_column(name, column, lengths))
    if lengths is not None:
        detail = f"{name}: lengths= is only for a matrix; lists define their own lengths"
        raise InvalidEventError("wrong_type", detail)
    if isinstance(column, IdColumn):
        return column
    if isinstance(column, np.ndarray) and column.dtype.kind != "O":
        what = f"{column.dtype} of shape {column.shape}"
        detail = f"{name}: {what}; give a matrix of shape (events, K), or (values, offsets)"
        raise InvalidEventError("wrong_type", detail)
    return IdColumn(ragged_column(name, column))


def _per_event(name: str, column: Any) -> Sequence[Any] | None:
    """A column of one value per event; None if no event has a value."""
    if column is None:
        return None
    if not (is_list(column) or isinstance(column, ArrowTable)):
        detail = f"{name}: give one value for each event, found {column!r:.80}"
        raise InvalidEventError("wrong_type", detail)
    if isinstance(column, np.ndarray):
        values = column.tolist()
        if column.dtype.kind == "M":
            micro = column.astype("datetime64[us]").astype(np.int64).tolist()
            values = [None if no else at for no, at in zip(np.isnat(column), micro, strict=True)]
    else:
        values = flat_column(column) if isinstance(column, ArrowTable) else list(column)
    return _some(values)


def _some(column: Sequence[Any] | None) -> Sequence[Any] | None:
    """The column; None if no event has a value."""
    return column if any(value is not None for value in column or ()) else None


def _per_item(
    name: str, column: Any, items: Ragged, padded: Ragged
) -> list[list[Any] | None] | None:
    """A column with one number per item; a null row of Arrow becomes None.

    `padded`: the items with the padding at the end of their lists, which may have numbers too.
    """
    if column is None:
        return None
    numbers, has_value = _numbers_of_items(name, column, items, padded)
    if not has_value.any():
        return None
    return [
        row if has else None for row, has in zip(numbers.lists(), has_value.tolist(), strict=True)
    ]


def _numbers_of_items(
    name: str, column: Any, items: Ragged, padded: Ragged
) -> tuple[Ragged, BoolArray]:
    """One number for each item, and which rows have numbers; those without any are empty."""
    matrix = isinstance(column, np.ndarray) and column.ndim == 2
    numbers = _column(name, column, items.lengths if matrix else None, optional=True).ragged
    has_value = (
        ~null_rows(column) if isinstance(column, ArrowTable) else np.ones(len(numbers), np.bool_)
    )
    if len(numbers) == len(padded) and (numbers.lengths == padded.lengths)[has_value].all():
        numbers = numbers.prefixes(np.where(has_value, items.lengths, 0))
    unlike = len(numbers) != len(items) or (numbers.lengths != items.lengths)[has_value].any()
    if unlike or not _are_numbers(numbers.values):
        detail = f"{name}: give one number for each item, in lists of the same lengths"
        raise InvalidEventError(f"invalid_{name}", detail)
    return numbers, has_value


def _with_gains(
    columns: Columns, interactions: IdColumn, padded: Ragged
) -> tuple[Sequence[Any], list[bool] | None]:
    """Interactions with their gains, each item once; and which hide a loss, None if none does.

    Python objects, which a check refuses, if a gain is not a number up to 2^1000.
    """
    ragged = interactions.ragged
    numbers, has_value = _numbers_of_items("gains", columns.gains, ragged, padded)
    entries = ragged.spread(has_value)
    gains, valid = np.full(entries.size, np.nan), True
    try:
        gains[entries] = numbers.values.astype(np.float64)
        valid = bool((np.abs(gains[entries]) <= LARGEST_GAIN).all())
    except OverflowError:
        valid = False
    if not valid:
        pairs = zip(interactions, numbers.lists(), has_value.tolist(), strict=True)
        return [
            dict(zip(items, of_list, strict=True)) if has else items
            for items, of_list, has in pairs
        ], None
    # Of the entries of one item of a row, the first stays, with their gain.
    list_indices = ragged.spread(np.arange(len(ragged)))
    order = np.lexsort((ragged.values, list_indices))
    alike = (np.diff(list_indices[order]) == 0) & (np.diff(ragged.values[order]) == 0)
    again = alike & entries[order][1:]
    if not again.any():
        return GradedIds(ragged, interactions.names, gains), None
    groups = np.empty_like(order)
    groups[order] = np.append(0, np.cumsum(~again))
    first, combined, hides_loss = reduce_gains(groups, gains, columns.combine)
    gains[first] = combined
    hidden_losses = np.zeros(len(ragged), np.bool_)
    hidden_losses[list_indices[first[hides_loss]]] = True
    stay = np.sort(first)
    lengths = np.bincount(list_indices[stay], minlength=len(ragged))
    once = Ragged.of_lengths(ragged.values[stay], lengths)
    return (
        GradedIds(once, interactions.names, gains[stay]),
        hidden_losses.tolist() if hidden_losses.any() else None,
    )


def _typed(column: Any, how: Combine) -> Sequence[Any] | None:
    """Interactions with types, of one item and type together; None if no event has any."""
    if column is None:
        return None
    rows = flat_column(column) if isinstance(column, ArrowTable) else list(column)
    if not any(len(row) if is_list(row) else row for row in rows):
        return None
    typed: list[Any] = [
        [_interaction(entry) for entry in row] if is_list(row) else () if row is None else row
        for row in rows
    ]
    # The largest of each type is found where it is counted; what is none is checked elsewhere.
    if how == "sum" and all(
        isinstance(interaction, Interaction) for row in typed for interaction in row
    ):
        return [combine_interactions(row, how)[1] for row in typed]
    return typed


def _interaction(entry: Any) -> Any:
    """An interaction from a mapping; anything else is checked elsewhere."""
    if not isinstance(entry, Mapping) or not {"item", "type"} <= entry.keys() <= _OF_INTERACTION:
        return entry
    gain = entry.get("gain")
    return Interaction(entry["item"], 1.0 if gain is None else gain, entry["type"])


def _are_numbers(values: Array) -> bool:
    if values.dtype.kind != "O":
        return not values.size or values.dtype.kind in "iuf"
    # Whole numbers beside others, or beyond 64 bits, stay Python's.
    return all(isinstance(value, Real) and not isinstance(value, bool) for value in values)


def _item_values(entries: Any, items: Ragged, padded: Ragged) -> Sequence[Any] | None:
    """Values by name for each event; None if no event has any."""
    if entries is None:
        return None
    if isinstance(entries, Mapping):
        columns = {name: _lists(name, column) for name, column in entries.items()}
        lists = {name: column for name, column in columns.items() if column is not None}
        for name, column in lists.items():
            if len(column) != len(items):
                raise unequal_error(len(items), name, len(column))
        entries = [
            {name: column[row] for name, column in lists.items()} for row in range(len(items))
        ]
    rows = flat_column(entries) if isinstance(entries, ArrowTable) else list(entries)
    if len(rows) != len(items):
        raise unequal_error(len(items), "per_item", len(rows))
    values = []
    lengths = zip(items.lengths.tolist(), padded.lengths.tolist(), strict=True)
    for row, (row_values, sizes) in enumerate(zip(rows, lengths, strict=True)):
        try:
            # Arrow gives a map as pairs.
            values.append(
                item_values(
                    dict(row_values) if isinstance(row_values, list) else row_values, *sizes
                )
            )
        except InvalidEventError as error:
            raise in_row(row, len(rows), error) from None
    return _some(values)


def _lists(name: str, entries: Any) -> Sequence[Any] | None:
    """A column of lists, whose entries may be None, as Python lists; None without a column."""
    if entries is None:
        return None
    column = as_numpy(name, entries)
    if isinstance(column, ArrowTable):
        return flat_column(column)
    if isinstance(column, np.ndarray) and column.ndim == 2:
        return list(column.tolist())
    if isinstance(column, tuple | Ragged):
        return ragged_column(name, column).lists()
    if isinstance(column, np.ndarray):
        return list(column)
    if not isinstance(column, list):
        detail = f"{name}: give a list of values for each event, found {entries!r:.80}"
        raise InvalidEventError("wrong_type", detail)
    return column


def as_numpy(name: str, column: Any) -> Any:
    """A column with every tensor (PyTorch, JAX, CuPy, ...) converted to a numpy array.

    Tensors in a list or tuple are converted too. They are read through DLPack, so their libraries
    are not imported. Tensors in main memory are not copied. A tensor on a device is copied by its
    `cpu()`, which waits until it is computed. Gradients are dropped.
    """
    if isinstance(column, tuple) and hasattr(column, "indices") and hasattr(column, "values"):
        detail = f"{name}: {type(column).__name__} has scores and ids; give its .indices"
        raise InvalidEventError("wrong_type", detail)
    if hasattr(column, "to_numpy") and not isinstance(column, ArrowTable):
        # A series of pandas before 3.
        return column.to_numpy()
    if isinstance(column, (list, tuple)) and any(map(_is_foreign, column)):
        arrays = [_array(name, array) if _is_foreign(array) else array for array in column]
        return tuple(arrays) if isinstance(column, tuple) else arrays
    return _array(name, column) if _is_foreign(column) else column


def _is_foreign(column: Any) -> bool:
    arrow = hasattr(column, "__arrow_c_array__")
    return hasattr(column, "__dlpack_device__") and not (arrow or isinstance(column, np.ndarray))


def _array(name: str, tensor: Any) -> Array:
    if getattr(tensor, "requires_grad", False):
        tensor = tensor.detach()
    try:
        if tensor.__dlpack_device__()[0] != _CPU:
            tensor = tensor.cpu()
        from_tensor: Array = np.from_dlpack(tensor)
    except (AttributeError, BufferError, RuntimeError, TypeError, ValueError) as error:
        kind = f"{getattr(tensor, 'dtype', 'unknown')} of shape {tuple(tensor.shape)}"
        why = " ".join(str(error).split()) or type(error).__name__
        remedy = "give it dense, on the CPU, ids as int64 and numbers as float32"
        detail = f"{name}: {kind} cannot become a numpy array ({why:.120}); {remedy}"
        raise InvalidEventError("wrong_type", detail) from error
    return from_tensor
