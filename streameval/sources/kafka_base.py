"""What reading Kafka has in common, with a group and without one."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

from kafka.errors import KafkaError

from streameval.sources.kafka_client import UNUSABLE, explanation, hush, unusable
from streameval.sources.kafka_client import warn_of_slow_checksums as warn
from streameval.sources.kafka_failures import permanent
from streameval.sources.kafka_secrets import redacted
from streameval.sources.kafka_watch import ClusterWatch

_LOG: Final = logging.getLogger("streameval.sources.kafka")


class KafkaBase:
    """Topics under watch, and errors of the client as a user should meet them.

    Args:
        topics: which topics.
        config: settings of the client.
        start: EARLIEST, LATEST, or milliseconds since the epoch.

    Attributes:
        topics, config, start: as given.
        watch: the look at the cluster beside the reading.
    """

    def __init__(self, topics: Sequence[str], config: Mapping[str, Any], start: int) -> None:
        self.topics = topics
        self.config = config
        self.start = start
        self.watch = self._new_watch()
        self._stumble: str | None = None

    @property
    def name(self) -> str:
        """The topics."""
        return ", ".join(self.topics)

    @property
    def trouble(self) -> str | None:
        """Why nothing, or not everything, can be read at the moment."""
        return self.watch.trouble or self._stumble

    def begin(self) -> None:
        """Begin to look for the cluster."""
        hush()
        warn()
        _LOG.info("reading Kafka topics %s with %s", self.name, redacted(self.config))
        self.watch = self._new_watch()
        self._stumble = None
        self.watch.begin()

    def require_sound(self) -> None:
        """Refuse to go on where the watch has found that it makes no sense.

        Raises:
            SourceError: it does not.
        """
        if self.watch.failure is not None:
            raise self.watch.failure

    def guard(self, seconds: float) -> Guard:
        """Around requests: trouble that may pass ends them, after a while, and shows in `trouble`.

        Raises:
            SourceError: it will not pass.
        """
        return Guard(self, seconds)

    def passed(self) -> None:
        """There is no trouble, as far as reading goes."""
        self._stumble = None

    def wait_out(self, error: Exception, seconds: float) -> None:
        """Wait a while, and say what for.

        Raises:
            SourceError: waiting will not help.
        """
        if isinstance(error, UNUSABLE):
            raise unusable(error, self.config) from error
        lasting = permanent(error)
        if lasting is not None:
            raise lasting from error
        self._stumble = f"{explanation(error, self.config)}; still trying."
        self.watch.pause(seconds)

    def _new_watch(self) -> ClusterWatch:
        return ClusterWatch(self.topics, self.config, self.start)


class Guard:
    """Requests whose errors are a source's; see `KafkaBase.guard`."""

    def __init__(self, base: KafkaBase, seconds: float) -> None:
        self._base = base
        self._seconds = seconds

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if isinstance(error, (*UNUSABLE, KafkaError, OSError)):
            self._base.wait_out(error, self._seconds)
            return True
        if error is None:
            self._base.passed()
        return False
