"""Names of families and labels that Prometheus accepts; does not import its client."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from streameval.catalogue.metric import Metric

PREFIX: Final = "streameval_"

_RESERVED: Final = frozenset({"k", "le", "quantile", "window"})
"""Labels with a meaning of their own, in Prometheus or here."""


def family_name(metric: Metric, segment: str | None = None) -> str:
    """The name of a metric in Prometheus, including its convention or module, and segment.

    Example:
        >>> from streameval.catalogue import parse
        >>> family_name(parse("recbole:ndcg@10"))
        'streameval_recbole_ndcg'
        >>> family_name(parse("ndcg(statistic=median)@10"))
        'streameval_ndcg_median'
        >>> family_name(parse("ndcg(per=user,statistic=zeros)@10"))
        'streameval_ndcg_per_user_zeros'
        >>> family_name(parse("ndcg@10"), "country")
        'streameval_ndcg_by_country'
    """
    prefix = metric.prefix
    words = [prefix] if prefix else []
    by = [] if segment is None else ["by", segment]
    return PREFIX + _legal("_".join([*words, metric.name, *_what_is_read(metric), *by]))


def same_name(metrics: Iterable[Metric]) -> tuple[Metric, Metric] | None:
    """The first two different metrics with one name in Prometheus; None if all names differ.

    Parameters and cut-offs are labels, so `ndcg@5` and `ndcg@10` are one metric here.
    """
    by_family: dict[str, Metric] = {}
    for metric in metrics:
        first = by_family.setdefault(family_name(metric), metric)
        if (first.name, first.prefix) != (metric.name, metric.prefix):
            return first, metric
    return None


def metric_labels(metric: Metric) -> dict[str, str]:
    """The labels that distinguish metrics of one family: chosen parameters, and k if present.

    The statistic, and whether it is per user, are part of the family's name, because a family has
    one type and one unit.

    Example:
        >>> from streameval.catalogue import parse
        >>> metric_labels(parse("ndcg(gain=exp2)@10"))
        {'gain': 'exp2', 'k': '10'}
    """
    labels = {
        _parameter_label(name): str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in metric.options.items()
        if name not in ("statistic", "per")
    }
    return labels if metric.k is None else {**labels, "k": str(metric.k)}


def _what_is_read(metric: Metric) -> list[str]:
    """The part of a gauge's name that distinguishes it from counters of the same metric."""
    per_user = ["per", "user"] if metric.is_per_user else []
    if statistic := metric.options.get("statistic"):
        return [*per_user, str(statistic)]
    if per_user:
        return per_user
    definition = metric.definition
    counted = definition.additive and definition.over is None and definition.bounds[0] >= 0
    return ["mean"] if counted and not metric.counts_up else []


def slice_labels(
    names: Iterable[str], metrics: Iterable[Metric], reserved: Iterable[str] = ()
) -> tuple[str, ...]:
    """Legal names for the labels of slices, distinct from each other and from metrics' own labels.

    A name that collides with a metric's own label is prefixed with `label_`.

    Example:
        >>> slice_labels(["variant", "user.country", "k"], [])
        ('variant', 'user_country', 'label_k')
    """
    taken = {*_RESERVED, *reserved}
    taken.update(_parameter_label(option) for metric in metrics for option in metric.values)
    legal_names: list[str] = []
    for name in names:
        legal = _legal(name)
        while legal in taken or legal.startswith("__"):
            legal = f"label_{legal}"
        taken.add(legal)
        legal_names.append(legal)
    return tuple(legal_names)


def _parameter_label(parameter: str) -> str:
    """The label of a metric's parameter; a user's metric may have one named `window`."""
    return f"parameter_{parameter}" if parameter in _RESERVED else _legal(parameter)


def _legal(name: str) -> str:
    legal = re.sub(r"[^a-zA-Z0-9_]", "_", name)
    return f"_{legal}" if legal[:1].isdigit() else legal
