"""Hypothesis strategies: events of streams, and the texts of every metric."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from streameval.catalogue import catalogue, parameters, parse
from streameval.catalogue.grammar import format_value
from streameval.events import Event, Interaction
from tests.metrics.preparation import Id, Interactions

if TYPE_CHECKING:
    # `tests.digests` runs this with earlier versions of the package, which lack the name.
    from streameval.catalogue.signature import ParameterValue

CUTOFFS = (1, 2, 3, 5, 10, None)

# Small alphabets, so that lists and interactions meet; of every script, so that ids are only ids.
WORDS = ("a", "b", "c", "d", "e", "f", "ü", "物", "x y", "0", "1", '"')
NUMBERS = tuple(range(12))
FAR = (0, 1, -2, 5, 2**31, 2**53 + 1, 2**63 - 1, -(2**63), 2**62, -(2**61))

# Values of the parameters that have no list of choices; None is the default.
_OPEN: Mapping[str, tuple[ParameterValue, ...]] = {
    "least": (0.3,),
    "by": ("genre", "kind"),
    "among": ("tier:news", "genre:drama"),
    "alpha": (0.25, 1),
    "min_gain": (0.5, 2.0),
    "type": ("purchase",),
    "q": (0.25, 0.9),
    "confidence": (0.8,),
    "p": (0.5,),
    "max_grade": (4,),
    "tail": (0.3, 2),
    "beta": (0.5, 2),
    "base": (10,),
    "cap": (1.5, 0.4),
    "bins": (4,),
    "recall": (0.25, 1),
    "rank": (2,),
    "propensity": ("target",),
    "target": ("propensity", "nowhere"),
    "predicted": ("expected",),
    "expected": ("predicted",),
    "clip": (1.5, 3),
    "direct": (True,),
    "floor": (0.35,),
    "a": ("c",),
    "b": ("a",),
    "team": ("nowhere",),
}

# Parameters that matter only if another one has one of these values.
_ONLY_WITH: Mapping[str, tuple[str, tuple[ParameterValue, ...]]] = {
    "q": ("statistic", ("quantile",)),
    "confidence": ("statistic", ("half_width",)),
}

Choice: TypeAlias = "Mapping[str, ParameterValue]"

TIMES = (None, *((20_000 + day) * 86_400 * 1_000_000 for day in range(4)))
"""Times of events: none, or one of four days."""


def event_of(
    recommendations: Sequence[Id],
    interactions: Any,
    positions: Sequence[int] | None = None,
    **beside: Any,
) -> Event:
    return Event(
        recommendations=recommendations, interactions=interactions, positions=positions, **beside
    )


gains = st.one_of(
    st.sampled_from([1, 1.0, 2, 3, 0, 0.0, -0.0, -1, 0.5, 0.1]),
    st.sampled_from([5e-324, 1e-300, 1e-20, 1e300, 2.0**1000, 2**70, 1e16]),
    st.floats(min_value=-10, max_value=10, allow_nan=False),
)
"""Any gain up to 2^1000 is valid: none, less than none, a fraction, tiny and huge ones."""

measurable_gains = st.one_of(
    st.sampled_from([1, 1.0, 2, 3, 0, -1, 0.5, 0.1]),
    st.sampled_from([1e-20, 1e-100, 1e16, 1e100, 1e300]),
    st.floats(min_value=-10, max_value=10).filter(lambda gain: abs(gain) > 1e-200 or gain == 0),
)
"""Gains whose discounted value keeps all its digits."""


scores = st.one_of(
    st.sampled_from([0.0, 0.1, 0.2, 0.5, 0.5, 0.9, 1.0, 1e-12]), st.floats(min_value=0, max_value=1)
)
"""Probabilities, many of them equal."""


# Strategies are made once for the same arguments: to make one costs more than to draw from it.
@cache
def interactions(
    items: tuple[Id, ...], gain: SearchStrategy[float]
) -> SearchStrategy[Interactions]:
    """Lists, some with repeats, sets, and gains by item; often none at all."""
    item = st.sampled_from(items)
    return st.one_of(
        st.just(()),
        st.lists(item, max_size=1),
        st.lists(item, max_size=6),
        st.frozensets(item, max_size=6),
        st.dictionaries(item, gain, max_size=6),
    )


@cache
def recommendations(items: tuple[Id, ...]) -> SearchStrategy[list[Id]]:
    """Lists with and without repeats, also empty ones."""
    item = st.sampled_from(items)
    return st.one_of(st.lists(item, max_size=12, unique=True), st.lists(item, max_size=12))


@cache
def typed(items: tuple[Id, ...], gain: SearchStrategy[float]) -> SearchStrategy[Interaction]:
    """Interactions as they were logged; an item may have several, of several types."""
    kind = st.sampled_from([None, "click", "purchase"])
    return st.builds(Interaction, item=st.sampled_from(items), gain=gain, type=kind)


@cache
def lists(
    items: tuple[Id, ...], gain: SearchStrategy[float], *, repeats: bool = True
) -> SearchStrategy[Event]:
    """One event; one in three has ranks of its own, which without repeats differ."""
    baseline, user = st.none() | recommendations(items), st.none() | st.sampled_from(items)
    logged = st.just(()) | st.lists(typed(items, gain), max_size=4)

    @st.composite
    def event(draw: st.DrawFn) -> Event:
        items_shown = draw(recommendations(items))
        if not repeats:
            items_shown = list(dict.fromkeys(items_shown))
        size = len(items_shown)
        return event_of(
            items_shown,
            draw(interactions(items, gain)),
            draw(_positions(size, unique=not repeats)) if draw(_thirds) == 0 else None,
            scores=draw(_scores(size)),
            baseline=draw(baseline),
            typed=draw(logged),
            history=draw(baseline),
            per_item=draw(_item_values(size)),
            user=draw(user),
            ts=draw(_times),
        )

    return event()


_thirds = st.integers(0, 2)
_times = st.sampled_from(TIMES)


@cache
def _positions(size: int, *, unique: bool) -> SearchStrategy[list[int]]:
    return st.lists(st.integers(1, 14), min_size=size, max_size=size, unique=unique)


@cache
def _scores(size: int) -> SearchStrategy[list[float] | None]:
    return st.none() | st.lists(scores, min_size=size, max_size=size)


_NAMES_OF_VALUES = ("propensity", "target", "predicted", "expected", "team")
_chance = st.sampled_from([0.0625, 0.25, 0.5, 1.0, 0.3])
_item_value = st.none() | st.sampled_from([0.0, 7.0, 1e-310])


@cache
def _item_values(size: int) -> SearchStrategy[dict[str, list[Any]] | None]:
    chances, any_values = (
        st.lists(value, min_size=size, max_size=size) for value in (_chance, _chance | _item_value)
    )
    named = st.dictionaries(st.sampled_from(_NAMES_OF_VALUES), any_values, min_size=1)
    teams = st.lists(st.sampled_from(["a", "b", "c", None]), min_size=size, max_size=size)
    usual: dict[Any, Any] = {**dict.fromkeys(_NAMES_OF_VALUES, chances), "team": teams}
    return st.none() | st.fixed_dictionaries(usual) | named


@cache
def streams(
    gain: SearchStrategy[float] = gains, *, repeats: bool = True
) -> SearchStrategy[list[Event]]:
    """Events of one stream, whose ids are words or numbers, never both."""
    return st.one_of(
        *(
            st.lists(lists(items, gain, repeats=repeats), max_size=12)
            for items in (WORDS, NUMBERS, FAR)
        )
    )


@cache
def texts_of(name: str, k: int | None) -> list[str]:
    """A metric's texts: each value of each parameter by itself, and some values together."""
    draw = random.Random(f"{name}@{k}")
    choices_of = _values_of(name)
    alone: list[Choice] = [{key: value} for key, choices in choices_of.items() for value in choices]
    together = [_drawn(draw, choices_of) for _ in range(12)]
    chosen = [_completed(choice, choices_of) for choice in ({}, *alone, *together)]
    texts = (_text(name, choice, k) for choice in chosen)
    return list(dict.fromkeys(parse(text).text for text in texts))


def takes_k(name: str) -> bool:

    return catalogue()[name].takes_k


def texts() -> SearchStrategy[tuple[str, ...]]:
    """Texts of some metrics of the catalogue, all at one cut-off, or at none."""
    some = st.lists(st.sampled_from(sorted(catalogue())), min_size=1, max_size=5)
    return st.tuples(some, st.sampled_from(CUTOFFS)).flatmap(
        lambda drawn: st.tuples(
            *(
                st.sampled_from(texts_of(name, drawn[1] if takes_k(name) else None))
                for name in drawn[0]
            )
        )
    )


def _values_of(name: str) -> dict[str, tuple[ParameterValue, ...]]:
    result = parameters(catalogue()[name]).values()
    for parameter in result:
        message = f"add values of {parameter.name!r}, a parameter of {name}, to _OPEN"
        assert parameter.choices or parameter.name in _OPEN, message
    return {
        parameter.name: tuple(
            value
            for value in parameter.choices or _OPEN[parameter.name]
            if value != parameter.default
        )
        for parameter in result
    }


def _drawn(draw: random.Random, choices_of: Mapping[str, tuple[ParameterValue, ...]]) -> Choice:
    return {key: draw.choice(choices) for key, choices in choices_of.items() if draw.random() < 0.3}


def _completed(choice: Choice, choices_of: Mapping[str, tuple[ParameterValue, ...]]) -> Choice:
    """The parameters, with others that their values need to matter, or without those values."""
    needed = dict(choice)
    for key in choice:
        other, wanted = _ONLY_WITH.get(key, (None, ()))
        if other in choices_of and needed.get(str(other)) not in wanted and (last := wanted[-1]):
            needed[str(other)] = last
    return {key: value for key, value in needed.items() if _matters(key, needed, choices_of)}


def _matters(
    key: str, choice: Choice, choices_of: Mapping[str, tuple[ParameterValue, ...]]
) -> bool:
    other, wanted = _ONLY_WITH.get(key, ("", ()))
    return other not in choices_of or choice.get(other) in wanted


def _text(name: str, choice: Choice, k: int | None) -> str:
    inside = ",".join(f"{key}={format_value(value)}" for key, value in choice.items())
    cut = "" if k is None else f"@{k}"
    return f"{name}({inside}){cut}" if inside else f"{name}{cut}"


def same(left: float, right: float, abs_tol: float = 0.0) -> bool:
    """Equal to 12 digits; undefined is equal to undefined."""
    if math.isnan(left) or math.isnan(right):
        return math.isnan(left) and math.isnan(right)
    return math.isclose(left, right, rel_tol=1e-12, abs_tol=abs_tol)
