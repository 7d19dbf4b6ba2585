"""Labels of users, from columns of the tables that are joined: values split by user group.

Functions raise InputError for a label that no table has, and for a user with two values of one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from streameval.decoding.values import MISSING_LABEL
from streameval.evaluation.arguments import InputError, Named, Note
from streameval.evaluation.coded import merge_coded
from streameval.evaluation.files import listing
from streameval.events import Id
from streameval.events.spelling import suggestion


class LabelRows(NamedTuple):
    """Labels in the rows of a table.

    Attributes:
        source: of the table: recommendations, truth or users.
        names: of all columns.
        users: Arrow dictionary of the user of each row.
        texts: of each label that the table has, an Arrow dictionary of all rows.
        used: the settings that decided how a table of users is read.
    """

    source: str
    names: Sequence[str]
    users: Any
    texts: Mapping[str, Any]
    used: Collection[Named] = ()


class UserLabels:
    """The value of each label for each user; that of a user without one is `__missing__`.

    Args:
        labels: names.
        tables: that may have them. A label that the users' own table has is read from it alone, and
            otherwise from both recommendations and truth.

    Example:
        >>> import pyarrow as pa
        >>> users = pa.array([7, 8]).dictionary_encode()
        >>> plans = pa.array(["a", "b"]).dictionary_encode()
        >>> rows = LabelRows("truth", ["user", "plan"], users, {"plan": plans})
        >>> UserLabels(["plan"], [rows]).of([8, 9])
        [('b',), ('__missing__',)]
    """

    def __init__(self, labels: Sequence[str], tables: Sequence[LabelRows]) -> None:
        self._names = labels
        self._of_label = [self._values(label, tables) for label in labels]

    def of(self, users: Iterable[Id | None]) -> list[tuple[str, ...]]:
        """The values of all labels of each user."""
        # Integers and text of the same digits are one user, as in joined rows.
        return [
            tuple([values.get(user, MISSING_LABEL) for values in self._of_label])
            for user in map(str, users)
        ]

    def notes(self, users: Collection[Id]) -> Iterator[Note]:
        """Warnings about users without a value of a label; refuses labels of other users alone."""
        texts = [*map(str, users)]
        for name, values in zip(self._names, self._of_label, strict=True):
            without = sum(user not in values for user in texts)
            if without and without == len(texts):
                labelled_user = next(iter(values), None)
                examples = (
                    f"one user is {texts[0]!r:.40}, and one with a label {labelled_user!r:.40}"
                )
                raise InputError(
                    "no user has a value of {name}: {found}.",
                    name=repr(name),
                    found="no row has any"
                    if labelled_user is None
                    else f"{examples}; write their ids alike",
                )
            if without:
                yield Note(
                    f"users without a value of {{name}}: {without:,} of {len(texts):,}, which are "
                    "a separate group, {missing}.",
                    name=repr(name),
                    missing=MISSING_LABEL,
                )

    def _values(self, label: str, tables: Sequence[LabelRows]) -> Mapping[str, str]:
        having = [table for table in tables if label in table.texts]
        having = [table for table in having if table.source == "users"] or having
        if not having:
            names_by_table = [f" {table.source}: {listing(table.names)}." for table in tables]
            raise InputError(
                "no table has a column {label} to split by; give one that has, or a table of users "
                "and their labels as {users}.{columns}{hint}",
                label=repr(label),
                columns=";".join(names_by_table).replace(".;", ";"),
                hint=suggestion(label, chain.from_iterable(table.names for table in tables)),
            )
        ids, of_users = merge_coded([table.users for table in having])
        words, of_words = merge_coded([table.texts[label] for table in having])
        names, values = list(map(str, ids.to_pylist())), words.to_pylist()
        size = max(1, len(values))
        pairs = np.unique(np.concatenate(of_users) * size + np.concatenate(of_words))
        if MISSING_LABEL in values:
            pairs = pairs[pairs % size != values.index(MISSING_LABEL)]
        user_codes, codes = np.divmod(pairs, size)
        again = np.flatnonzero(np.diff(user_codes) == 0)
        if again.size:
            first, second = (values[codes[at]] for at in (again[0], again[0] + 1))
            user = names[user_codes[again[0]]]
            raise InputError(
                "{problem}; {by} needs one value for each user. Give it, or a table as {users}.",
                problem=f"user {user!r:.40} has the {label} {first!r:.40} and {second!r:.40}",
            )
        columns = zip(user_codes, codes, strict=True)
        return {names[user]: values[code] for user, code in columns}
