"""All faults in turn for as long as is asked, and whether anything grows meanwhile."""

from __future__ import annotations

import signal
import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import psutil

from tests.chaos.check import Faults
from tests.chaos.configuration import Setting
from tests.chaos.daemons import Daemon
from tests.chaos.proxy import FETCH, HEARTBEAT, JOIN_GROUP, OFFSET_COMMIT, PRODUCE, Proxy
from tests.chaos.stage import Stage
from tests.chaos.surroundings import damaged

_RATE = 200
_STEP = 0.5
"""Seconds of event time a record, so that an hour of windows is full within twenty seconds."""

_PAUSE = 1.0
_GROWTH = 1.2
"""Memory of the last quarter over that of the second; the state itself may still grow a little."""

_SHORTEST = 300.0
"""Seconds; below, memory is still being warmed up."""

_TRICKS = "disk-full+last-words"


class Soak:
    """Two to four members on one store, and what happens to them.

    The eldest is never killed, so that what grows in it can be seen; nothing else is spared it.

    Args:
        stage: where it happens, and for how long.
        setting: of all members.
        stack: what ends them.
    """

    def __init__(self, stage: Stage, setting: Setting, stack: ExitStack) -> None:
        self._stage = stage
        self._setting = setting
        self._stack = stack
        self._draw = stage.draw
        self._memory: list[int] = []
        self._files: list[int] = []
        self._torn: list[Path] = []
        self.eldest = self._join()
        self.others: list[Daemon] = [self._join()]
        self.done: dict[str, int] = {}

    def run(self, seconds: float) -> None:
        """Hurt them, one way after the other."""
        faults: list[Callable[[], None]] = [
            self.join, self.leave, self.kill, self.sleep, self.fill_disk,
            self.cut, self.delay, self.freeze, self.restart_broker, self.tear,
        ]  # fmt: skip
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if not faults:
                break
            for fault in self._draw.sample(faults, len(faults)):
                if time.monotonic() < until:
                    fault()
                    self.done[fault.__name__] = self.done.get(fault.__name__, 0) + 1
                    self._measure()
                    time.sleep(_PAUSE * self._draw.random())

    def grown(self, seconds: float) -> Faults:
        """What of the eldest is more than it was."""
        quarter = len(self._files) // 4
        found = []
        early, late = self._files[quarter : 2 * quarter], self._files[-quarter:]
        if quarter and statistics.median(late) > statistics.median(early) + 8:
            found.append(f"open files went from {early} to {late}")
        early, late = self._memory[quarter : 2 * quarter], self._memory[-quarter:]
        if seconds >= _SHORTEST and statistics.median(late) > _GROWTH * statistics.median(early):
            found.append(f"memory went from {early} to {late}")
        return found

    def end(self) -> None:
        """All leave in order."""
        for each in (*self.others, self.eldest):
            self._stage.demand(each.stop() == 0, f"{each.path.name} did not end in order")

    def join(self) -> None:
        """One more."""
        if len(self.others) < 3:
            self.others.append(self._join())

    def leave(self) -> None:
        """One less."""
        if self.others:
            self._stage.demand(self._one().stop() == 0, "one did not end in order")

    def kill(self) -> None:
        """One dies."""
        if self.others:
            one = self._one()
            one.scrape()
            one.kill()

    def sleep(self) -> None:
        """The eldest is put out of the group without noticing."""
        self.eldest.process.send_signal(signal.SIGSTOP)
        time.sleep(2.0)
        self.eldest.process.send_signal(signal.SIGCONT)

    def fill_disk(self) -> None:
        """Nothing can be saved."""
        flag = self._setting.folder / "disk-full"
        flag.touch()
        time.sleep(1.0)
        flag.unlink()

    def cut(self) -> None:
        """Answers do not come."""
        self._proxy.cut_answers(PRODUCE, FETCH, OFFSET_COMMIT, JOIN_GROUP, HEARTBEAT)

    def delay(self) -> None:
        """Answers come late."""
        self._proxy.delay = 0.3
        time.sleep(1.0)
        self._proxy.delay = 0.0

    def freeze(self) -> None:
        """Nothing passes, and nobody is told."""
        self._proxy.freeze()
        time.sleep(1.0)
        self._proxy.thaw()

    def restart_broker(self) -> None:
        """The broker dies."""
        self._stage.broker.kill()
        self._stage.broker.start()

    def tear(self) -> None:
        """The newest checkpoints are damaged under whoever reads the partition next."""
        self._torn += damaged(self._setting, self._torn)

    @property
    def _proxy(self) -> Proxy:
        assert self._stage.proxy is not None
        return self._stage.proxy

    def _join(self) -> Daemon:
        return self._stack.enter_context(self._stage.daemon(self._setting, _TRICKS))

    def _one(self) -> Daemon:
        return self.others.pop(self._draw.randrange(len(self.others)))

    def _measure(self) -> None:
        self.eldest.until(lambda: self.eldest.running)
        eldest = psutil.Process(self.eldest.process.pid)
        self._memory.append(eldest.memory_info().rss)
        self._files.append(eldest.num_fds())


def soak(stage: Stage) -> Faults:
    """Seeded faults of all kinds at a bounded rate: nothing lost, and nothing grows."""
    assert stage.proxy is not None
    setting = stage.setting(proxy=stage.proxy.address, session=1_500, spans='["5m", "1h"]')
    writer = stage.writer(setting, step=_STEP)
    seconds = 60 * stage.minutes
    with ExitStack() as stack:
        soaked = Soak(stage, setting, stack)
        soaked.eldest.until(soaked.eldest.ready)
        with writer.flowing(_RATE):
            soaked.run(seconds)
        soaked.end()
        stage.found += soaked.grown(seconds)
    return stage.finished(setting, writer)
