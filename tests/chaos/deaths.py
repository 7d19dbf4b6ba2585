"""Processes that are killed: whenever, and at each step."""

from __future__ import annotations

import signal
import time
from contextlib import ExitStack

from tests.chaos.check import Faults
from tests.chaos.configuration import Setting
from tests.chaos.daemons import Daemon
from tests.chaos.log import Writer
from tests.chaos.points import GIVING
from tests.chaos.stage import Stage

_RATE = 200
_KILLS = 20


def kill(stage: Stage) -> Faults:
    """kill -9 at random while records come in; a static member."""
    draw = stage.draw
    setting = stage.setting(member="one", events=200)
    writer = stage.writer(setting)
    for _ in range(stage.times):
        with stage.daemon(setting) as daemon, writer.flowing(draw.randrange(100, 500)):
            daemon.until(daemon.ready)
            time.sleep(draw.random())
            daemon.scrape()
            time.sleep(draw.random() / 10)
            daemon.kill()
        stage.look(setting)
    return stage.finished(setting, writer)


def points(stage: Stage) -> Faults:
    """kill -9 at each step of a checkpoint, of taking over, and of ending."""
    setting = stage.setting(member="one", events=200)
    writer = stage.writer(setting)
    for name in stage.points:
        if name not in GIVING:
            dies_at(stage, setting, writer, name)
    return stage.finished(setting, writer)


def dies_at(stage: Stage, setting: Setting, writer: Writer, point: str) -> None:
    """A daemon counts until it gets to the point."""
    with stage.daemon(setting, point) as daemon, writer.flowing(_RATE):
        if point == "in-finish":
            daemon.until(daemon.ready)
            daemon.stop()
        daemon.until(lambda: not (daemon.scrape() and daemon.running), alive=False)
        died(stage, daemon, point)
    stage.look(setting)


def revoke(stage: Stage) -> Faults:
    """kill -9 while partitions are given away."""
    setting = stage.setting(session=1_500)
    writer = stage.writer(setting)
    for name in GIVING:
        with stage.daemon(setting, name) as giver, writer.flowing(_RATE):
            giver.until(giver.offsets)
            with stage.daemon(setting) as taker:
                giver.refused()
                died(stage, giver, name)
                taker.until(taker.ready)
                taker.scrape()
        stage.look(setting)
    return stage.finished(setting, writer)


def replicas(stage: Stage) -> Faults:
    """Three members on eight partitions; kill -9 of any of them, twenty times."""
    draw = stage.draw
    setting = stage.setting(partitions=8, session=1_500, events=200)
    writer = stage.writer(setting)
    with ExitStack() as stack, writer.flowing(_RATE):
        there = [stack.enter_context(stage.daemon(setting)) for _ in range(3)]
        for _ in range(_KILLS):
            for each in there:
                each.until(each.ready)
            time.sleep(2 * draw.random())
            victim = there.pop(draw.randrange(len(there)))
            victim.scrape()
            victim.kill()
            there.append(stack.enter_context(stage.daemon(setting)))
        for each in there:
            stage.stop(each)
    return stage.finished(setting, writer)


def transactions(stage: Stage) -> Faults:
    """Committed, aborted and open transactions in the log, and kills in between."""
    setting = stage.setting(member="one", events=200)
    plain = stage.writer(setting)
    writer = stage.writer(setting, transactional_id=setting.topic, transaction_timeout_ms=600_000)
    writer.content = plain.content
    writer.producer.init_transactions()
    for number in range(2 * stage.times):
        plain.write(200)
        writer.producer.begin_transaction()
        writer.write(200, counts=False)
        writer.producer.abort_transaction()
        writer.producer.begin_transaction()
        writer.write(200)
        plain.write(50)
        with stage.daemon(setting) as daemon:
            daemon.until(daemon.ready)
            stage.settled(setting, daemon)
            if number % 2:
                writer.producer.commit_transaction()
        stage.look(setting)
        if not number % 2:
            writer.producer.commit_transaction()
    return stage.finished(setting, plain)


def died(stage: Stage, daemon: Daemon, point: str) -> None:
    """It must have been the point that killed it."""
    status = daemon.refused()
    sentence = f"{point} was not reached: {daemon.path.name} ended in status {status}"
    stage.demand(status == -signal.SIGKILL, sentence)
