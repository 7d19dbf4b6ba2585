"""Inputs of metrics besides the events: a catalogue, popularity, similarity, attributes."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec
import numpy as np

from streameval.catalogue.items import (
    Attribute,
    Labelled,
    Popularity,
    Similarity,
    digest_of_parts,
)
from streameval.events import Id, ItemGroup
from streameval.events.digests import blake2b
from streameval.events.errors import MetricError
from streameval.events.extras import LazyModule
from streameval.events.ids import IdKind, ids_of_input, is_number
from streameval.statistics.arrays import FloatArray, IntArray

if TYPE_CHECKING:
    from streameval.inference import days
    from streameval.inference.days import Calendar
    from streameval.statistics import user_key as user_keys
    from streameval.statistics.user_key import UserHashKey  # noqa: TC004  nobody decodes a Context
else:
    # A loop that only counts hits needs none of it.
    days = LazyModule("streameval.inference.days")
    user_keys = LazyModule("streameval.statistics.user_key")

_MOST: Final = 10_000
"""Ranks with a chance of their own."""


class Examination:
    """The chance that a user looks at each rank, relative to the first.

    Args:
        chances: of rank 1, 2, ..., above 0 and at most 1; deeper ranks have the last one.

    Raises:
        MetricError: a chance is not such a number, or there are none, or more than 10,000.

    Example:
        >>> Examination([1.0, 0.5, 0.25]).at(np.array([1, 2, 3, 9])).tolist()
        [1.0, 0.5, 0.25, 0.25]
    """

    __slots__ = ("chances",)

    ids: Final = None
    version: Final = None

    def __init__(self, chances: Sequence[float]) -> None:
        if isinstance(chances, (str, bytes)) or not isinstance(chances, Iterable):
            raise MetricError(f"examination={chances!r:.80}: give the chance of each rank")
        by_rank = [*chances]
        if not 0 < len(by_rank) <= _MOST:
            raise MetricError(f"examination has {len(by_rank):,} chances; give 1 to {_MOST:,}")
        for rank, chance in enumerate(by_rank, 1):
            if not is_number(chance) or not 0 < chance <= 1:
                problem = f"the chance of rank {rank} is {chance!r:.80}"
                raise MetricError(f"examination: {problem}; give a number above 0, at most 1")
        self.chances = tuple(map(float, by_rank))

    def at(self, ranks: IntArray) -> FloatArray:
        """The chance of each rank, shape (n,). Ranks begin with 1."""
        indices = np.minimum(ranks, len(self.chances)) - 1
        chances: FloatArray = np.array(self.chances)[np.maximum(indices, 0)]
        return chances

    @property
    def identity(self) -> str:
        """A digest of the content."""
        text = ",".join(map(repr, self.chances))
        return f"{len(self.chances)} parts, blake2b {blake2b(text.encode(), 16).hex()}"


Catalog: TypeAlias = int | frozenset[Id]
"""The number of items, or their ids."""


AttributeInputs: TypeAlias = Mapping[str, Attribute | Labelled]
"""Name -> an attribute, or the values of items."""


def attributes_of(attributes: AttributeInputs | None) -> tuple[tuple[str, Attribute], ...]:
    """Attributes by name, in alphabetical order.

    Raises:
        MetricError: a name cannot be in the text of a metric, or the values are not valid.
    """
    if attributes is not None and not isinstance(attributes, Mapping):
        raise MetricError(f"attributes={attributes!r:.80}: give name -> (item -> values)")
    for name in attributes or ():
        check_attribute_name(name)
    by_name = []
    for name, values in sorted((attributes or {}).items()):
        try:
            attribute = values if isinstance(values, Attribute) else Attribute(values)
        except MetricError as error:
            raise MetricError(f"attribute {name!r}: {error}") from error
        by_name.append((name, attribute))
    return tuple(by_name)


def check_attribute_name(name: Any) -> None:
    """Refuse a name of an attribute that a metric cannot have as a parameter.

    Raises:
        MetricError: it is not such a name, or an input has it.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name in _NOT_NAMES:
        raise MetricError(
            f"attribute {name!r:.80}: give it a name like 'genre': letters, digits, _"
        )


_NAME: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_NOT_NAMES: Final = frozenset({"item", "similarity", "true", "false"})
"""Values of `by` that name no attribute."""


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """The inputs of an Accumulator besides its metrics.

    Attributes:
        attributes: name and values of each attribute of items, in alphabetical order.
        examination: chance that users look at each rank.
        time_zone: zone whose days are counted apart; None for UTC.
        user_key: of the hash of users; None for a hash that anybody can compute.
    """

    catalog: Catalog | None = None
    popularity: Popularity | None = None
    similarity: Similarity | None = None
    attributes: tuple[tuple[str, Attribute], ...] = ()
    examination: Examination | None = None
    time_zone: str | None = None
    user_key: UserHashKey | None = None

    def __post_init__(self) -> None:
        check_kind("popularity", self.popularity, Popularity)
        check_kind("similarity", self.similarity, Similarity)

    def named(self, name: str) -> Catalog | _Table | None:
        """The input of this name: "catalog", "popularity", "similarity", "attributes.genre"."""
        if name == "catalog":
            return self.catalog
        return self._tables.get(name)

    def group(self, among: str) -> ItemGroup:
        """The items that have the value of an attribute, such as "tier:tail"."""
        name, _, value = among.partition(":")
        return dict(self.attributes)[name].group(value)

    def ids(self, kind: IdKind | None) -> IdKind | None:
        """The kind of the ids of all inputs; `kind` if no input has ids.

        Raises:
            MetricError: the inputs have ids of both kinds or not of the kind asked for, or `kind`
                is not a kind.
        """
        if kind not in (None, "text", "integer"):
            raise MetricError(f"ids={kind!r}: choose 'text' or 'integer'.")
        items = self.catalog if isinstance(self.catalog, frozenset) else frozenset()
        kinds: dict[str, IdKind | None] = {
            "ids=": kind,
            "catalog": ids_of_input("catalog", items)[0],
        }
        kinds |= {name: table.ids for name, table in self._tables.items() if table is not None}
        id_kinds: dict[str, IdKind] = {
            name: kind for name, kind in kinds.items() if kind is not None
        }
        if len({*id_kinds.values()}) > 1:
            listing = ", ".join(f"{name} {kind}" for name, kind in id_kinds.items())
            problem = f"the ids of an accumulator must be all text or all integers; found {listing}"
            raise MetricError(f"{problem}; convert some, for example with str(id) or int(id).")
        return next(iter(id_kinds.values()), None)

    @property
    def calendar(self) -> Calendar:
        """The days that are counted apart."""
        return days.calendar_of(self.time_zone)

    @property
    def identity(self) -> dict[str, int | str | None]:
        """Identities of the inputs, by version or content; states with others do not merge."""
        ids = self.catalog
        identities: dict[str, int | str | None] = {
            "catalog": ids
            if not isinstance(ids, frozenset)
            else digest_of_parts(sorted(f"{type(item).__name__}:{item}" for item in ids))
        }
        for name, table in self._tables.items():
            version = None if table is None else table.version
            content = None if table is None or version is not None else table.identity
            identities[name] = content if version is None else f"version {version}"
        named = {} if self.time_zone is None else {TIME_ZONE: self.time_zone}
        return identities | named | self.of_users

    @property
    def of_users(self) -> dict[str, int | str | None]:
        """The identity of the key of the hash of users; empty without a key.

        It is an input of every statistic that counts users.
        """
        return {} if self.user_key is None else {USER_KEY: str(self.user_key)}

    @property
    def digests(self) -> dict[str, str]:
        """The digest of the content of each input with a version."""
        tables = self._tables.items()
        return {
            name: table.identity for name, table in tables if table is not None and table.version
        }

    @property
    def _tables(self) -> dict[str, _Table | None]:
        attributes = {f"{ATTRIBUTES}{name}": attribute for name, attribute in self.attributes}
        return {
            "popularity": self.popularity,
            "similarity": self.similarity,
            **attributes,
            "examination": self.examination,
        }


TIME_ZONE: Final = "time_zone"
"""Name of the time zone among the inputs; UTC is not named."""

USER_KEY: Final = "user_key"
"""The key of the hash of users, as an input, in the configuration, and as an argument."""

ATTRIBUTES: Final = "attributes."
"""Before the name of an attribute in the names of inputs."""

_Table: TypeAlias = Popularity | Similarity | Attribute | Examination


def check_kind(name: str, argument: object, kind: type) -> None:
    """Refuse an argument that is neither None nor an instance of `kind`.

    Raises:
        MetricError: it is something else.
    """
    if argument is not None and not isinstance(argument, kind):
        raise MetricError(f"{name}={argument!r:.80}: give a streameval.{kind.__name__}(...)")


def context_of(
    catalog: Any,
    popularity: Popularity | None,
    similarity: Similarity | None,
    attributes: AttributeInputs | None,
    examination: Sequence[float] | None,
    *,
    time_zone: str | None = None,
    user_key: UserHashKey | str | None = None,
) -> Context:
    """The inputs that are given to an Accumulator.

    Raises:
        MetricError: one of them is not valid.
    """
    return Context(
        catalog=catalog_of(catalog),
        popularity=popularity,
        similarity=similarity,
        attributes=attributes_of(attributes),
        examination=None if examination is None else Examination(examination),
        time_zone=None if time_zone is None else days.checked_time_zone(time_zone),
        user_key=None if user_key is None else user_keys.user_key(user_key),
    )


def catalog_of(catalog: Any) -> Catalog | None:
    """A catalogue as a number or a set; an empty set leaves coverage undefined.

    Raises:
        MetricError: it is a number below 1, or neither a number nor ids that are all text or all
            integers.
    """
    if catalog is None:
        return None
    number = isinstance(catalog, Integral)
    # Iterating over a frame gives the names of its columns.
    flat = number or (isinstance(catalog, Collection) and getattr(catalog, "ndim", 1) == 1)
    if isinstance(catalog, (str, bytes, bool)) or not flat:
        raise MetricError(f"catalog={catalog!r:.80}: give the number of items, or their ids")
    if not number:
        return frozenset(ids_of_input("catalog", catalog)[1])
    if catalog < 1:
        raise MetricError(f"catalog={catalog!r}: a catalogue has at least one item")
    return int(catalog)
