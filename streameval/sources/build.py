"""The source that a configuration describes."""

from __future__ import annotations

from collections.abc import Mapping

from streameval.sources.files import FilesSource
from streameval.sources.options import FilesOptions, KafkaOptions, SourceOptions
from streameval.sources.simulator import SimulatorSource
from streameval.sources.source import Source


def source_of(options: SourceOptions, environment: Mapping[str, str]) -> Source:
    """The source, not yet opened.

    Args:
        options: the [source] table.
        environment: what `${NAME}` in it stands for, usually `os.environ`.
    """
    if isinstance(options, KafkaOptions):
        from streameval.sources.kafka import KafkaSource  # noqa: PLC0415  heavy, so only where used

        return KafkaSource(options, environment)
    if isinstance(options, FilesOptions):
        return FilesSource(options)
    return SimulatorSource(options)
