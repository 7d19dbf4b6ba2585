"""The metrics that must be counted beside another one to read it."""

from __future__ import annotations

from streameval.catalogue.grammar import Spelling
from streameval.catalogue.lookup import definition_named, parameters, parse, user_definition
from streameval.catalogue.metric import Metric
from streameval.catalogue.signature import ParameterValue


def companion(metric: Metric, name: str, **differing: ParameterValue) -> Metric:
    """The metric of this name with the cut-off and the parameters of another, if it has them.

    Parameters of the summary of all lists are not taken. `differing`: values that differ.

    Example:
        >>> companion(parse("snips(target=new)@5"), "importance_weight").text
        'importance_weight(target=new)@5'
    """
    built_in = definition_named(name)
    prefix = None if built_in else metric.prefix
    definition = built_in or user_definition(prefix or "", name)
    accepted, taken = parameters(definition), {*definition.parameters, "type"}
    values = {key: value for key, value in metric.values.items() if key in taken} | differing
    options = tuple(
        (key, value)
        for key, value in sorted(values.items())
        if key in accepted and value != accepted[key].default
    )
    return parse(str(Spelling(prefix, name, options, metric.k)))


def denominator(metric: Metric) -> Metric | None:
    """The metric whose sum divides that of a ratio; None for any other metric.

    Example:
        >>> denominator(parse("snips(type=click,target=new)@5")), denominator(parse("ips"))
        (Metric('importance_weight(target=new)@5'), None)
    """
    over = metric.definition.over
    return None if over is None else companion(metric, over)


CLIPPED = ("clipped_weight", "clipped_lists")
"""Checks of an estimate with a clip."""


def checks_of(metric: Metric) -> dict[str, Metric]:
    """The metrics that show whether an estimate can be trusted, by their names in an `Overlap`.

    Empty for any other metric, and for a model alone.

    Example:
        >>> checks_of(parse("ips(clip=9)@5"))["clipped_weight"]
        Metric('importance_weight(clip=9)@5')
        >>> checks_of(parse("ndcg"))
        {}
    """
    values, weight = metric.values, "importance_weight"
    if not metric.definition.estimates_policy or values.get("direct"):
        return {}
    checks = {
        "weight": companion(metric, weight, clip=0.0),
        "share": companion(metric, weight, statistic="effective_share"),
        "rewarded": companion(metric, "hit_rate", relevant="nonzero"),
    }
    if values.get("clip"):
        of_clip = companion(metric, weight), companion(metric, "clipped_share")
        checks |= zip(CLIPPED, of_clip, strict=True)
    if not values.get("least"):
        checks["limit"] = companion(metric, "reward_limit", statistic="maximum")
    return checks


def companions(metric: Metric) -> tuple[Metric, ...]:
    """All metrics that must be counted to read this one."""
    below = denominator(metric)
    return (*([] if below is None else [below]), *checks_of(metric).values())
