"""Data about items besides the events: popularity, similarity, attributes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from numbers import Integral
from typing import Any, TypeAlias

import numpy as np

from streameval.events import Id, ItemGroup
from streameval.events.errors import InvalidEventError, MetricError
from streameval.events.ids import IdKind, ids_of_input, is_number
from streameval.statistics.arrays import FloatArray

Amounts: TypeAlias = Mapping[Id, float] | Mapping[str, float] | Mapping[int, float]
"""Item -> number; a dict[str, int] is not a Mapping[Id, float], whose keys are invariant."""


Pairs: TypeAlias = (
    Mapping[tuple[Id, Id], float]
    | Mapping[tuple[str, str], float]
    | Mapping[tuple[int, int], float]
)


class Popularity:
    """The number of users who interacted with each item before; fixed while events are counted.

    Args:
        counts: item -> number of users (or interactions).
        users: total number of users; by default the sum of the counts.
        version: name of the content, under which states merge although items were added: give
            another name if a count has changed. By default the content itself must be the same.

    Raises:
        MetricError: the item ids are not all text or all integers, or a number is negative or not
            finite.

    Example:
        >>> Popularity({"a": 3, "b": 1}, users=4).share("a")
        0.75
    """

    __slots__ = ("_least", "_ordered", "counts", "ids", "users", "version")

    def __init__(
        self, counts: Amounts, users: float | None = None, *, version: str | None = None
    ) -> None:
        if not isinstance(counts, Mapping):
            raise MetricError(f"popularity: {counts!r:.80} is not a mapping; give item -> users")
        self.ids: IdKind | None
        self.ids, items = ids_of_input("popularity", counts)
        for item, count in counts.items():
            _check_amount(f"popularity of item {item!r}", count)
        if users is not None:
            _check_amount("users= of popularity", users)
        self.counts = dict(zip(items, map(_builtin, counts.values()), strict=True))
        self.users = math.fsum(self.counts.values()) if users is None else _builtin(users)
        self.version = check_version("popularity", version)
        self._ordered: Sequence[Id] | None = None
        self._least: dict[float, frozenset[Id]] = {}

    def of(self, item: Id) -> float:
        """Number of users who interacted with an item; 0 if it is unknown."""
        return self.counts.get(item, 0)

    def share(self, item: Id) -> float:
        """Share of all users who interacted with an item; 0 if it is unknown."""
        return self.of(item) / self.users if self.users else 0.0

    def most_of_tail(self, tail: float) -> float:
        """The largest popularity in the tail of the least popular items.

        `tail`: the share of all known items in the tail, 0 to 1.
        """
        ascending = self._ascending()
        last = max(1, math.floor(tail * len(ascending))) - 1
        return self.counts[ascending[last]] if ascending else 0

    def least(self, tail: float) -> frozenset[Id]:
        """The least popular items, at least one; ties are broken by the smallest id.

        `tail`: their share of all known items, 0 to 1.
        """
        if tail not in self._least:
            items = max(1, math.floor(tail * len(self.counts)))
            self._least[tail] = frozenset(self._ascending()[:items])
        return self._least[tail]

    def fewest_of_head(self, head: float) -> float:
        """The smallest popularity in the head of the most popular items; infinite without one.

        `head`: the share of all known items in the head, 0 to 1.
        """
        items = math.floor(head * len(self.counts))
        return self.counts[self._ascending()[-items]] if items else math.inf

    def _ascending(self) -> Sequence[Id]:
        """All items, the least popular first; ties are broken by the smallest id."""
        if self._ordered is None:
            self._ordered = sorted(
                self.counts, key=lambda item: (self.counts[item], isinstance(item, str), item)
            )
        return self._ordered

    @property
    def identity(self) -> str:
        """A digest of the content."""
        rows = (f"{item!r}={count!r}" for item, count in self.counts.items())
        return digest_of_parts([f"{self.users!r}", *sorted(rows)])


class Similarity:
    """The similarity of pairs of items.

    Args:
        ids: the items, in the order of the rows.
        vectors: one row per item; similarity is the cosine of two rows. Shape (items, n).
        matrix: instead of vectors, the similarities of row to column, not necessarily symmetric.
            Shape (items, items). A float64 array is not copied, so do not change it afterwards.
        version: name of the content; see `Popularity`.

    Raises:
        MetricError: the rows do not match the ids or are not finite, or the ids are not all text or
            all integers.

    Example:
        >>> Similarity(["a", "b"], vectors=np.array([[1.0, 0.0], [1.0, 1.0]])).between("a", "b")
        0.7071067811865475
    """

    __slots__ = ("_cosine", "_pairs", "_rows", "_table", "ids", "version")

    def __init__(
        self,
        ids: Iterable[Id],
        *,
        vectors: FloatArray | Sequence[Sequence[float]] | None = None,
        matrix: FloatArray | Sequence[Sequence[float]] | None = None,
        version: str | None = None,
    ) -> None:
        self.version = check_version("similarity", version)
        rows = vectors if vectors is not None else matrix
        if rows is None or (vectors is not None and matrix is not None):
            raise MetricError("similarity: give either vectors= or matrix=")
        id_list: Any = ids
        if not isinstance(id_list, Iterable) or isinstance(id_list, (str, bytes)):
            raise MetricError(f"similarity: ids={ids!r:.80}; give the id of each row")
        self._pairs: Mapping[tuple[Id, Id], float] | None = None
        self.ids: IdKind | None
        self.ids, items = ids_of_input("similarity", ids)
        self._rows = {item: row for row, item in enumerate(items)}
        self._cosine = vectors is not None
        table = _finite(rows)
        if len(self._rows) != len(table):
            detail = f"{len(self._rows)} distinct ids and {len(table)} rows"
            raise MetricError(f"similarity: {detail}")
        if not self._cosine and 0 < table.shape[1] < len(table):
            detail = f"matrix= of shape {table.shape} lacks a column for some of its rows"
            raise MetricError(f"similarity: {detail}")
        if self._cosine:
            lengths = np.sqrt((table * table).sum(axis=1, keepdims=True))
            table = table / np.where(lengths == 0.0, 1.0, lengths)
        self._table = table

    @classmethod
    def of_pairs(cls, pairs: Pairs, *, version: str | None = None) -> Similarity:
        """Make it from (item, item) -> similarity; pairs are valid in both orders, missing ones 0.

        Example:
            >>> Similarity.of_pairs({("a", "b"): 0.25}).between("b", "a")
            0.25
        """
        if not isinstance(pairs, Mapping):
            raise MetricError(f"similarity: {pairs!r:.80} is not a mapping; give (a, b) -> number")
        for pair, value in pairs.items():
            both: Any = pair
            if not isinstance(both, tuple) or len(both) != 2:
                raise MetricError(f"similarity: {pair!r:.80} is not a pair; give (a, b) -> number")
            if not is_number(value):
                raise MetricError(f"similarity of {pair!r}: {value!r:.80} is not a finite number")
        ids = list(dict.fromkeys(item for pair in pairs for item in pair))
        made = cls(ids, matrix=np.zeros((len(ids), 0)), version=version)
        ordered: dict[tuple[Id, Id], float] = {(a, b): _builtin(n) for (a, b), n in pairs.items()}
        made._pairs = {(b, a): value for (a, b), value in ordered.items()} | ordered
        return made

    def knows(self, item: Id) -> bool:
        """True if the item has a row."""
        return item in self._rows

    def between(self, first: Id, second: Id) -> float:
        """Similarity of two known items, in this order."""
        if self._pairs is not None:
            return self._pairs.get((first, second), 1.0 if first == second else 0.0)
        row, column = self._rows[first], self._rows[second]
        if not self._cosine:
            return float(self._table[row, column])
        return math.fsum((self._table[row] * self._table[column]).tolist())

    @property
    def identity(self) -> str:
        """A digest of the content."""
        rows = [f"{item!r}={row}" for item, row in self._rows.items()]
        pairs = sorted(map(repr, (self._pairs or {}).items()))
        return digest_of_parts([*rows, *pairs, self._table.tobytes().hex()])


AttributeValues: TypeAlias = str | int | Collection[str] | Collection[int]
"""The values of an attribute that one item has: one or several."""


Labelled: TypeAlias = (
    Mapping[Id, AttributeValues] | Mapping[str, AttributeValues] | Mapping[int, AttributeValues]
)


class Attribute:
    """An attribute of items, such as genre or provider; fixed while events are counted.

    Args:
        values: item -> its value, or its values; whole numbers count as their text.
        unknown: the value of all items that are not in `values`; None: they have no value.
        version: name of the content, under which states merge although items were added: give
            another name if the values of an item have changed. By default the content itself must
            be the same.

    Attributes:
        sizes: value -> number of items that have it, in alphabetical order.
        values: all values, in alphabetical order.

    Raises:
        MetricError: the item ids are not all text or all integers, or a value is not text or empty.

    Example:
        >>> genre = Attribute({"a": ["news", "drama"], "b": "news"})
        >>> genre.of("a"), genre.of("c"), genre.values
        (('drama', 'news'), (), ('drama', 'news'))
    """

    __slots__ = ("_groups", "_items", "_unknown", "ids", "sizes", "values", "version")

    def __init__(
        self, values: Labelled, *, unknown: str | None = None, version: str | None = None
    ) -> None:
        if not isinstance(values, Mapping):
            raise MetricError(f"attributes: {values!r:.80} is not a mapping; give item -> values")
        self.version = check_version("attributes", version)
        self.ids: IdKind | None
        self.ids, items = ids_of_input("attributes", values)
        labels = (_labels(item, item_values) for item, item_values in values.items())
        self._items = dict(zip(items, labels, strict=True))
        self._unknown = () if unknown is None else _labels("unknown", unknown)
        self._groups: dict[str, ItemGroup] = {}
        counts = Counter(chain.from_iterable(self._items.values()))
        counts.update(dict.fromkeys(self._unknown, 0))
        self.sizes = dict(sorted(counts.items()))
        self.values = tuple(self.sizes)

    @classmethod
    def tiers(
        cls,
        popularity: Popularity,
        *,
        head: float = 0.2,
        tail: float = 0.5,
        version: str | None = None,
    ) -> Attribute:
        """Divide items by popularity into "head", "mid" and "tail".

        Args:
            popularity: of the items.
            head: share of all known items in the head, the most popular ones and those as popular
                as the last of them.
            tail: share of all known items in the tail, the least popular ones and those as popular
                as the first of them; unknown items belong to it.
            version: as for `Attribute`.

        Raises:
            MetricError: a share is not from 0 to 1, or together they exceed 1.

        Example:
            >>> tier = Attribute.tiers(Popularity({"a": 9, "b": 4, "c": 2, "d": 1}), head=0.25)
            >>> [*map(tier.of, "abcx")]
            [('head',), ('mid',), ('tail',), ('tail',)]
        """
        for name, share in (("head", head), ("tail", tail), ("head + tail", head + tail)):
            if not is_number(share) or not 0 <= share <= 1:
                raise MetricError(f"tiers: {name}={share!r:.80} is not a share from 0 to 1")
        most_of_tail = popularity.most_of_tail(tail)
        fewest_of_head = popularity.fewest_of_head(head)
        tiers = {
            item: "tail"
            if count <= most_of_tail
            else ("head" if count >= fewest_of_head else "mid")
            for item, count in popularity.counts.items()
        }
        return cls(tiers, unknown="tail", version=version)

    def of(self, item: Id) -> tuple[str, ...]:
        """The values of an item, in alphabetical order; empty if it is unknown."""
        return self._items.get(item, self._unknown)

    def group(self, value: str) -> ItemGroup:
        """The items that have a value."""
        if value not in self._groups:
            inside = value not in self._unknown
            members = (item for item, values in self._items.items() if (value in values) is inside)
            self._groups[value] = ItemGroup(frozenset(members), inside)
        return self._groups[value]

    def __contains__(self, item: Id) -> bool:
        """True if the item has an entry of its own."""
        return item in self._items

    def knows(self, item: Id) -> bool:
        """True if the item has a value."""
        return bool(self.of(item))

    @property
    def identity(self) -> str:
        """A digest of the content."""
        rows = (f"{item!r}={values!r}" for item, values in self._items.items())
        return digest_of_parts([f"unknown={self._unknown!r}", *sorted(rows)])


def check_version(name: str, version: Any) -> str | None:
    """The version of an input, or None.

    Raises:
        MetricError: it is not a text with a visible character.
    """
    if version is None or (isinstance(version, str) and version.strip()):
        return version
    raise MetricError(f"version={version!r:.80} of {name}: give a text, for example '2026-11'")


def _labels(item: Id, values: Any) -> tuple[str, ...]:
    """The values of an item, in alphabetical order."""
    several = isinstance(values, Collection) and not isinstance(values, (str, bytes, Mapping))
    labels = set()
    for label in values if several else [values]:
        if isinstance(label, bool) or not isinstance(label, (str, Integral)) or label == "":
            problem = f"{label!r:.80} is not a text or a whole number"
            raise MetricError(f"attributes: of item {item!r:.80}, {problem}")
        labels.add(str(label))
    return tuple(sorted(labels))


def _builtin(number: Any) -> float:
    """A number that is not of NumPy: an identity has its text, which would name the type."""
    builtin: float = number.item() if isinstance(number, np.generic) else number
    return builtin


def _check_amount(what: str, amount: Any) -> None:
    if not is_number(amount) or amount < 0:
        raise MetricError(f"{what}: {amount!r:.80} is not a finite number, at least 0")


def _finite(rows: object) -> FloatArray:
    try:
        from streameval.events.columns import as_numpy  # noqa: PLC0415  a first event has none

        table = np.asarray(as_numpy("similarity", rows), np.float64)
    except InvalidEventError as error:
        raise MetricError(f"{error.detail}.") from error
    except (TypeError, ValueError) as error:
        raise MetricError(f"similarity: {error}; give rows of numbers of one length") from error
    if table.ndim != 2 or not np.isfinite(table).all():
        shape = f"an array of shape {table.shape}"
        raise MetricError(f"similarity: {shape}; give rows of finite numbers, one for each id")
    return table


def digest_of_parts(parts: Sequence[str]) -> str:
    """A digest of texts that is another for other texts, or for other ends of them."""
    from hashlib import blake2b  # noqa: PLC0415  as in `events.digests`

    digest = blake2b(digest_size=16)
    for part in parts:
        digest.update(f"{len(part)}:{part}".encode("utf-8", "surrogatepass"))
    return f"{len(parts)} parts, blake2b {digest.hexdigest()}"
