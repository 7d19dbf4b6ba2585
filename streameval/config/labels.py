"""Which names a label may have: those that Prometheus takes and that no series has already."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TypeAlias

from streameval.catalogue import catalogue, parameters
from streameval.config.settings import Config
from streameval.errors import nearest

Problem: TypeAlias = tuple[str, str]
"""A dotted key, and what is wrong with it."""

_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_RESERVED = frozenset({"k", "le", "quantile", "window", "job", "instance", "convention", "metric"})


def label_problems(config: Config) -> Iterator[Problem]:
    """Labels named twice, or not fit to stand on every series."""
    for index, name in enumerate(config.labels):
        key = f"labels[{index}]"
        if name in config.labels[:index]:
            yield key, f"{name!r} is labels[{config.labels.index(name)}] again; remove one."
        if problem := _unfitness(name):
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
    """Entries of [event.labels] for labels that are not asked for."""
    for name in config.event.labels:
        if name not in config.labels:
            known = ", ".join(map(repr, config.labels)) or "none yet"
            offered = nearest(name, config.labels)
            hint = f" Did you mean {' or '.join(map(repr, offered))}?" if offered else ""
            yield f"event.labels.{name}", f"not among `labels` ({known}).{hint}"
