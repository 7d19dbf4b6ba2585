"""What is done to daemons; each scenario ends in order, and is then checked against the log."""

from __future__ import annotations

import random
import signal
import time
import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType
from typing import TypeAlias

import msgspec

from streameval.broker import Broker
from tests.chaos.check import Faults, faults
from tests.chaos.configuration import Setting
from tests.chaos.daemons import Daemon
from tests.chaos.log import Writer
from tests.chaos.victim import FULL, POINTS
from tests.kafka.topics import create

PARTITIONS = 4


class Stage(msgspec.Struct, kw_only=True):
    """Where a scenario plays.

    Attributes:
        broker: a real one.
        folder: empty, of this scenario alone.
        seed: of everything random in it.
        times: how often it hurts.
        counted: counters of the processes that have gone.
    """

    broker: Broker
    folder: Path
    seed: int
    times: int
    counted: Counter[str] = msgspec.field(default_factory=Counter)

    def setting(self, **changed: str | int | None) -> Setting:
        """A fresh topic, and how to read it."""
        topic = create(self.broker, partitions=PARTITIONS)
        common = {"address": self.broker.bootstrap_servers, "folder": self.folder}
        return Setting(topic=topic, group=f"chaos-{uuid.uuid4().hex[:8]}", **common, **changed)

    def writer(self, setting: Setting) -> Writer:
        """Of the topic."""
        return Writer(setting.address, setting.topic, PARTITIONS, self.seed)

    def gone(self, daemon: Daemon) -> None:
        """Remember what a process showed before it went."""
        self.counted.update(daemon.shown)

    def finished(self, setting: Setting, writer: Writer) -> Faults:
        """A daemon of this setting reads to the end and stops in order; what is wrong then."""
        with Daemon(setting) as daemon:
            daemon.until(daemon.ready)
            daemon.until(lambda: daemon.lag() == 0)
            status = daemon.stop()
            self.gone(daemon)
        found = faults(setting, writer.content, counted=self.counted)
        return found if status == 0 else [f"SIGTERM ended in status {status}", *found]


Scenario: TypeAlias = Callable[[Stage], Faults]


def kill(stage: Stage) -> Faults:
    """kill -9 at random, `times` times, while records come in; a static member."""
    draw = random.Random(stage.seed)
    setting = stage.setting(member="one")
    writer = stage.writer(setting)
    for _ in range(stage.times):
        with Daemon(setting) as daemon:
            daemon.until(daemon.ready)
            writer.write(draw.randrange(200, 2_000))
            time.sleep(draw.random())
            daemon.scrape()
        stage.gone(daemon)
    writer.write(500)
    return stage.finished(setting, writer)


def move(stage: Stage) -> Faults:
    """Partitions go from A to B and back to A, over one store."""
    setting = stage.setting()
    writer = stage.writer(setting)
    for _ in range(stage.times):
        with ExitStack() as both:
            first = both.enter_context(Daemon(setting))
            first.until(first.ready)
            writer.write(1_000)
            second = both.enter_context(Daemon(setting))
            second.until(second.ready)
            writer.write(1_000)
            first.stop()
            writer.write(1_000)
            second.until(lambda: second.lag() == 0)  # noqa: B023  asked at once
            second.scrape()
            second.kill()
            stage.gone(first)
            stage.gone(second)
    return stage.finished(setting, writer)


def zombie(stage: Stage) -> Faults:
    """A member sleeps longer than its session while another takes over, and then wakes up."""
    setting = stage.setting(session=1_500)
    writer = stage.writer(setting)
    for _ in range(stage.times):
        with ExitStack() as both:
            sleeper = both.enter_context(Daemon(setting))
            sleeper.until(sleeper.ready)
            writer.write(1_000)
            sleeper.scrape()
            sleeper.process.send_signal(signal.SIGSTOP)
            heir = both.enter_context(Daemon(setting))
            writer.write(1_000)
            heir.until(lambda: heir.lag() == 0)  # noqa: B023  asked at once
            sleeper.process.send_signal(signal.SIGCONT)
            writer.write(1_000)
            time.sleep(2.0)
            for each in (sleeper, heir):
                each.stop()
                stage.gone(each)
    return stage.finished(setting, writer)


def broker_restart(stage: Stage) -> Faults:
    """The broker is killed and comes back while a daemon reads."""
    setting = stage.setting(member="one")
    writer = stage.writer(setting)
    with Daemon(setting) as daemon:
        daemon.until(daemon.ready)
        for _ in range(stage.times):
            writer.write(1_000)
            stage.broker.kill()
            time.sleep(1.0)
            stage.broker.start()
            writer.write(1_000)
        daemon.until(lambda: daemon.lag() == 0)
        daemon.stop()
        stage.gone(daemon)
    return stage.finished(setting, writer)


def points(stage: Stage) -> Faults:
    """kill -9 at each step of a checkpoint and of taking over."""
    setting = stage.setting(member="one")
    writer = stage.writer(setting)
    for name in POINTS:
        if "revoke" not in name:
            writer.write(500)
            _die(stage, setting, writer, name)
    return stage.finished(setting, writer)


def revoke(stage: Stage) -> Faults:
    """kill -9 while partitions are given away."""
    setting = stage.setting(session=1_500)
    writer = stage.writer(setting)
    for name in (each for each in POINTS if "revoke" in each):
        writer.write(500)
        with ExitStack() as both:
            giver = both.enter_context(Daemon(setting, name))
            giver.until(giver.ready)
            writer.write(500)
            giver.scrape()
            both.enter_context(Daemon(setting))
            giver.until(lambda: not giver.running, alive=False)  # noqa: B023  asked at once
            stage.gone(giver)
    return stage.finished(setting, writer)


def disk_full(stage: Stage) -> Faults:
    """The disk of the store is full for a while; counting goes on, and is saved later."""
    setting = stage.setting(member="one")
    writer = stage.writer(setting)
    flag = setting.folder / FULL
    with Daemon(setting, FULL) as daemon:
        daemon.until(daemon.ready)
        for _ in range(stage.times):
            writer.write(500)
            flag.touch()
            failures = daemon.failures()
            writer.write(500)
            daemon.until(lambda: daemon.failures() > failures)  # noqa: B023  asked at once
            flag.unlink()
        daemon.until(lambda: daemon.lag() == 0)
        daemon.stop()
        stage.gone(daemon)
    return stage.finished(setting, writer)


def _die(stage: Stage, setting: Setting, writer: Writer, point: str) -> None:
    with Daemon(setting, point) as daemon:
        while daemon.running:
            writer.write(100)
            daemon.scrape()
            time.sleep(0.1)
        stage.gone(daemon)


SCENARIOS: Mapping[str, Scenario] = MappingProxyType(
    {
        "kill": kill,
        "points": points,
        "revoke": revoke,
        "move": move,
        "zombie": zombie,
        "broker-restart": broker_restart,
        "disk-full": disk_full,
    }
)
"""By the names that the command line knows them by."""
