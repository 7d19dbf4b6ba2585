"""A run of one scenario: its resources, the problems found, and the final check."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from typing import Any

import msgspec
from kafka.errors import KafkaError

from streameval.events.errors import StreamevalError
from streameval.testing.broker import Broker
from tests.chaos.check import Problems, Recount, ends, problems, progress
from tests.chaos.daemons import Daemon, DaemonConfig
from tests.chaos.faulty_daemon import POINTS
from tests.chaos.log import Writer
from tests.chaos.proxy import Proxy
from tests.kafka.topics import create
from tests.stores import s3

PARTITIONS = 4

ERRORS = (TimeoutError, ChildProcessError, KafkaError, StreamevalError, OSError)
"""Errors that end a scenario count as problems."""


class ScenarioRun(msgspec.Struct, kw_only=True):
    """A broker, a folder, and the observations so far.

    Attributes:
        client: Kafka client of the daemons.
        on_s3: whether checkpoints are on an S3 server, not in the folder.
        points: kill points of the scenario `points`.
        counted: sum of the counters of exited processes.
        resources: closed at the end.
    """

    broker: Broker
    folder: Path
    seed: int
    client: str = "kafka-python"
    proxy: Proxy | None = None
    on_s3: bool = False
    points: Sequence[str] = tuple(POINTS)
    counted: Counter[str] = msgspec.field(default_factory=Counter)
    problems: Problems = msgspec.field(default_factory=list)
    resources: ExitStack = msgspec.field(default_factory=ExitStack)

    @property
    def random(self) -> Random:
        """A new generator from the seed."""
        return Random(self.seed)

    def config(self, **changed: Any) -> DaemonConfig:
        """Create a topic with `partitions`, and the configuration of its daemons."""
        partitions = changed.pop("partitions", PARTITIONS)
        return DaemonConfig(
            address=self.broker.bootstrap_servers,
            topic=create(self.broker, partitions=partitions),
            folder=self.folder,
            bucket=s3.new_path() if self.on_s3 else "",
            client=self.client,
            group=f"chaos-{uuid.uuid4().hex[:8]}",
            **changed,
        )

    def writer(self, config: DaemonConfig, **further: Any) -> Writer:
        partitions = len(ends(config))
        writer = Writer(config.address, config.topic, partitions, self.seed, **further)
        self.resources.callback(writer.close)
        return writer

    @contextmanager
    def daemon(self, config: DaemonConfig, fault: str = "") -> Iterator[Daemon]:
        """A daemon that is killed at the end of the block if it still runs."""
        with Daemon(config, fault) as daemon:
            yield daemon
        self.counted.update(daemon.shown)

    def stop(self, daemon: Daemon) -> None:
        """Stop a daemon, which must exit with 0."""
        self.expect(daemon.stop() == 0, f"{daemon.path.name} did not stop cleanly")

    def expect(self, condition: object, problem: str) -> None:
        """Record a problem unless the condition holds."""
        if not condition:
            self.problems.append(problem)

    def check_progress(self, config: DaemonConfig) -> None:
        """Check commits and checkpoints while no daemon runs."""
        self.problems += progress(config)

    def wait_until_saved(self, config: DaemonConfig, *daemons: Daemon) -> None:
        """Wait until the checkpoints of these daemons cover the log."""
        there = ends(config)
        first, *others = daemons

        def covered() -> bool:
            reached: dict[int, int] = {}
            for daemon in (first, *others):
                reached |= daemon.offsets()
            return all(reached.get(number) == end for number, end in there.items())

        first.wait_for(covered)

    def finish(
        self,
        config: DaemonConfig,
        writer: Writer,
        recount: Recount | None = None,
        *,
        exact: bool = False,
        fault: str = "",
    ) -> Problems:
        """Let a daemon read to the end and stop; all problems of the run."""
        with self.daemon(config, fault) as daemon:
            daemon.wait_for(daemon.ready)
            self.wait_until_saved(config, daemon)
            self.stop(daemon)
        if recount is None:
            recount = Recount(config)
            recount.read()
        counted = self.counted
        return self.problems + problems(
            config, recount, writer.content, counted=counted, exact=exact
        )
