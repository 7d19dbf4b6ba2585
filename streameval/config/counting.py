"""From a configuration to the pipeline that counts what it asks for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from streameval.accumulator import Accumulator
from streameval.config.durations import microseconds
from streameval.config.families import Group
from streameval.config.joining import joint
from streameval.config.settings import Config
from streameval.pipeline.decode import Decoder
from streameval.pipeline.direct import Direct, Front
from streameval.pipeline.ingest import Ingest
from streameval.pipeline.layout import Layout
from streameval.pipeline.limits import Limits
from streameval.plan import WHOLE
from streameval.windows.family import FamilySpec
from streameval.windows.labels import FoldingOptions


def counting(config: Config, *, keep_letters: bool = False, limits: Limits | None = None) -> Ingest:
    """A pipeline that has counted nothing yet; reads the files that the configuration names.

    Args:
        config: what is counted, and how.
        keep_letters: whether invalid records are kept for whoever takes them away.
        limits: when so many records are invalid that counting must stop; None: never.

    Raises:
        ConfigError: the fields of an event contradict each other.
        MetricError: a metric cannot be understood, or lacks its inputs.
        SourceError: a file cannot be read.
    """
    kept, dimensions = layout(config), config.dimensions()
    front: Front = (
        Direct(Decoder(config.event, dimensions), kept)
        if config.attribution is None
        else joint(config, config.attribution, kept)
    )
    return Ingest(front, keep_letters=keep_letters, limits=limits)


def fitted(config: Config, settings: Mapping[str, Any]) -> Config:
    """The configuration with the depth of a saved state, where that one is deeper.

    Which metrics are asked for may change from start to start; where no depth is configured,
    fewer ranks are no reason to give up what was counted.

    Args:
        config: as it is written.
        settings: those of the state, as `Config.settings` gave them.
    """
    if config.depth is not None or "depth" not in settings:
        return config
    needed, saved = config.kept_depth(), settings["depth"]
    if needed is None and _ranked(config):
        return config
    if needed is not None and saved is not None and saved <= needed:
        return config
    return msgspec.structs.replace(config, depth=WHOLE if saved is None else saved)


def layout(config: Config) -> Layout:
    """What is kept of each partition.

    Raises:
        MetricError: a metric cannot be understood, or lacks its inputs.
        SourceError: a file that the configuration names cannot be read.
    """
    return Layout(
        families=[_spec(config, group, empty) for group, empty in config.accumulators()],
        times=config.times(),
        dedup=None if config.dedup is None else microseconds(config.dedup),
        max_ahead=microseconds(config.max_ahead),
        intervals=config.intervals,
        experiment=config.experiment,
    )


def _ranked(config: Config) -> bool:
    metrics = [metric for group in config.families() for metric in group.metrics]
    return any(metric.definition.reads in ("hits", "lists") for metric in metrics)


def _spec(config: Config, group: Group, empty: Accumulator) -> FamilySpec:
    named = [frozenset(config.label_values.get(name, ())) for name in group.dimensions]
    return FamilySpec(
        name=group.name,
        dimensions=group.dimensions,
        columns=tuple(map(config.dimensions().index, group.dimensions)),
        spans=group.spans,
        metrics=empty.metrics,
        table=empty.table.empty(),
        folding=FoldingOptions(
            cap=config.label_cap, named=tuple(named), max_series=config.max_series
        ),
    )
