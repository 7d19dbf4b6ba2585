"""Where the dead letters of a configuration are, and reading them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import msgspec

from streameval.cli.ending import WrongCallError, reading
from streameval.config import Config, load
from streameval.letters.file import letters_in
from streameval.letters.naming import topics_for
from streameval.letters.reading import LetterTopics
from streameval.pipeline.letters import DeadLetter
from streameval.sources.kafka.settings import source_config, source_topics
from streameval.sources.options import KafkaOptions


class Letters(msgspec.Struct, frozen=True, kw_only=True):
    """The dead letters of a configuration.

    Attributes:
        where: they are, in words.
        found: each letter, as often as it was written; None where there is no such place yet.
    """

    where: str
    found: Iterable[DeadLetter] | None

    @property
    def foreign(self) -> int:
        """Records met among them that are no letters; known once all are read."""
        return self.found.foreign if isinstance(self.found, LetterTopics) else 0


def letters_of(path: Path) -> tuple[Config, Letters]:
    """A configuration, and the dead letters of it.

    Raises:
        ConfigError: the configuration does not say something that can be done.
        WrongCallError: it keeps no dead letters.
        SourceError: no broker answers, or the topic may not be read.
    """
    config = load(path)
    options = config.dead_letters
    if options is not None and options.path is not None:
        return config, _in_file(options.path)
    if not isinstance(config.source, KafkaOptions):
        raise WrongCallError(
            f"{path}: dead letters of such a source are not kept; "
            "name a file in [dead_letters] path to keep those to come."
        )
    with reading(path):
        client = source_config(config.source, os.environ)
        inputs = source_topics(config.source)
        names = topics_for(inputs, None if options is None else options.topic)
    topics = LetterTopics(client, names, inputs)
    where = f"topic {', '.join(names)}"
    return config, Letters(where=where, found=topics if topics.present else None)


def _in_file(path: str) -> Letters:
    there = Path(path).exists()
    return Letters(where=f"file {path}", found=letters_in(path) if there else None)
