"""Statistics that a metric reads cell by cell: what each says of itself, and the list of them."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final, NamedTuple, Protocol, Self

import msgspec

from streameval.events.ids import IdKind
from streameval.statistics.statistic import Statistic
from streameval.statistics.vocabulary import Items


class Asking(Protocol):
    """A metric, as options read it."""

    @property
    def reads(self) -> str:
        """The first argument of its function."""
        ...

    @property
    def k(self) -> int | None:
        """Its cut-off."""
        ...

    @property
    def attribute(self) -> str | None:
        """The attribute of items that it reads."""
        ...

    @property
    def values(self) -> Mapping[str, Any]:
        """The values of its parameters."""
        ...

    @property
    def rules(self) -> Mapping[str, Any]:
        """The rules of its convention."""
        ...


class CellOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a statistic whose view of a cell is the argument of metrics.

    Only equal options merge; those that differ from the defaults are its name in saved states.
    """

    @classmethod
    def asked_by(cls, metric: Asking, max_items: int) -> Self:  # noqa: ARG003  some have a cap of their own
        """The options of the statistic that a metric reads.

        By default a field has the value of the parameter or rule of its name, and `cutoff` the
        cut-off; other fields keep their defaults. `max_items`: the largest number of items that
        the configuration allows a statistic to count exactly.
        """
        settings = {"cutoff": metric.k, **metric.values, **metric.rules}
        return msgspec.convert(
            {name: settings[name] for name in cls.fields() & settings.keys()}, cls
        )

    @classmethod
    def fields(cls) -> frozenset[str]:
        """The names of the fields."""
        return frozenset(cls.__struct_fields__)

    @property
    def recommended(self) -> slice | None:
        """The part of a list that it reads, if it reads only items; None if it reads more.

        It saves memory: of lists without positions, only this part waits to be counted.
        """
        return None

    @property
    def inputs(self) -> tuple[str, ...]:
        """The inputs that it reads besides events, such as "attributes.genre"."""
        return ()

    @property
    def keeps_users(self) -> bool:
        """True if it keeps ids of users."""
        return False

    def make(self, items: Items, attributes: Mapping[str, Any], /) -> Statistic:
        """An empty statistic; `attributes`: name -> an attribute of items."""
        raise NotImplementedError

    def user_ids(self, statistic: Any) -> IdKind | None:  # noqa: ARG002  few keep user ids
        """The kind of the user ids that a statistic of these options keeps; None without one."""
        return None


class CellStatistic(NamedTuple):
    """An entry of the list of statistics.

    Attributes:
        module: of the statistic and its options.
        options: name of the class of its options.
        what: what it counts, for people.
        memory: how much memory it takes, for people.
        takes_k: whether `cutoff` is one of its options, so that its metrics may have one.
        takes_type: whether `type` is one of its options, so that its metrics have a parameter for
            the type of interactions that count.
        columns: columns of events that it reads besides lists, "users" or "scores"; others are not
            read from files and records.
    """

    module: str
    options: str
    what: str
    memory: str
    takes_k: bool = False
    takes_type: bool = False
    columns: frozenset[str] = frozenset()


def cell_options(reads: str) -> type[CellOptions]:
    """The class of the options of a statistic, by its name in `BY_CELL`."""
    entry = BY_CELL[reads]
    options: type[CellOptions] = getattr(import_module(entry.module), entry.options)
    return options


_ABOVE_MAX_ITEMS: Final = "above 1,000,000 (`max_items`) a sample, and the reading says `estimated`"
_PACKAGE: Final = "streameval.statistics"

BY_CELL: Final[dict[str, CellStatistic]] = {
    "exposures": CellStatistic(
        f"{_PACKAGE}.exposures",
        "ExposuresOptions",
        "how often each item was shown, by cut-off",
        f"one count for each item and cut-off; {_ABOVE_MAX_ITEMS}",
        takes_k=True,
    ),
    "users": CellStatistic(
        f"{_PACKAGE}.exposures",
        "ExposuresOptions",
        "how often each user got a list with an item, or with a hit, by cut-off",
        f"one count for each user and cut-off; {_ABOVE_MAX_ITEMS}",
        takes_k=True,
        columns=frozenset({"users"}),
    ),
    "pairings": CellStatistic(
        f"{_PACKAGE}.pairings",
        "PairingsOptions",
        "how often each item was in lists of each length",
        "one count for each item and length; estimated above 1,000,000 of them",
        takes_k=True,
    ),
    "placements": CellStatistic(
        f"{_PACKAGE}.placements",
        "PlacementsOptions",
        "at which ranks items of each kind were shown, and hit; answers every cut-off",
        "two counts for each kind and rank; at most 1,000 kinds",
        takes_type=True,
    ),
    "scores": CellStatistic(
        f"{_PACKAGE}.scores",
        "ScoresOptions",
        "positive and negative items by score",
        "exact to 65,536 distinct scores (2 MB), then bins (below 2 MB) with certain bounds",
        takes_type=True,
        columns=frozenset({"scores"}),
    ),
    "ranksums": CellStatistic(
        f"{_PACKAGE}.scores",
        "RankSumsOptions",
        "pairs of items in the right order, by positive and negative items of the list",
        "two integers for each pair (positives, negatives) that occurs",
        takes_type=True,
        columns=frozenset({"scores"}),
    ),
}
"""First argument of a metric's function -> the statistic that it reads: the one list of them."""
