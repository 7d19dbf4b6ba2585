"""Where a scenario plays, and how it ends."""

from __future__ import annotations

import random
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import msgspec
from kafka.errors import KafkaError

from streameval.errors import StreamevalError
from streameval.testing.broker import Broker
from tests.chaos.check import Faults, faults, progress
from tests.chaos.configuration import Setting
from tests.chaos.daemons import Daemon
from tests.chaos.log import Writer
from tests.chaos.points import POINTS
from tests.chaos.proxy import Proxy
from tests.chaos.truth import Fold, ends
from tests.kafka.topics import create
from tests.stores import s3

PARTITIONS = 4

FAILURES = (TimeoutError, ChildProcessError, KafkaError, StreamevalError, OSError)
"""What ends a scenario is a fault like any other."""


class Stage(msgspec.Struct, kw_only=True):
    """A broker, a folder, and what was seen so far.

    Attributes:
        broker: a real one.
        folder: empty, of this scenario alone.
        seed: of everything random in it.
        client: that daemons read with.
        proxy: before the broker; None where there is none.
        times: how often it hurts.
        minutes: how long it takes, where that is to be said.
        on_s3: whether checkpoints are kept on an S3 server, and not in the folder.
        points: steps at which processes are killed, where it is one after the other.
        counted: counters of the processes that have gone.
        found: what was wrong on the way.
        report: what is told of it beside the verdict.
        open: what is to be closed in the end.
    """

    broker: Broker
    folder: Path
    seed: int
    client: str = "kafka-python"
    proxy: Proxy | None = None
    times: int = 1
    minutes: float = 1 / 3
    on_s3: bool = False
    points: Sequence[str] = tuple(POINTS)
    counted: Counter[str] = msgspec.field(default_factory=Counter)
    found: Faults = msgspec.field(default_factory=list)
    report: list[str] = msgspec.field(default_factory=list)
    open: ExitStack = msgspec.field(default_factory=ExitStack)

    @property
    def draw(self) -> random.Random:
        """A source of chance, from its beginning."""
        return random.Random(self.seed)

    def setting(self, **changed: Any) -> Setting:
        """A fresh topic (`partitions`: how many it has), and how to read it."""
        partitions = changed.pop("partitions", PARTITIONS)
        return Setting(
            address=self.broker.bootstrap_servers,
            topic=create(self.broker, partitions=partitions),
            folder=self.folder,
            bucket=s3.new_path() if self.on_s3 else "",
            client=self.client,
            group=f"chaos-{uuid.uuid4().hex[:8]}",
            **changed,
        )

    def writer(self, setting: Setting, **further: Any) -> Writer:
        """Of the topic."""
        partitions = len(ends(setting))
        writer = Writer(setting.address, setting.topic, partitions, self.seed, **further)
        self.open.callback(writer.close)
        return writer

    @contextmanager
    def daemon(self, setting: Setting, trick: str = "") -> Iterator[Daemon]:
        """A daemon that is killed in the end, if it has not ended before."""
        with Daemon(setting, trick) as daemon:
            yield daemon
        self.gone(daemon)

    def gone(self, daemon: Daemon) -> None:
        """Remember what a process showed before it went."""
        self.counted.update(daemon.shown)

    def stop(self, daemon: Daemon) -> None:
        """Ask it to end, which it must do in order."""
        self.demand(daemon.stop() == 0, f"{daemon.path.name} did not end in order")

    def demand(self, found: object, sentence: str) -> None:
        """Something that must be so, in a sentence of what it is where it is not."""
        if not found:
            self.found.append(sentence)

    def look(self, setting: Setting) -> None:
        """At what was committed and saved, while nothing is being done."""
        self.found += progress(setting)

    def settled(self, setting: Setting, *daemons: Daemon) -> None:
        """Wait until their checkpoints together cover the log."""
        there = ends(setting)
        one, *others = daemons

        def covered() -> bool:
            found: dict[int, int] = {}
            for each in (one, *others):
                found |= each.offsets()
            return all(found.get(number) == end for number, end in there.items())

        one.until(covered)

    def finished(
        self,
        setting: Setting,
        writer: Writer,
        fold: Fold | None = None,
        *,
        exact: bool = False,
        trick: str = "",
    ) -> Faults:
        """A daemon of this setting reads to the end and stops in order; what is wrong then."""
        with self.daemon(setting, trick) as daemon:
            daemon.until(daemon.ready)
            self.settled(setting, daemon)
            self.stop(daemon)
        if fold is None:
            fold = Fold(setting)
            fold.read()
        counted = self.counted
        return self.found + faults(setting, fold, writer.content, counted=counted, exact=exact)
