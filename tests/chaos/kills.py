"""kill -9 of daemons, at random and at each step."""

from __future__ import annotations

import signal
import time
from contextlib import ExitStack

from tests.chaos.check import Problems
from tests.chaos.configuration import DaemonConfig
from tests.chaos.daemons import Daemon
from tests.chaos.kill_points import REVOKING
from tests.chaos.log import Writer
from tests.chaos.run import ScenarioRun

_RATE = 200
_KILLS = 20


def points(run: ScenarioRun) -> Problems:
    """kill -9 at each step of a checkpoint, a restore and a shutdown."""
    config = run.config(member="one", events=200)
    writer = run.writer(config)
    for name in run.points:
        if name not in REVOKING:
            dies_at(run, config, writer, name)
    return run.finish(config, writer)


def dies_at(run: ScenarioRun, config: DaemonConfig, writer: Writer, point: str) -> None:
    with run.daemon(config, point) as daemon, writer.traffic(_RATE):
        if point == "in-finish":
            daemon.wait_for(daemon.ready)
            daemon.stop()
        daemon.wait_for(lambda: not (daemon.scrape() and daemon.running), alive=False)
        check_died(run, daemon, point)
    run.check_progress(config)


def revoke(run: ScenarioRun) -> Problems:
    """kill -9 during the revocation of partitions."""
    config = run.config(session=1_500)
    writer = run.writer(config)
    for name in REVOKING:
        with run.daemon(config, name) as owner, writer.traffic(_RATE):
            owner.wait_for(owner.offsets)
            with run.daemon(config) as successor:
                owner.wait_for_exit()
                check_died(run, owner, name)
                successor.wait_for(successor.ready)
                successor.scrape()
        run.check_progress(config)
    return run.finish(config, writer)


def replicas(run: ScenarioRun) -> Problems:
    """Three members on eight partitions, and twenty times kill -9 of a random one."""
    random = run.random
    config = run.config(partitions=8, session=1_500, events=200)
    writer = run.writer(config)
    with ExitStack() as stack, writer.traffic(_RATE):
        there = [stack.enter_context(run.daemon(config)) for _ in range(3)]
        for _ in range(_KILLS):
            for each in there:
                each.wait_for(each.ready)
            time.sleep(2 * random.random())
            victim = there.pop(random.randrange(len(there)))
            victim.scrape()
            victim.kill()
            there.append(stack.enter_context(run.daemon(config)))
        for each in there:
            run.stop(each)
    return run.finish(config, writer)


def transactions(run: ScenarioRun) -> Problems:
    """Committed, aborted and open transactions in the log."""
    config = run.config(member="one", events=200)
    plain = run.writer(config)
    writer = run.writer(config, transactional_id=config.topic, transaction_timeout_ms=600_000)
    writer.content = plain.content
    writer.producer.init_transactions()
    for number in range(2 * run.times):
        plain.write(200)
        writer.producer.begin_transaction()
        writer.write(200, counts=False)
        writer.producer.abort_transaction()
        writer.producer.begin_transaction()
        writer.write(200)
        plain.write(50)
        with run.daemon(config) as daemon:
            daemon.wait_for(daemon.ready)
            run.wait_until_saved(config, daemon)
            if number % 2:
                writer.producer.commit_transaction()
        run.check_progress(config)
        if not number % 2:
            writer.producer.commit_transaction()
    return run.finish(config, plain)


def check_died(run: ScenarioRun, daemon: Daemon, point: str) -> None:
    status = daemon.wait_for_exit()
    sentence = f"{point} was not reached: {daemon.path.name} ended in status {status}"
    run.expect(status == -signal.SIGKILL, sentence)
