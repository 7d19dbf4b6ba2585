"""A caller's columns of numpy, Arrow or tensors, as batches of events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
import numpy as np

from streameval.errors import InvalidEventError
from streameval.events import Batch, Id, Interactions, largest_gains
from streameval.events.arrow import ArrowTable, flat_column, list_column, null_rows, table_columns
from streameval.events.per_item import item_values
from streameval.events.ragged import (
    Array,
    IdColumn,
    Ragged,
    encoded,
    is_list,
    matrix_column,
    ragged_column,
    refuse_marks,
)
from streameval.events.rules import in_row

_CPU: Final = 1
"""DLPack's device type of main memory."""


class Columns(msgspec.Struct, frozen=True, kw_only=True):
    """Many events as columns of numpy or Arrow, for `Accumulator.update_many`.

    Each column is one of: a matrix of shape (events, K); a pair (values, offsets), where event i
    has `values[offsets[i]:offsets[i + 1]]`; a list with one array per event; or an Arrow array of
    lists. Interactions may be a vector of one item per event. In every form, -1 and empty text
    are padding at the end of a list of ids, and an error anywhere else. Arrays are numpy arrays or
    tensors that support DLPack (PyTorch and others); tensors on a device are copied to main memory.
    Ids are 64-bit integers or strings. With recommendations and interactions only, and metrics
    that read hits (without repeats=compact_... or type=) or items shown, counting creates no Python
    object per event.

    Attributes:
        recommendations: item ids as shown, rank 1 first.
        interactions: ids of the items interacted with.
        lengths: number of items in each row of a matrix of recommendations, shape (events,).
        gains: one number for each interaction; the largest gain of an item counts.
        positions: rank (from 1) of each recommendation; a null row of Arrow means 1, 2, 3, ...
        scores: the recommender's score of each recommendation.
        per_item: name -> column of one number, word or None for each recommendation; of Arrow, a
            column of structs or maps of such lists; or a mapping for each event.
        users: user id of each event, for intervals and users_covered; null if unknown.
        times: event time of each event: timestamps, or integer microseconds since the epoch.

    Example:
        >>> from streameval import Accumulator
        >>> accumulator = Accumulator("recall@2")
        >>> shown = np.array([[1, 2, 3], [4, 5, -1]])
        >>> acts = np.array([3, 4]), np.array([0, 1, 2])
        >>> accumulator.update_many(Columns(recommendations=shown, interactions=acts))
        >>> accumulator.read("recall@2").value
        0.5
    """

    recommendations: Any
    interactions: Any
    lengths: Any = None
    gains: Any = None
    positions: Any = None
    scores: Any = None
    per_item: Any = None
    users: Any = None
    times: Any = None


def read(given: Columns | ArrowTable) -> Batch:
    """Columns, or an Arrow table of them, as a batch, with codes of ids if there are no gains.

    Raises:
        InvalidEventError: a column is not valid.
    """
    if not isinstance(given, Columns):
        given = Columns(**table_columns(given, Columns.__struct_fields__))
    given = Columns(
        **{name: as_numpy(name, each) for name, each in msgspec.structs.asdict(given).items()}
    )
    padded = _ids("recommendations", given.recommendations, given.lengths)
    padded_acts = _ids("interactions", _as_lists(given.interactions))
    shown = padded.without_padding("recommendations")
    acts = padded_acts.without_padding("interactions")
    if len(shown.ragged) != len(acts.ragged):
        detail = f"{len(shown.ragged)} recommendations and {len(acts.ragged)} interactions"
        raise InvalidEventError("wrong_type", f"columns of unequal length: {detail}")
    refuse_marks(shown, acts)
    users = _per_event("users", given.users, len(shown.ragged))
    times = _per_event("times", given.times, len(shown.ragged))
    recommendations: Sequence[Sequence[Id]]
    interactions: Sequence[Interactions]
    if given.gains is None:
        recommendations, interactions = encoded([shown, acts])
    else:
        recommendations, interactions = [*shown], _interactions(acts, padded_acts, given.gains)
    return Batch(
        recommendations=recommendations,
        interactions=interactions,
        positions=_per_item("positions", given.positions, shown.ragged, padded.ragged),
        scores=_per_item("scores", given.scores, shown.ragged, padded.ragged),
        per_item=_item_values(given.per_item, shown.ragged, padded.ragged),
        users=users,
        times=times,
    )


def _ids(name: str, found: Any, lengths: Any = None) -> IdColumn:
    column = _column(name, found, lengths)
    kind = column.ragged.values.dtype
    if column.ragged.values.size and kind.kind not in "iuUTO":
        detail = f"{name}: {kind} is not a type of ids; give integers (int64) or strings"
        raise InvalidEventError("invalid_id", detail)
    return column


def _as_lists(found: Any) -> Any:
    """A vector, for example the targets of a training batch, as lists of one item; -1 is none."""
    single = isinstance(found, np.ndarray) and found.ndim == 1 and found.dtype.kind in "iuUT"
    return found[:, None] if single else found


def _column(name: str, found: Any, lengths: Any = None, *, optional: bool = False) -> IdColumn:
    if isinstance(found, ArrowTable):
        found = list_column(name, found, optional=optional)
    if isinstance(found, np.ndarray) and found.ndim == 2:
        return IdColumn(matrix_column(name, found, lengths))
    if lengths is not None:
        detail = f"{name}: lengths= is only for a matrix; lists define their own lengths"
        raise InvalidEventError("wrong_type", detail)
    if isinstance(found, IdColumn):
        return found
    if isinstance(found, np.ndarray) and found.dtype.kind != "O":
        what = f"{found.dtype} of shape {found.shape}"
        detail = f"{name}: {what}; give a matrix of shape (events, K), or (values, offsets)"
        raise InvalidEventError("wrong_type", detail)
    return IdColumn(ragged_column(name, found))


def _per_event(name: str, found: Any, events: int) -> list[Any] | None:
    """A column of one value per event; None if no event has a value."""
    if found is None:
        return None
    if not (is_list(found) or isinstance(found, ArrowTable)):
        detail = f"{name}: give one value for each event, found {found!r:.80}"
        raise InvalidEventError("wrong_type", detail)
    if isinstance(found, np.ndarray):
        values = found.tolist()
        if found.dtype.kind == "M":
            micro = found.astype("datetime64[us]").astype(np.int64).tolist()
            values = [None if no else at for no, at in zip(np.isnat(found), micro, strict=True)]
    else:
        values = flat_column(found) if isinstance(found, ArrowTable) else list(found)
    if len(values) != events:
        detail = f"{name}: {len(values)} values for {events} events"
        raise InvalidEventError("wrong_type", f"columns of unequal length: {detail}")
    return values if any(each is not None for each in values) else None


def _per_item(
    name: str, found: Any, shown: Ragged, padded: Ragged
) -> list[list[Any] | None] | None:
    """A column with one number per item; a null row of Arrow becomes None.

    `padded`: the items with the padding at the end of their lists, which may have numbers too.
    """
    if found is None:
        return None
    matrix = isinstance(found, np.ndarray) and found.ndim == 2
    numbers = _column(name, found, shown.lengths if matrix else None, optional=True).ragged
    known = ~null_rows(found) if isinstance(found, ArrowTable) else np.ones(len(numbers), np.bool_)
    if len(numbers) == len(padded) and (numbers.lengths == padded.lengths)[known].all():
        numbers = numbers.prefixes(np.where(known, shown.lengths, 0))
    unlike = len(numbers) != len(shown) or (numbers.lengths != shown.lengths)[known].any()
    if unlike or (numbers.values.size and numbers.values.dtype.kind not in "iuf"):
        detail = f"{name}: give one number for each item, in lists of the same lengths"
        raise InvalidEventError(f"invalid_{name}", detail)
    if not known.any():
        return None
    return [row if has else None for row, has in zip(numbers.lists(), known.tolist(), strict=True)]


def _item_values(found: Any, shown: Ragged, padded: Ragged) -> list[Any] | None:
    """Values by name for each event; None if no event has any."""
    if found is None:
        return None
    rows = _rows_of_columns(found, len(shown)) if isinstance(found, Mapping) else found
    rows = flat_column(rows) if isinstance(rows, ArrowTable) else list(rows)
    if len(rows) != len(shown):
        detail = f"per_item: {len(rows)} values for {len(shown)} events"
        raise InvalidEventError("wrong_type", f"columns of unequal length: {detail}")
    values = []
    lengths = zip(shown.lengths.tolist(), padded.lengths.tolist(), strict=True)
    for row, (each, sizes) in enumerate(zip(rows, lengths, strict=True)):
        try:
            # Arrow gives a map as pairs.
            values.append(item_values(dict(each) if isinstance(each, list) else each, *sizes))
        except InvalidEventError as error:
            raise in_row(row, len(rows), error) from None
    return values if any(each is not None for each in values) else None


def _rows_of_columns(columns: Mapping[str, Any], events: int) -> list[Any]:
    lists = {name: _lists(name, column) for name, column in columns.items() if column is not None}
    for name, column in lists.items():
        if len(column) != events:
            detail = f"{name}: {len(column)} lists for {events} events"
            raise InvalidEventError("wrong_type", f"columns of unequal length: {detail}")
    return [{name: column[row] for name, column in lists.items()} for row in range(events)]


def _lists(name: str, found: Any) -> Sequence[Any]:
    """A column of lists, whose entries may be None, as Python lists."""
    column = as_numpy(name, found)
    if isinstance(column, ArrowTable):
        return flat_column(column)
    if isinstance(column, np.ndarray) and column.ndim == 2:
        return list(column.tolist())
    if isinstance(column, tuple | Ragged):
        return ragged_column(name, column).lists()
    if isinstance(column, np.ndarray):
        return list(column)
    if not isinstance(column, list):
        detail = f"{name}: give a list of values for each event, found {found!r:.80}"
        raise InvalidEventError("wrong_type", detail)
    return column


def _interactions(acts: IdColumn, padded: IdColumn, gains: Any) -> list[Interactions]:
    ids = [*acts]
    worths = _per_item("gains", gains, acts.ragged, padded.ragged) or [None] * len(ids)
    return [
        items if worth is None else largest_gains(zip(items, worth, strict=True))
        for items, worth in zip(ids, worths, strict=True)
    ]


def as_numpy(name: str, found: Any) -> Any:
    """A column with every tensor (PyTorch, JAX, CuPy, ...) converted to a numpy array.

    Tensors in a list or tuple are converted too. They are read through DLPack, so their libraries
    are not imported. Tensors in main memory are not copied. A tensor on a device is copied by its
    `cpu()`, which waits until it is computed. Gradients are dropped.
    """
    if isinstance(found, tuple) and hasattr(found, "indices") and hasattr(found, "values"):
        detail = f"{name}: {type(found).__name__} has scores and ids; give its .indices"
        raise InvalidEventError("wrong_type", detail)
    if hasattr(found, "to_numpy") and not isinstance(found, ArrowTable):
        # A series of pandas before 3.
        return found.to_numpy()
    if isinstance(found, (list, tuple)) and any(map(_is_foreign, found)):
        arrays = [_array(name, each) if _is_foreign(each) else each for each in found]
        return tuple(arrays) if isinstance(found, tuple) else arrays
    return _array(name, found) if _is_foreign(found) else found


def _is_foreign(found: Any) -> bool:
    arrow = hasattr(found, "__arrow_c_array__")
    return hasattr(found, "__dlpack_device__") and not (arrow or isinstance(found, np.ndarray))


def _array(name: str, tensor: Any) -> Array:
    if getattr(tensor, "requires_grad", False):
        tensor = tensor.detach()
    try:
        if tensor.__dlpack_device__()[0] != _CPU:
            tensor = tensor.cpu()
        found: Array = np.from_dlpack(tensor)
    except (AttributeError, BufferError, RuntimeError, TypeError, ValueError) as error:
        kind = f"{getattr(tensor, 'dtype', 'unknown')} of shape {tuple(tensor.shape)}"
        why = " ".join(str(error).split()) or type(error).__name__
        remedy = "give it dense, on the CPU, ids as int64 and numbers as float32"
        detail = f"{name}: {kind} cannot become a numpy array ({why:.120}); {remedy}"
        raise InvalidEventError("wrong_type", detail) from error
    return found
