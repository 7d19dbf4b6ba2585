"""What states that merge must share: the kinds of ids, and the identities of their inputs."""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from typing import TypeAlias

from streameval.accumulator.formulas import input_among, needed_inputs
from streameval.accumulator.plan import Plan
from streameval.catalogue.context import ATTRIBUTES, Context
from streameval.catalogue.metric import Metric
from streameval.events.errors import UnlikeStateError
from streameval.events.ids import IdKind
from streameval.statistics.lists import HitsOptions
from streameval.statistics.options import GroupsOptions, PlacementsOptions, UserSumsOptions

Inputs: TypeAlias = dict[str, int | str | None]
"""Identities of the inputs of a statistic; states with different ones do not merge."""

Digests: TypeAlias = dict[str, frozenset[str]]
"""Input with a version -> digests of the contents that events were counted with."""


class UnlikeInputsError(UnlikeStateError):
    """A state was counted with other popularity, similarity or attributes of items."""


def one_kind(of: str, mine: IdKind | None, theirs: IdKind | None) -> IdKind | None:
    """The common kind of ids; None if both are None.

    Raises:
        UnlikeStateError: the kinds differ.
    """
    if mine is not None and theirs is not None and mine != theirs:
        raise UnlikeStateError(of, mine, theirs)
    return mine or theirs


def inputs_by_statistic(plan: Plan, context: Context) -> dict[str, Inputs]:
    """Statistic that reads inputs -> their identities; for group sums, those of each metric."""
    inputs = {f"events:{metric.per_list}": _inputs_of(metric, context) for metric in plan.events}
    inputs |= {f"values:{metric.per_list}": _inputs_of(metric, context) for metric in plan.values}
    inputs |= {f"graded:{metric.text}": _inputs_of(metric, context) for metric in plan.graded}
    by_user = (*plan.summed, *plan.before)
    summed = {metric.per_list: _inputs_of(metric, context) for metric in by_user}
    for name, options in plan.statistics.items():
        if isinstance(options, HitsOptions) and options.among:
            inputs[name] = _identities(context, [input_among(options.among)])
        elif isinstance(options, PlacementsOptions):
            inputs[name] = _identities(context, [f"{ATTRIBUTES}{options.by}"])
        elif isinstance(options, GroupsOptions | UserSumsOptions):
            inputs[name] = {
                text: "; ".join(f"{of} {identity}" for of, identity in summed[text].items()) or None
                for text in options.metrics
            }
    return inputs


@lru_cache(maxsize=4)
def digests_of(context: Context) -> Digests:
    """The content of each input with a version."""
    return {name: frozenset((digest,)) for name, digest in context.digests.items()}


def united(*several: Digests) -> Digests:
    """All contents together.

    Example:
        >>> first, second = ({"popularity": frozenset(digest)} for digest in "ab")
        >>> sorted(united(first, second)["popularity"])
        ['a', 'b']
    """
    if not any(several[1:]):
        return several[0]
    names = {name for inputs in several for name in inputs}
    return {
        name: frozenset().union(*(inputs.get(name, ()) for inputs in several)) for name in names
    }


def _inputs_of(metric: Metric, context: Context) -> Inputs:
    names = needed_inputs(metric) if metric.definition.reads in ("event", "hits") else []
    among = [input_among(metric.among)] if metric.among else []
    return _identities(context, {*names, *among})


def _identities(context: Context, names: Collection[str]) -> Inputs:
    identity = _identity(context)
    return {name: identity[name] for name in sorted(names)}


@lru_cache(maxsize=4)
def _identity(context: Context) -> Inputs:
    # Cached, because each saved slice needs this digest of the whole catalogue.
    return context.identity
