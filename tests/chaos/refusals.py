"""Changes after which a daemon must stop with a message, unless a policy decides."""

from __future__ import annotations

from contextlib import closing

import msgspec
from kafka import KafkaAdminClient

from streameval.cli.errors import USAGE_ERROR
from tests.chaos.check import Problems
from tests.chaos.configuration import DaemonConfig
from tests.chaos.log import Writer
from tests.chaos.reference import Fold, ends
from tests.chaos.run import PARTITIONS, ScenarioRun
from tests.kafka.topics import create, removed, shortened


def retention(run: ScenarioRun) -> Problems:
    """Retention deletes records before they are counted."""
    config = run.config()
    writer = run.writer(config)
    fold = _counted(run, config, writer)
    stands = fold.positions[0]
    writer.write(1_000)
    begin = stands + (ends(config)[0] - stands) // 2
    shortened(run.broker, config.topic, begin)
    writer.content.mark_lost(0, stands, begin)
    _refuses(run, config, f"{begin - stands} offsets were never counted")
    fold.read({0: begin})
    skipping = _with(config, 'on_retention = "skip"')
    with run.daemon(skipping) as daemon:
        run.wait_until_saved(config, daemon)
        logged = daemon.logged("records were lost before they were counted")
        run.expect(logged == 1, f"the gap was logged {logged} times")
        run.stop(daemon)
    return run.finish(skipping, writer, fold, exact=True)


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
    # Counters of the old topic are not part of the fold of the new one.
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
        with closing(KafkaAdminClient(bootstrap_servers=config.address)) as admin:
            admin.create_partitions({config.topic: PARTITIONS + 1})
        # A producer refreshes its metadata after minutes only; a new one knows the partition.
        more = run.writer(config)
        more.content = writer.content
        more.write(500)
        status = daemon.wait_for_exit()
    run.expect(status == USAGE_ERROR, f"it ended in status {status}")
    run.expect(daemon.logged("and this one is new"), "it did not say why it ended")
    return run.finish(_with(config, 'on_new_partitions = "accept"'), writer)


def _counted(run: ScenarioRun, config: DaemonConfig, writer: Writer) -> Fold:
    """Write records, and count and save them with a daemon that stops cleanly."""
    writer.write(1_000)
    with run.daemon(config) as daemon:
        run.wait_until_saved(config, daemon)
        run.stop(daemon)
    fold = Fold(config)
    fold.read()
    return fold


def _refuses(run: ScenarioRun, config: DaemonConfig, *sentences: str) -> None:
    with run.daemon(config) as daemon:
        status = daemon.wait_for_exit()
    run.expect(status == USAGE_ERROR, f"{daemon.path.name} ended in status {status}")
    for sentence in sentences:
        run.expect(daemon.logged(sentence), f"{daemon.path.name} did not say: {sentence}")


def _with(config: DaemonConfig, policy: str) -> DaemonConfig:
    return msgspec.structs.replace(config, policies=policy)
