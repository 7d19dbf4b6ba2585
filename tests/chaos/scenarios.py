"""Scenarios of kills, rebalances and refusals, and the list of all; each ends with a check."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from types import MappingProxyType
from typing import TypeAlias

import msgspec

from streameval.evaluation.shell.exits import USAGE_ERROR
from tests.chaos.check import Problems, Recount, ends
from tests.chaos.daemons import Daemon, DaemonConfig
from tests.chaos.faulty_daemon import REVOKING
from tests.chaos.infrastructure import cut, disk_full, store_away, torn
from tests.chaos.log import Writer
from tests.chaos.run import ERRORS, PARTITIONS, ScenarioRun
from tests.chaos.soak import soak
from tests.kafka.topics import admin_of, create, removed, shortened

_RATE, _KILLS = 200, 20


def retention(run: ScenarioRun) -> Problems:
    """Retention deletes records before they are counted."""
    config = run.config()
    writer = run.writer(config)
    recount = _counted(run, config, writer)
    stands = recount.positions[0]
    writer.write(1_000)
    begin = stands + (ends(config)[0] - stands) // 2
    shortened(run.broker, config.topic, begin)
    writer.content.mark_lost(0, stands, begin)
    _refuses(run, config, f"{begin - stands} offsets were never counted")
    recount.read({0: begin})
    skipping = _with(config, 'on_retention = "skip"')
    with run.daemon(skipping) as daemon:
        run.wait_until_saved(config, daemon)
        logged = daemon.logged("records were lost before they were counted")
        run.expect(logged == 1, f"the gap was logged {logged} times")
        run.stop(daemon)
    return run.finish(skipping, writer, recount, exact=True)


def recreated(run: ScenarioRun) -> Problems:
    """The topic is deleted and recreated."""
    config = run.config()
    _counted(run, config, run.writer(config))
    removed(run.broker, config.topic)
    # Old dead letters would have the offsets of new ones.
    removed(run.broker, f"{config.topic}.dlq")
    create(run.broker, partitions=PARTITIONS, name=config.topic)
    writer = run.writer(config)
    writer.write(500)
    _refuses(run, config, "the topic was deleted and recreated")
    # Counters of the old topic are not part of the recount of the new one.
    run.counted.clear()
    anew = _with(config, 'on_recreated = "restart"')
    return run.finish(anew, writer, exact=True)


def added(run: ScenarioRun) -> Problems:
    """Partitions are added to the topic while a daemon reads."""
    config = run.config()
    writer = run.writer(config)
    writer.write(500)
    with run.daemon(config) as daemon:
        run.wait_until_saved(config, daemon)
        with admin_of(config.address) as admin:
            admin.create_partitions({config.topic: PARTITIONS + 1})
        # A producer refreshes its metadata after minutes only; a new one knows the partition.
        more = run.writer(config)
        more.content = writer.content
        more.write(500)
        status = daemon.wait_for_exit()
    run.expect(status == USAGE_ERROR, f"it ended in status {status}")
    run.expect(daemon.logged("and this one is new"), "it did not say why it ended")
    return run.finish(_with(config, 'on_new_partitions = "accept"'), writer)


def _counted(run: ScenarioRun, config: DaemonConfig, writer: Writer) -> Recount:
    """Write records, and count and save them with a daemon that stops cleanly."""
    writer.write(1_000)
    with run.daemon(config) as daemon:
        run.wait_until_saved(config, daemon)
        run.stop(daemon)
    recount = Recount(config)
    recount.read()
    return recount


def _refuses(run: ScenarioRun, config: DaemonConfig, *sentences: str) -> None:
    with run.daemon(config) as daemon:
        status = daemon.wait_for_exit()
    run.expect(status == USAGE_ERROR, f"{daemon.path.name} ended in status {status}")
    for sentence in sentences:
        run.expect(daemon.logged(sentence), f"{daemon.path.name} did not say: {sentence}")


def _with(config: DaemonConfig, policy: str) -> DaemonConfig:
    return msgspec.structs.replace(config, policies=policy)


def move(run: ScenarioRun) -> Problems:
    """Partitions move from A to B and back, over one store."""
    config = run.config()
    writer = run.writer(config)
    with run.daemon(config) as first:
        first.wait_for(first.ready)
        with writer.traffic(_RATE), run.daemon(config) as second:
            second.wait_for(second.ready)
            second.wait_for(second.offsets)
            run.stop(first)
            second.wait_for(lambda: len(second.offsets()) == writer.partitions)
            with run.daemon(config) as again:
                again.wait_for(again.ready)
                again.wait_for(again.offsets)
                run.stop(second)
                run.stop(again)
    return run.finish(config, writer, exact=True)


def zombie(run: ScenarioRun) -> Problems:
    """A member is paused longer than its session, another takes over, and it resumes."""
    config = run.config(session=1_500)
    writer = run.writer(config)
    with run.daemon(config) as paused, writer.traffic(_RATE):
        paused.wait_for(lambda: len(paused.offsets()) == writer.partitions)
        paused.process.send_signal(signal.SIGSTOP)
        with run.daemon(config) as successor:
            successor.wait_for(lambda: len(successor.offsets()) == writer.partitions)
            time.sleep(1.0)
            paused.process.send_signal(signal.SIGCONT)
            paused.wait_for(paused.offsets)
            time.sleep(1.0)
            run.stop(paused)
            run.stop(successor)
    return run.finish(config, writer)


def points(run: ScenarioRun) -> Problems:
    """kill -9 at each step of a checkpoint, a restore and a shutdown."""
    config = run.config(member="one", interval="0s")
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
    config = run.config(partitions=8, session=1_500, interval="0s")
    writer = run.writer(config)
    with ExitStack() as stack, writer.traffic(_RATE):
        there = [stack.enter_context(run.daemon(config)) for _ in range(3)]
        for _ in range(_KILLS):
            for daemon in there:
                daemon.wait_for(daemon.ready)
            time.sleep(2 * random.random())
            victim = there.pop(random.randrange(len(there)))
            victim.scrape()
            victim.kill()
            there.append(stack.enter_context(run.daemon(config)))
        for daemon in there:
            run.stop(daemon)
    return run.finish(config, writer)


def transactions(run: ScenarioRun) -> Problems:
    """Committed, aborted and open transactions in the log."""
    config = run.config(member="one", interval="0s")
    plain = run.writer(config)
    writer = run.writer(config, transactional_id=config.topic, transaction_timeout_ms=600_000)
    writer.content = plain.content
    writer.producer.init_transactions()
    for number in range(2):
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


Scenario: TypeAlias = Callable[[ScenarioRun], Problems]

SCENARIOS: Mapping[str, Scenario] = MappingProxyType(
    {
        "points": points,
        "revoke": revoke,
        "replicas": replicas,
        "move": move,
        "zombie": zombie,
        "disk-full": disk_full,
        "store-away": store_away,
        "torn": torn,
        "retention": retention,
        "recreated": recreated,
        "partitions": added,
        "transactions": transactions,
        "cut": cut,
        "soak": soak,
    }
)
"""Name -> scenario."""

ON_S3 = ("revoke", "replicas", "move", "zombie", "store-away")
"""Scenarios that run with checkpoints on an S3 server."""

IN_FOLDER = tuple(name for name in SCENARIOS if name != "store-away")
"""Scenarios that run with checkpoints in a folder."""

ON_OWN_BROKER = ("cut", "soak")
"""Scenarios with faults of the broker or its network, which need a separate broker."""


def run_scenario(name: str, run: ScenarioRun) -> Problems:
    try:
        with run.resources:
            return SCENARIOS[name](run)
    except ERRORS as error:
        return [*run.problems, f"{type(error).__name__}: {error}"]
