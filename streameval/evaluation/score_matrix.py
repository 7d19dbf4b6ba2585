"""Users and items as a matrix of scores: the best items of each user, with their interactions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from streameval.evaluation.arguments import NOTHING_TO_EXCLUDE, Note, Ties
from streameval.evaluation.pairs import hashes_of, mixed_hashes
from streameval.events.batch import IntArray
from streameval.events.columns import Columns, as_numpy
from streameval.events.errors import InvalidEventError, UsageError
from streameval.events.ragged import Array, Ragged, ragged_column

_ENTRIES: Final = 1 << 22
"""Scores that are ranked at once: 32 MB of doubles."""


def are_scores(value: Any) -> bool:
    """True if it is a matrix of numbers with a fraction, of any library, dense or sparse.

    Example:
        >>> are_scores(np.array([[0.5, 0.25]])), are_scores(np.array([[5, 3]]))
        (True, False)
    """
    if isinstance(value, list) and value and isinstance(value[0], list | tuple):
        named = hasattr(value[0], "_fields")
        return not named and any(isinstance(entry, float) for entry in value[0])
    is_matrix = _is_sparse(value) or len(getattr(value, "shape", ())) == 2
    return is_matrix and "float" in str(getattr(value, "dtype", ""))


def _is_sparse(value: Any) -> bool:
    return hasattr(value, "tocsr")


def in_single(scores: Any) -> Any:
    """Scores as 32-bit floats, which makes some of them equal."""
    if hasattr(scores, "topk"):
        return scores.float()
    with np.errstate(over="ignore"):
        if _is_sparse(scores):
            return scores.astype(np.float32)
        return np.asarray(as_numpy("scores", scores)).astype(np.float32)


def scored_columns(
    scores: Any, truth: Any, seen: Any, ties: Ties | None, depth: int | None, *, with_scores: bool
) -> tuple[list[Columns], list[Note]]:
    """The events of some users at a time, as arrays; users and items are numbered from 0.

    Args:
        scores: shape (users, items); not recommended are an item with minus infinity and one
            that a sparse matrix does not store.
        truth: the interactions of each user: a matrix of the same shape, dense or sparse, whose
            entries other than 0 are gains; or for each user items in a list, or item -> gain.
        seen: items to leave out of each list, in the same form; None for none.
        ties: order of equal scores; None for the smaller item first.
        depth: ranks that are counted; None for whole lists.
        with_scores: whether the events have scores.

    Returns:
        The events, and warnings: of users with interactions whose scores are all equal, unless
        `ties` is given, and of nothing that is left out.
    """
    users, items = (int(size) for size in np.shape(scores))
    matrix = scores
    if _is_sparse(scores):
        matrix = scores.tocsr()
    elif not hasattr(scores, "topk"):
        matrix = np.asarray(as_numpy("scores", scores))
    elif getattr(scores, "requires_grad", False):
        matrix = scores.detach()
    interactions_of, gains = _interactions("truth", truth, (users, items))
    left_out = None if seen is None else _interactions("exclude", seen, (users, items))[0]
    step, undecided, columns = max(1, _ENTRIES // max(items, 1)), 0, []
    for start in range(0, users, step):
        stop = min(users, start + step)
        part, interactions = matrix[start:stop], interactions_of.rows(start, stop)
        item_gains = (
            None
            if gains is None
            else gains[interactions_of.offsets[start] : interactions_of.offsets[stop]]
        )
        tie = None
        if ties not in (None, "arrival", "id_asc"):
            tie = _tie_keys(ties, part.shape, start, interactions, item_gains)
            part = part if _is_sparse(part) else np.asarray(as_numpy("scores", part))
        if ties is None and items > 1 and not _is_sparse(part):
            largest, smallest = _extremes(part)
            equal = np.asarray(as_numpy("scores", largest == smallest))
            undecided += int(np.count_nonzero(equal & (interactions.lengths > 0)))
        excluded = None if left_out is None else left_out.rows(start, stop)
        indices, values = _best(part, excluded, items if depth is None else min(depth, items), tie)
        if np.isnan(values).any():
            row = start + int(np.flatnonzero(np.isnan(values).any(axis=1))[0])
            raise InvalidEventError("invalid_scores", f"row {row} of the scores has a NaN")
        is_candidate = values != -np.inf
        best = Ragged.of_lengths(indices[is_candidate], is_candidate.sum(axis=1))
        columns.append(
            Columns(
                recommendations=(best.values, best.offsets),
                interactions=(interactions.values, interactions.offsets),
                gains=None if item_gains is None else (item_gains, interactions.offsets),
                scores=(values[is_candidate], best.offsets) if with_scores else None,
                users=np.arange(start, stop),
            )
        )
    notes = []
    if undecided:
        text = f"users whose scores are all equal: {undecided:,}; the first item comes first. "
        notes = [Note(text + "{ties=worst} puts hits last, {ties=random} shuffles.")]
    if left_out is not None and not left_out.values.size:
        notes.append(Note(NOTHING_TO_EXCLUDE))
    return columns, notes


def _extremes(part: Any) -> tuple[Any, Any]:
    """The largest and the smallest score of each user, of an array or a tensor."""
    if hasattr(part, "topk"):
        return part.amax(1), part.amin(1)
    return part.max(1), part.min(1)


def _tie_keys(
    ties: Ties, shape: tuple[int, int], first: int, interactions: Ragged, gains: Array | None
) -> Array:
    """Sort keys of items with equal scores in each row, smallest first; shape (users, items)."""
    rows, items = shape
    if ties == "id_desc":
        return np.broadcast_to(-np.arange(items), shape)
    if ties == "worst":
        keys = np.zeros(shape)
        row_of = interactions.list_indices(np.arange(interactions.values.size))
        keys[row_of, interactions.values] = 1.0 if gains is None else gains
        return keys
    users = hashes_of(map(str, range(first, first + rows)))
    return mixed_hashes(users[:, None], hashes_of(map(str, range(items)))[None])


def _best(part: Any, seen: Ragged | None, depth: int, tie: Array | None) -> tuple[IntArray, Array]:
    """The items with the highest scores of each row, best first, and their scores.

    Among equal scores the one with the smaller key of `tie` comes first, then the smaller item,
    whatever the library. A NaN comes first. What is not recommended has minus infinity.
    """
    if hasattr(part, "topk"):
        return _best_of_tensor(part, seen, depth)
    if _is_sparse(part):
        stored = np.zeros(part.shape, np.bool_)
        stored[np.repeat(np.arange(part.shape[0]), np.diff(part.indptr)), part.indices] = True
        scores = part.toarray().astype(np.float64)
        scores[~stored] = -np.inf
    else:
        scores = part.astype(np.float64)
    if seen is not None:
        scores[seen.list_indices(np.arange(seen.values.size)), seen.values] = -np.inf
    return _best_of_array(scores, depth, tie)


def _best_of_array(scores: Array, depth: int, tie: Array | None = None) -> tuple[IntArray, Array]:
    rows, items = scores.shape
    # NumPy sorts NaN last, so that of the negated scores too; it must be seen, not left out.
    keys = np.where(np.isnan(scores), -np.inf, -scores)
    if depth < items:
        edge = np.partition(keys, depth - 1, axis=1)[:, depth - 1 : depth] if depth else keys[:, :0]
        near, indices = np.nonzero(keys <= edge if depth else np.zeros(keys.shape, np.bool_))
        by_tie = [] if tie is None else [tie[near, indices]]
        order = np.lexsort((indices, *by_tie, keys[near, indices], near))
        begins = np.searchsorted(near, np.arange(rows))
        taken = order[(begins[:, None] + np.arange(depth)).ravel()]
        best = indices[taken].reshape(rows, depth)
    elif tie is None:
        best = np.argsort(keys, axis=1, kind="stable")
    else:
        best = np.lexsort((tie, keys), axis=1)
    return best, np.take_along_axis(scores, best, axis=1)


def _best_of_tensor(scores: Any, seen: Ragged | None, depth: int) -> tuple[IntArray, Array]:
    """Found by the tensor's own library; only the best are copied from a device."""
    if seen is not None and seen.values.size:
        scores = scores.clone()
        row_of = seen.list_indices(np.arange(seen.values.size))
        # The tensors of indices are made beside the scores, without importing their library.
        where = [scores.new_tensor(column.tolist()).long() for column in (row_of, seen.values)]
        scores[where[0], where[1]] = -np.inf
    items = int(scores.shape[1])
    top = scores.float().topk(min(depth + 1, items), 1)
    values = np.asarray(as_numpy("scores", top.values), np.float64)
    indices: IntArray = np.asarray(as_numpy("scores", top.indices)).astype(np.int64)
    order = np.lexsort((indices, -values), axis=1)
    indices = np.take_along_axis(indices, order, axis=1)
    values = np.take_along_axis(values, order, axis=1)
    if depth < items:
        # A library may take any of several equal scores at the edge; then all of the row decide.
        equal = values[:, depth] == values[:, depth - 1] if depth else np.zeros(len(values), bool)
        for row in np.flatnonzero(equal).tolist():
            row_scores = np.asarray(as_numpy("scores", scores[row].float()), np.float64)[None]
            (indices[row, :depth],), (values[row, :depth],) = _best_of_array(row_scores, depth)
    return indices[:, :depth], values[:, :depth]


def _interactions(name: str, value: Any, shape: tuple[int, int]) -> tuple[Ragged, Array | None]:
    """The items of each user, and their gains; None if all are 1."""
    if value is None:
        raise UsageError("a matrix of scores needs truth=, the interactions of each user.")
    if _is_sparse(value):
        if tuple(value.shape) != shape:
            sizes = f"a matrix of shape {tuple(value.shape)} for scores of shape {shape}"
            raise UsageError(f"{name}=: {sizes}.")
        rows = value.tocsr().copy()
        rows.sum_duplicates()
        rows.eliminate_zeros()
        return _with_gains(np.asarray(rows.indices), np.asarray(rows.indptr), np.asarray(rows.data))
    if isinstance(value, Mapping):
        for user in value:
            if user not in range(shape[0]):
                raise UsageError(f"{name}=: {user!r:.40} is not a row of scores, from 0.")
        value = [value.get(user, ()) for user in range(shape[0])]
    if isinstance(value, list) and any(isinstance(row, Mapping) for row in value):
        lists = ragged_column(name, [np.asarray([*row]) for row in value])
        _check_lists(name, lists, len(value), "rows", shape)
        by_user = [row.values() if isinstance(row, Mapping) else [1] * len(row) for row in value]
        gains = np.array([gain for of_user in by_user for gain in of_user], np.float64)
        return _with_gains(lists.values, lists.offsets, gains)
    dense = as_numpy(name, value)
    if isinstance(dense, list) and dense and not hasattr(dense[0], "__len__"):
        dense = np.asarray(dense)
    if isinstance(dense, np.ndarray) and dense.dtype.kind != "O" and dense.shape == shape:
        row_of, items = np.nonzero(dense)
        offsets = np.searchsorted(row_of, np.arange(shape[0] + 1))
        return _with_gains(items, offsets, dense[row_of, items])
    if isinstance(dense, np.ndarray) and dense.ndim == 1 and dense.dtype.kind in "iu":
        dense = dense[:, None]
    if isinstance(dense, np.ndarray) and dense.ndim == 2:
        # -1 ends a row of a matrix.
        is_item = dense != -1
        lists = Ragged.of_lengths(dense[is_item], is_item.sum(axis=1))
    else:
        if isinstance(dense, list):
            # Arrays, as lists may hold integers of NumPy.
            rows = (row.tolist() if hasattr(row, "tolist") else [*row] for row in dense)
            dense = [*map(np.asarray, rows)]
        lists = ragged_column(name, dense)
    _check_lists(name, lists, len(lists), "lists", shape)
    return Ragged(lists.values.astype(np.int64), lists.offsets), None


def _with_gains(items: IntArray, offsets: IntArray, gains: Array) -> tuple[Ragged, Array | None]:
    lists = Ragged(items.astype(np.int64), offsets.astype(np.int64))
    return lists, None if (gains == 1).all() else gains.astype(np.float64)


def _check_lists(name: str, lists: Ragged, count: int, what: str, shape: tuple[int, int]) -> None:
    """Refuse too few or too many lists, and items that are not columns of the scores."""
    if count != shape[0]:
        raise UsageError(f"{name}=: {count} {what} for {shape[0]} rows of scores.")
    items = lists.values
    wrong = items.dtype.kind not in "iu" or bool(((items < 0) | (items >= shape[1])).any())
    if items.size and wrong:
        raise UsageError(
            f"{name}=: give the numbers of columns, from 0 to {shape[1] - 1}, or a matrix of "
            f"shape {shape}."
        )
