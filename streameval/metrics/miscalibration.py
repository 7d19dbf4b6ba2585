"""Distance of the kinds that a user is shown from those in the user's history."""

import math
from collections.abc import Iterable, Mapping
from typing import Annotated, Literal

from streameval.catalogue.items import Attribute
from streameval.catalogue.metric import metric
from streameval.catalogue.ranked_items import amounts_by_kind, items_with_repeats
from streameval.catalogue.signature import By
from streameval.events import Event, Id

_SMOOTHING = 0.01
"""Share of the history in the distribution that it is compared with, so that KL is finite."""


@metric(
    bounds=(0, math.log2(1 / _SMOOTHING)),
    higher_is_better=False,
    source="Steck, Calibrated recommendations, RecSys 2018",
    interactions=False,
)
def miscalibration(
    event: Event,
    k: int | None,
    attribute: Annotated[Attribute, By("genre")],
    *,
    divergence: Literal["kl", "js", "hellinger"] = "kl",
) -> float | None:
    """Distance of the kinds of the first k items from those in the user's history: 0 is calibrated.

    A kind is a value of the attribute `by`, such as a genre; an item of n kinds counts 1/n for
    each. It is the Kullback-Leibler divergence, in bits, of the history from the list mixed with
    1 % of the history. divergence=js is the Jensen-Shannon divergence in bits, hellinger the
    Hellinger distance, both of the unmixed distributions. Each event has a history; those without
    one, and lists or histories without an item that has a kind, are left out. Undefined without
    lists that have both.

        miscalibration@k = mean over lists of (sum over kinds of p * log2(p / (0.99 q + 0.01 p)))
                           p: share of a kind in the history, q: among the first k items

    Example:
        >>> from streameval import Accumulator
        >>> attributes = {"genre": {"a": "drama", "b": "news", "c": "news"}}
        >>> accumulator = Accumulator("miscalibration@2", attributes=attributes)
        >>> accumulator.update(["a", "b"], [], history=["a", "c"])
        >>> accumulator.update(["b", "c"], [], history=["a", "c"])
        >>> round(accumulator.read("miscalibration@2").value, 4)
        1.4128
    """
    if event.history is None:
        return None
    history = _shares(event.history, attribute)
    recommended = _shares(items_with_repeats(event, k), attribute)
    if not history or not recommended:
        return None
    if divergence == "kl":
        pairs = [(p, recommended.get(kind, 0.0)) for kind, p in history.items()]
        return _divergence((p, (1 - _SMOOTHING) * q + _SMOOTHING * p) for p, q in pairs)
    pairs = [
        (history.get(kind, 0.0), recommended.get(kind, 0.0)) for kind in {*history, *recommended}
    ]
    if divergence == "js":
        halves = [(p, q, (p + q) / 2) for p, q in pairs]
        first, second = ([(half[side], half[2]) for half in halves] for side in (0, 1))
        return (_divergence(first) + _divergence(second)) / 2
    return math.sqrt(math.fsum((math.sqrt(p) - math.sqrt(q)) ** 2 for p, q in pairs) / 2)


def _shares(items: Iterable[Id], attribute: Attribute) -> Mapping[str, float]:
    """Kind -> its share; empty if no item has a kind."""
    amounts = amounts_by_kind(items, attribute)
    total = math.fsum(amounts.values())
    return {kind: amount / total for kind, amount in amounts.items()}


def _divergence(pairs: Iterable[tuple[float, float]]) -> float:
    """The divergence of Kullback and Leibler in bits, at least 0 whatever is rounded."""
    return max(0.0, math.fsum(p * math.log2(p / q) for p, q in pairs if p))
