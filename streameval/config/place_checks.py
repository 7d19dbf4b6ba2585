"""Whether what is said of files and topics besides the source makes sense."""

from __future__ import annotations

from collections.abc import Iterator

from streameval.config.labels import Problem
from streameval.config.settings import Config
from streameval.sources.options import KafkaOptions


def dead_letter_problems(config: Config) -> Iterator[Problem]:
    """Dead letters with two places or none, or a topic where there is no cluster for it."""
    options = config.dead_letters
    if options is None:
        return
    if (options.topic is None) == (options.path is None):
        yield "dead_letters", "give either topic or path."
    if options.topic is None:
        return
    if not isinstance(config.source, KafkaOptions):
        yield "dead_letters.topic", "the source is no Kafka cluster; give path = a file instead."
    elif options.topic in config.source.topics:
        yield "dead_letters.topic", f"{options.topic!r} is read by [source] itself; give another."
