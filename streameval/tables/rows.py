"""Files in which a row is one item of one user: recommendations with scores, or the truth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from streameval.columns.ragged import Array
from streameval.errors import SourceError
from streameval.tables.reading import table_of
from streameval.tables.values import ids, numbers

_USER = (
    *("user", "userid", "useridx", "uid", "query", "queryid", "qid"),
    *("request", "requestid", "session", "sessionid"),
)
_ITEM = (
    *("item", "itemid", "itemidx", "iid", "movieid", "docid", "docno"),
    *("product", "productid", "sku"),
)
_SCORE = ("score", "scores", "prediction", "predictedrating", "pred", "relevance", "rating")
_RATING = ("rating", "relevance", "gain", "rel", "grade", "label")


class Names(msgspec.Struct, frozen=True, kw_only=True):
    """Columns that were named; None where the header is to say which they are."""

    user: str | None = None
    item: str | None = None
    score: str | None = None
    rating: str | None = None


class Rows(NamedTuple):
    """Columns of one file, in its order.

    Attributes:
        users: Arrow array of ids.
        items: likewise.
        worth: score or rating of each row, shape (rows,); None where there is none.
    """

    users: Any
    items: Any
    worth: Array | None


def recommendation_rows(path: str, names: Names) -> Rows:
    """The rows of a file of recommendations: user, item and, where there is one, score.

    Raises:
        SourceError: it cannot be read, or has no such columns.
        MissingExtraError: pyarrow is not installed.
    """
    return _rows(path, names, ("score", names.score, _SCORE))


def truth_rows(path: str, names: Names) -> Rows:
    """The rows of a file of what users did: user, item and, where there is one, rating.

    Raises:
        SourceError: it cannot be read, or has no such columns.
        MissingExtraError: pyarrow is not installed.
    """
    return _rows(path, names, ("rating", names.rating, _RATING))


def _rows(path: str, names: Names, worth: tuple[str, str | None, Sequence[str]]) -> Rows:
    table = table_of(path)
    header = table.column_names
    user = _found(path, header, ("user", names.user, _USER))
    item = _found(path, header, ("item", names.item, _ITEM))
    of_users, of_items = (table.column(header.index(name)) for name in (user, item))
    rows = Rows(ids(path, user, of_users), ids(path, item, of_items), None)
    if worth[1] is None and not _known(header, worth[2]):
        return rows
    name = _found(path, header, worth)
    return rows._replace(worth=numbers(path, name, table.column(header.index(name))))


def _found(path: str, header: Sequence[str], wanted: tuple[str, str | None, Sequence[str]]) -> str:
    """The column named, or the first whose name is a usual one."""
    role, named, usual = wanted
    found = [each for each in header if named in (each, _bare(each))] if named else []
    if not named:
        found = _known(header, usual)
    if not found:
        problem = f"no column {named!r}" if named else f"no column that is known to hold the {role}"
        columns = ", ".join(header[:20])
        raise SourceError(path, f"{problem}; its columns: {columns}", f"name it with --{role}")
    return found[0]


def _known(header: Sequence[str], usual: Sequence[str]) -> list[str]:
    plain = {_bare(name).lower().replace("_", "").replace("-", ""): name for name in header}
    return [plain[name] for name in usual if name in plain]


def _bare(name: str) -> str:
    """Without the type that RecBole's atomic files write behind it: user_id:token."""
    return name.partition(":")[0].strip()
