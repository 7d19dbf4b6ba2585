"""What states that merge must share: the kinds of ids, and the identities of their inputs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any, TypeAlias

from streameval.accumulator.formulas import input_among, needed_inputs
from streameval.catalogue.context import TIME_ZONE, Context
from streameval.catalogue.metric import Metric
from streameval.events.errors import UnlikeStateError
from streameval.events.ids import IdKind
from streameval.events.saved_states import MERGED, unlike

InputIdentities: TypeAlias = dict[str, int | str | None]
"""Identities of the inputs of a statistic; states with different ones do not merge."""

Digests: TypeAlias = dict[str, frozenset[str]]
"""Input with a version -> digests of the contents that events were counted with."""


class UnlikeInputsError(UnlikeStateError):
    """A state was counted with other popularity, similarity or attributes of items."""


def check_same_zone(own: str | None, other: str | None, sides: tuple[str, str] = MERGED) -> None:
    """Refuse counts by the days of another time zone; None is UTC.

    Raises:
        UnlikeStateError: the zones differ.
    """
    if own != other:
        raise unlike("time zones of days", own or "UTC", other or "UTC", sides=sides)


def check_same_inputs(own: Mapping[str, Any], other: Any, sides: tuple[str, str] = MERGED) -> None:
    """Refuse to merge states whose inputs, or time zones of days, differ.

    Raises:
        UnlikeStateError: they do.
    """
    if own == other:
        return
    if isinstance(other, Mapping):
        check_same_zone(own.get(TIME_ZONE), other.get(TIME_ZONE), sides)
    raise unlike("inputs", own, other, sides=sides)


def one_kind(
    of: str, kind: IdKind | None, other: IdKind | None, sides: tuple[str, str] = MERGED
) -> IdKind | None:
    """The common kind of ids; None if both are None.

    Raises:
        UnlikeStateError: the kinds differ.
    """
    if kind is not None and other is not None and kind != other:
        raise unlike(of, kind, other, sides=sides)
    return kind or other


def identities(context: Context, names: Collection[str]) -> InputIdentities:
    """The identities of these inputs."""
    identity = _identity(context)
    return {name: identity[name] for name in sorted(names)}


def metric_inputs(metric: Metric, context: Context) -> InputIdentities:
    """The identities of the inputs that the values of a metric depend on."""
    names = needed_inputs(metric) if metric.reads in ("event", "hits") else []
    among = [input_among(metric.among)] if metric.among else []
    return identities(context, {*names, *among})


@lru_cache(maxsize=4)
def digests_of(context: Context) -> Digests:
    """The content of each input with a version."""
    return {name: frozenset((digest,)) for name, digest in context.digests.items()}


def merged_digests(*several: Digests) -> Digests:
    """All contents together.

    Example:
        >>> first, second = ({"popularity": frozenset(digest)} for digest in "ab")
        >>> sorted(merged_digests(first, second)["popularity"])
        ['a', 'b']
    """
    if not any(several[1:]):
        return several[0]
    names = {name for inputs in several for name in inputs}
    return {
        name: frozenset().union(*(inputs.get(name, ()) for inputs in several)) for name in names
    }


@lru_cache(maxsize=4)
def _identity(context: Context) -> InputIdentities:
    # Cached, because each saved slice needs this digest of the whole catalogue.
    return context.identity
