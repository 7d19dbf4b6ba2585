"""Families of Prometheus samples, and their names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec

from streameval.catalogue.grammar import spelling
from streameval.catalogue.metric import Metric, Value
from streameval.engine.evidence import counts_up
from streameval.exporters.view import COUNTED

Kind: TypeAlias = Literal["summary", "counter", "gauge"]

PREFIX: Final = "streameval_"


class Sample(NamedTuple):
    """One number of a family.

    Attributes:
        value: never NaN.
    """

    name: str
    labels: Mapping[str, str]
    value: float


class Family(msgspec.Struct, frozen=True):
    """Samples of one name, with the sentence that explains them.

    Attributes:
        name: without any suffix.
    """

    name: str
    kind: Kind
    help: str
    samples: Sequence[Sample]


def own_family(
    name: str, kind: Kind, text: str, samples: Iterable[tuple[dict[str, str], float]]
) -> Family:
    """A family about the pipeline rather than the recommender; counters end in _total."""
    full = PREFIX + name
    suffix = "_total" if kind == "counter" else ""
    return Family(full, kind, text, [Sample(full + suffix, *sample) for sample in samples])


def family_name(metric: Metric, segment: str | None = None) -> str:
    """What Prometheus calls a metric; a convention, a module or a segment is part of the name.

    Example:
        >>> from streameval.catalogue import parse
        >>> family_name(parse("recbole:ndcg@10"))
        'streameval_recbole_ndcg'
        >>> family_name(parse("ndcg(statistic=median)@10"))
        'streameval_ndcg_median'
        >>> family_name(parse("ndcg@10"), "country")
        'streameval_ndcg_by_country'
    """
    prefix = spelling(metric.text).prefix
    words = [prefix] if prefix else []
    by = [] if segment is None else ["by", segment]
    return PREFIX + _legal("_".join([*words, metric.name, *_what_is_read(metric), *by]))


def metric_labels(metric: Metric) -> dict[str, str]:
    """The labels that distinguish metrics of one family: chosen parameters, and k if present.

    The statistic is in the family's name, for a family has one type and one unit.

    Example:
        >>> from streameval.catalogue import parse
        >>> metric_labels(parse("ndcg(gain=exp2)@10"))
        {'gain': 'exp2', 'k': '10'}
    """
    labels = {
        _legal(name): _text(value) for name, value in metric.options.items() if name != "statistic"
    }
    return labels if metric.k is None else {**labels, "k": str(metric.k)}


def slice_labels(names: Iterable[str], metrics: Iterable[Metric]) -> tuple[str, ...]:
    """The names of the slices' labels, made legal and distinct from each other and from a metric's.

    A name that a metric's own labels need is prefixed with `label_`.

    Example:
        >>> slice_labels(["variant", "user.country", "k"], [])
        ('variant', 'user_country', 'label_k')
    """
    taken = {"k", "le", "quantile", "window"}
    taken.update(_legal(option) for metric in metrics for option in metric.values)
    chosen: list[str] = []
    for name in names:
        legal = _legal(name)
        while legal in taken or legal.startswith("__"):
            legal = f"label_{legal}"
        taken.add(legal)
        chosen.append(legal)
    return tuple(chosen)


def _what_is_read(metric: Metric) -> list[str]:
    """Sets a gauge apart from the counters of the same metric."""
    if statistic := metric.options.get("statistic"):
        return [str(statistic)]
    counted = metric.definition.additive and metric.definition.bounds[0] >= 0
    return ["mean"] if counted and not counts_up(metric) else []


def _legal(name: str) -> str:
    legal = re.sub(r"[^a-zA-Z0-9_]", "_", name)
    return f"_{legal}" if legal[:1].isdigit() else legal


def _text(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def summary_help(name: str, metric: Metric) -> str:
    """HELP of a mean's counters."""
    return (
        f"{metric.definition.summary} _sum adds up the numerators and _count the "
        f"{COUNTED[metric.definition.per]}, since the process started; the mean of five minutes "
        f"is rate({name}_sum[5m]) / rate({name}_count[5m])."
    )


def mean_help(metric: Metric) -> str:
    """HELP of window means."""
    return (
        f"{metric.definition.summary} Mean of a window of event time, lifetime included; absent "
        "without evidence. Series combine as sum(mean * support) / sum(support)."
    )


def support_help(name: str, metric: Metric) -> str:
    """HELP of the counts behind window means."""
    return f"How many {COUNTED[metric.definition.per]} are behind {name}_window_mean."


def interval_help(name: str, end: str) -> str:
    """HELP of the ends of intervals."""
    which = "Lower" if end.endswith("_low") else "Upper"
    return (
        f"{which} end of the interval of {name}_window_mean. That of the lifetime holds however "
        "often it is looked at; that of another window is for one look, never for alerts. "
        "Absent with too few users. Intervals of several series do not add up."
    )


def gauge_help(metric: Metric, windowed: bool) -> str:  # noqa: FBT001  says which of two
    """HELP of a value that does not add up."""
    statistic = str(metric.values.get("statistic", "mean"))
    over = "" if statistic == "mean" else f"{statistic.replace('_', ' ').capitalize()} of: "
    since = (
        "Of a window of event time, lifetime included" if windowed else "Since the process started"
    )
    capped = metric.definition.reads in ("exposures", "users")
    estimated = " Estimated above max_items." if capped else ""
    return (
        f"{over}{metric.definition.summary} {since}; absent without evidence. "
        f"Values of several series do not add up.{estimated}"
    )
