"""The metrics that must be kept beside another one to read it."""

from __future__ import annotations

from typing import NamedTuple

from streameval.catalogue.lookup import companion, denominator
from streameval.catalogue.metric import Metric


class CompanionChecks(NamedTuple):
    """The metrics that show whether an estimate can be trusted.

    Attributes:
        weight: the mean weight without a clip.
        share: the effective share of the lists, with the clip.
        rewarded: the share of lists with a reward.
        clipped: the mean clipped weight, and the share of lists with a clipped weight; None without
            a clip.
    """

    weight: Metric
    share: Metric
    rewarded: Metric
    clipped: tuple[Metric, Metric] | None

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """All of them."""
        return (self.weight, self.share, self.rewarded, *(self.clipped or ()))


def checks_of(metric: Metric) -> CompanionChecks | None:
    """The checks of an estimate; None for any other metric, and for a model alone."""
    if not metric.definition.estimates_policy or metric.values.get("direct"):
        return None
    weight = "importance_weight"
    return CompanionChecks(
        weight=companion(metric, weight, clip=0.0),
        share=companion(metric, weight, statistic="effective_share"),
        rewarded=companion(metric, "hit_rate"),
        clipped=(companion(metric, weight), companion(metric, "clipped_share"))
        if metric.values.get("clip")
        else None,
    )


def companions(metric: Metric) -> tuple[Metric, ...]:
    """The metrics that must be kept to read this one."""
    below, checks = denominator(metric), checks_of(metric)
    return (*([] if below is None else [below]), *(() if checks is None else checks.metrics))
