"""What Hypothesis draws from: events as streams have them, and the texts of every metric."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from streameval.catalogue import catalogue, parameters
from streameval.metric import Parameter
from tests.metrics.preparation import Id, Interactions, Shown

CUTOFFS = (1, 2, 3, 5, 10, None)

# Small alphabets, so that lists and interactions meet; of every script, so that ids are only ids.
WORDS = ("a", "b", "c", "d", "e", "f", "ü", "物", "x y", "0", "1", '"')
NUMBERS = tuple(range(12))

# Values of the parameters that have no list of choices; None is the default.
_OPEN: Mapping[str, tuple[float | int | None, ...]] = {
    "rows": (None, 3),
    "min_gain": (None, 0.5, 2.0),
}

gains = st.one_of(
    st.sampled_from([1, 1.0, 2, 3, 0, 0.0, -0.0, -1, 0.5, 0.1]),
    st.sampled_from([5e-324, 1e-300, 1e-20, 1e300, 1.7976931348623157e308, 2**70, 1e16]),
    st.floats(min_value=-10, max_value=10, allow_nan=False),
)
"""Any finite gain is valid: none, less than none, a fraction, tiny and huge ones."""

measurable_gains = st.one_of(
    st.sampled_from([1, 1.0, 2, 3, 0, -1, 0.5, 0.1]),
    st.sampled_from([1e-20, 1e-100, 1e16, 1e100, 1e300]),
    st.floats(min_value=-10, max_value=10).filter(lambda gain: abs(gain) > 1e-200 or gain == 0),
)
"""Gains whose discounted value keeps all its digits."""


def ids() -> SearchStrategy[tuple[Id, ...]]:
    """The ids of one stream: words or numbers, never both."""
    return st.sampled_from([WORDS, NUMBERS])


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


def recommendations(items: tuple[Id, ...]) -> SearchStrategy[list[Id]]:
    """Lists with and without repeats, also empty ones."""
    item = st.sampled_from(items)
    return st.one_of(st.lists(item, max_size=12, unique=True), st.lists(item, max_size=12))


@st.composite
def lists(
    draw: st.DrawFn, items: tuple[Id, ...], gain: SearchStrategy[float], *, repeats: bool = True
) -> Shown:
    """One event; one in three has ranks of its own, which without repeats differ."""
    shown = draw(recommendations(items))
    if not repeats:
        shown = list(dict.fromkeys(shown))
    positions = None
    if draw(st.integers(0, 2)) == 0:
        rank = st.integers(1, 14)
        size = len(shown)
        positions = draw(st.lists(rank, min_size=size, max_size=size, unique=not repeats))
    return Shown(shown, draw(interactions(items, gain)), positions)


def streams(
    gain: SearchStrategy[float] = gains, *, repeats: bool = True
) -> SearchStrategy[list[Shown]]:
    """Events of one stream."""
    return ids().flatmap(lambda items: st.lists(lists(items, gain, repeats=repeats), max_size=12))


@cache
def texts_of(name: str, k: int | None) -> list[str]:
    """A metric's text for every choice of its parameters, at one cut-off."""
    chosen: list[dict[str, object]] = [{}]
    for parameter in parameters(catalogue()[name]).values():
        options = parameter.choices or _OPEN.get(parameter.name) or (None, _other(parameter))
        usual = None if parameter.choices is None else parameter.default
        chosen = [
            {**choice, parameter.name: value} if value not in (None, usual) else choice
            for choice in chosen
            for value in options
        ]
    return [_text(name, choice, k) for choice in chosen if _sensible(choice)]


def _other(parameter: Parameter) -> float | int:
    """A value besides the default, for a parameter that no line above knows."""
    if isinstance(parameter.default, float):
        return parameter.default / 2
    assert isinstance(parameter.default, int)
    return parameter.default + 1


def texts() -> SearchStrategy[tuple[str, ...]]:
    """One text of every metric of the catalogue, all at one cut-off."""
    return st.sampled_from(CUTOFFS).flatmap(
        lambda k: st.tuples(*(st.sampled_from(texts_of(name, k)) for name in catalogue()))
    )


def _sensible(choice: Mapping[str, object]) -> bool:
    return "rows" not in choice or choice.get("repeats") == "compact_after_cut"


def _text(name: str, choice: Mapping[str, object], k: int | None) -> str:
    inside = ",".join(f"{key}={value}" for key, value in choice.items())
    cut = "" if k is None else f"@{k}"
    return f"{name}({inside}){cut}" if inside else f"{name}{cut}"


def same(left: float, right: float) -> bool:
    """Equal to 12 digits; undefined is equal to undefined."""
    if math.isnan(left) or math.isnan(right):
        return math.isnan(left) and math.isnan(right)
    return math.isclose(left, right, rel_tol=1e-12)
