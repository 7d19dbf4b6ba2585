"""What a daemon must not go on from by itself: it ends with a sentence, or does as it was told."""

from __future__ import annotations

from contextlib import closing

import msgspec
from kafka import KafkaAdminClient

from streameval.cli.errors import USAGE_ERROR
from tests.chaos.check import Faults
from tests.chaos.configuration import Setting
from tests.chaos.log import Writer
from tests.chaos.stage import PARTITIONS, Stage
from tests.chaos.truth import Fold, ends
from tests.kafka.topics import create, removed, shortened


def retention(stage: Stage) -> Faults:
    """Records behind the checkpoint are deleted before they were counted."""
    setting = stage.setting()
    writer = stage.writer(setting)
    fold = _counted(stage, setting, writer)
    stands = fold.positions[0]
    writer.write(1_000)
    begin = stands + (ends(setting)[0] - stands) // 2
    shortened(stage.broker, setting.topic, begin)
    writer.content.lost(0, stands, begin)
    _refuses(stage, setting, f"{begin - stands} offsets were never counted")
    fold.read({0: begin})
    skipping = _with(setting, 'on_retention = "skip"')
    with stage.daemon(skipping) as daemon:
        stage.settled(setting, daemon)
        told = daemon.said("records were lost before they were counted")
        stage.demand(told == 1, f"the gap was told of {told} times")
        stage.stop(daemon)
    return stage.finished(skipping, writer, fold, exact=True)


def recreated(stage: Stage) -> Faults:
    """The topic is deleted and made again."""
    setting = stage.setting()
    _counted(stage, setting, stage.writer(setting))
    removed(stage.broker, setting.topic)
    # Dead letters of before would have the places of later ones.
    removed(stage.broker, f"{setting.topic}.dlq")
    create(stage.broker, partitions=PARTITIONS, name=setting.topic)
    writer = stage.writer(setting)
    writer.write(500)
    _refuses(stage, setting, "the topic was deleted and made again")
    # What processes showed of the topic before is no part of the fold of this one.
    stage.counted.clear()
    anew = _with(setting, 'on_recreated = "restart"')
    return stage.finished(anew, writer, exact=True)


def added(stage: Stage) -> Faults:
    """Partitions are added to the topic while a daemon reads."""
    setting = stage.setting()
    writer = stage.writer(setting)
    writer.write(500)
    with stage.daemon(setting) as daemon:
        stage.settled(setting, daemon)
        with closing(KafkaAdminClient(bootstrap_servers=setting.address)) as admin:
            admin.create_partitions({setting.topic: PARTITIONS + 1})
        # A producer learns of new partitions only after minutes; another one knows them.
        more = stage.writer(setting)
        more.content = writer.content
        more.write(500)
        status = daemon.refused()
    stage.demand(status == USAGE_ERROR, f"it ended in status {status}")
    stage.demand(daemon.said("and this one is new"), "it did not say why it ended")
    return stage.finished(_with(setting, 'on_new_partitions = "accept"'), writer)


def _counted(stage: Stage, setting: Setting, writer: Writer) -> Fold:
    """All that there is has been counted and saved by a daemon that ended in order."""
    writer.write(1_000)
    with stage.daemon(setting) as daemon:
        stage.settled(setting, daemon)
        stage.stop(daemon)
    fold = Fold(setting)
    fold.read()
    return fold


def _refuses(stage: Stage, setting: Setting, *sentences: str) -> None:
    with stage.daemon(setting) as daemon:
        status = daemon.refused()
    stage.demand(status == USAGE_ERROR, f"{daemon.path.name} ended in status {status}")
    for sentence in sentences:
        stage.demand(daemon.said(sentence), f"{daemon.path.name} did not say: {sentence}")


def _with(setting: Setting, policy: str) -> Setting:
    return msgspec.structs.replace(setting, policies=policy)
