"""Which names labels and segments may have: Prometheus takes them, no series has them already."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from streameval.catalogue import catalogue, parameters
from streameval.config.families import LABELS
from streameval.config.settings import Config
from streameval.errors import nearest

Problem: TypeAlias = tuple[str, str]
"""A dotted key, and what is wrong with it."""

_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_RESERVED = frozenset({"k", "le", "quantile", "window", "job", "instance", "convention", "metric"})


def label_problems(config: Config) -> Iterator[Problem]:
    """Labels and segments named twice, or not fit to stand on every series."""
    named = [(f"labels[{index}]", name) for index, name in enumerate(config.labels)]
    named += [(f"segments[{index}]", name) for index, name in enumerate(config.segments)]
    first: dict[str, str] = {}
    for key, name in named:
        if name in first:
            yield key, f"{name!r} is {first[name]} again; remove one."
        if problem := _unfitness(name):
            yield key, f"{problem}; choose another name and map it under [event.labels]."
        first.setdefault(name, key)
    if LABELS in config.segments:
        problem = f"{LABELS!r} is what streameval calls the series without a segment"
        key = f"segments[{config.segments.index(LABELS)}]"
        yield key, f"{problem}; choose another name and map it under [event.labels]."


def _unfitness(name: str) -> str | None:
    if not _LABEL.fullmatch(name):
        return f"{name!r} is no label name (letters, digits and _, not beginning with a digit)"
    if name.startswith("__"):
        return f"{name!r} begins with __, which Prometheus keeps for itself"
    if name in _RESERVED:
        return f"{name!r} is a label that streameval or Prometheus writes itself"
    for definition in catalogue().values():
        if name in parameters(definition):
            return f"{name!r} is a parameter of the metric {definition.name!r}, written as a label"
    return None


def mapping_problems(config: Config) -> Iterator[Problem]:
    """Names in [event.labels] and label_values that are neither labels nor segments."""
    known = "`labels` and `segments`" if config.segments else "`labels`"
    for table, mapping in (
        ("event.labels", config.event.labels),
        ("label_values", config.label_values),
    ):
        for name in mapping:
            if problem := absence(name, config.dimensions(), known):
                yield f"{table}.{name}", problem


def absence(name: str, among: Sequence[str], called: str) -> str | None:
    """The sentence for a name that is not among those it must be among; None where it is.

    Args:
        name: what was found.
        among: what is allowed.
        called: where that is configured.
    """
    if name in among:
        return None
    known = ", ".join(map(repr, among)) or "none yet"
    offered = nearest(name, among)
    hint = f" Did you mean {' or '.join(map(repr, offered))}?" if offered else ""
    return f"not among {called} ({known}).{hint}"
