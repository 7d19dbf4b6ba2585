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
    if options.topic is not None and options.path is not None:
        yield "dead_letters", "give either topic or path, not both."
    if isinstance(config.source, KafkaOptions):
        if options.topic in config.source.topics:
            problem = f"{options.topic!r} is read by [source] itself; give another."
            yield "dead_letters.topic", problem
    elif options.path is None:
        key = "dead_letters" if options.topic is None else "dead_letters.topic"
        yield key, "the source is no Kafka cluster; give path = a file."
