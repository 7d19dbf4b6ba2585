"""Partitions that move between processes, with or without their consent."""

from __future__ import annotations

import signal
import time

from tests.chaos.check import Problems
from tests.chaos.run import ScenarioRun

_RATE = 200


def move(run: ScenarioRun) -> Problems:
    """Partitions move from A to B and back, over one store."""
    config = run.config()
    writer = run.writer(config)
    for _ in range(run.times):
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
    for _ in range(run.times):
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
