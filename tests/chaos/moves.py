"""Partitions that move between processes, whether these agree or not."""

from __future__ import annotations

import signal
import time

from tests.chaos.check import Faults
from tests.chaos.stage import Stage

_RATE = 200


def move(stage: Stage) -> Faults:
    """Partitions go from A to B and back to A, over one store."""
    setting = stage.setting()
    writer = stage.writer(setting)
    for _ in range(stage.times):
        with stage.daemon(setting) as first:
            first.until(first.ready)
            with writer.flowing(_RATE), stage.daemon(setting) as second:
                second.until(second.ready)
                second.until(second.offsets)
                stage.stop(first)
                second.until(lambda: len(second.offsets()) == writer.partitions)
                with stage.daemon(setting) as again:
                    again.until(again.ready)
                    again.until(again.offsets)
                    stage.stop(second)
                    stage.stop(again)
    return stage.finished(setting, writer, exact=True)


def zombie(stage: Stage) -> Faults:
    """A member sleeps longer than its session while another takes over, and then wakes up."""
    setting = stage.setting(session=1_500)
    writer = stage.writer(setting)
    for _ in range(stage.times):
        with stage.daemon(setting) as sleeper, writer.flowing(_RATE):
            sleeper.until(lambda: len(sleeper.offsets()) == writer.partitions)
            sleeper.process.send_signal(signal.SIGSTOP)
            with stage.daemon(setting) as heir:
                heir.until(lambda: len(heir.offsets()) == writer.partitions)
                time.sleep(1.0)
                sleeper.process.send_signal(signal.SIGCONT)
                sleeper.until(sleeper.offsets)
                time.sleep(1.0)
                stage.stop(sleeper)
                stage.stop(heir)
    return stage.finished(setting, writer)


def slow(stage: Stage) -> Faults:
    """Counting takes longer than max.poll.interval, and so another member takes over."""
    setting = stage.setting(kafka="max_poll_interval_ms = 10000", session=1_500)
    writer = stage.writer(setting)
    flag = setting.folder / "slow"
    with stage.daemon(setting, "slow") as dawdler, writer.flowing(_RATE):
        dawdler.until(lambda: len(dawdler.offsets()) == writer.partitions)
        for _ in range(stage.times):
            flag.touch()
            with stage.daemon(setting) as heir:
                heir.until(lambda: len(heir.offsets()) == writer.partitions)
                flag.unlink()
                stage.stop(heir)
            dawdler.until(lambda: len(dawdler.offsets()) == writer.partitions)
        dawdler.stop()
    return stage.finished(setting, writer)
