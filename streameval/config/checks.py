"""What types cannot say: whether the parts of a configuration make sense together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime

from streameval.config.attribution_checks import attribution_problems
from streameval.config.labels import Problem, label_problems, mapping_problems
from streameval.config.metric_checks import (
    experiment_problems,
    extent_problems,
    input_problems,
    metric_problems,
)
from streameval.config.place_checks import dead_letter_problems
from streameval.config.settings import Config
from streameval.config.time_checks import duplicate_problems, duration_problems, window_problems
from streameval.config.web_checks import web_problems
from streameval.errors import ConfigError, SourceError, nearest
from streameval.pipeline.decode import Decoder
from streameval.sources.options import KafkaOptions


def checked(path: str, config: Config) -> Config:
    """The configuration itself, if it makes sense.

    Args:
        path: the file, for errors.
        config: what its types allowed.

    Raises:
        ConfigError: the first thing that does not make sense.
    """
    for check in _CHECKS:
        for key, problem in check(config):
            raise ConfigError(path, key, problem)
    return config


def _time(config: Config) -> Iterator[Problem]:
    event = config.event
    if event.time is not None and event.time_unit is None:
        units = "'s', 'ms', 'us' or 'iso8601'"
        yield "event.time_unit", f"missing beside time = {event.time!r}; give {units}."
    if event.time is None and event.time_unit is not None:
        yield "event.time", f"missing beside time_unit = {event.time_unit!r}; name the field."


def _fields(config: Config) -> Iterator[Problem]:
    try:
        Decoder(config.event, config.dimensions())
    except ConfigError as error:
        yield f"event.{error.key}", error.problem


def _start(config: Config) -> Iterator[Problem]:
    if isinstance(config.source, KafkaOptions) and not _is_start(config.source.start):
        offered = nearest(config.source.start, ("earliest", "latest"))
        hint = f" Did you mean {offered[0]!r}?" if offered else ""
        allowed = "'earliest', 'latest', or a time with offset like '2026-01-31T00:00:00Z'"
        yield "source.start", f"found {config.source.start!r}; give {allowed}.{hint}"


def _is_start(text: str) -> bool:
    if text in {"earliest", "latest"}:
        return True
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False


def _catalog(config: Config) -> Iterator[Problem]:
    try:
        items = config.items()
    except SourceError as error:
        yield "catalog", str(error)
    except ValueError as error:
        yield "catalog", f"{config.catalog}: {error}; give one id a line."
    else:
        if isinstance(items, frozenset) and not items:
            yield "catalog", f"{config.catalog} holds no id; give one id a line."


_CHECKS: tuple[Callable[[Config], Iterator[Problem]], ...] = (
    metric_problems,
    label_problems,
    mapping_problems,
    _time,
    _fields,
    duration_problems,
    window_problems,
    duplicate_problems,
    extent_problems,
    experiment_problems,
    _start,
    dead_letter_problems,
    attribution_problems,
    web_problems,
    _catalog,
    input_problems,
)
