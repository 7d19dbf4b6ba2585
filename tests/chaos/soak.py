"""All faults in turn for as long as is asked, and whether anything grows meanwhile."""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from statistics import median

import msgspec
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


class Measured(msgspec.Struct, frozen=True):
    """How the eldest member stood after a fault: resident bytes, and open files."""

    memory: int
    files: int


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
        self._torn: list[Path] = []
        self.eldest = self._join()
        self.others: list[Daemon] = [self._join()]
        self.measured: list[Measured] = []
        self.done: Counter[str] = Counter()

    def run(self, seconds: float) -> None:
        """Hurt them, one way after the other."""
        faults: list[Callable[[], None]] = [
            self.join, self.leave, self.kill, self.sleep, self.fill_disk,
            self.cut, self.delay, self.freeze, self.restart_broker, self.tear,
        ]  # fmt: skip
        began = time.monotonic()
        while time.monotonic() < began + seconds:
            for fault in self._draw.sample(faults, len(faults)):
                if time.monotonic() < began + seconds:
                    fault()
                    self.done[fault.__name__] += 1
                    self._measure()
                    time.sleep(_PAUSE * self._draw.random())

    def grown(self, seconds: float) -> Faults:
        """What of the eldest is more than it was."""
        quarter = len(self.measured) // 4
        if not quarter:
            return []
        early, late = self.measured[quarter : 2 * quarter], self.measured[-quarter:]
        files = [median(each.files for each in part) for part in (early, late)]
        memory = [median(each.memory for each in part) for part in (early, late)]
        found = []
        if files[1] > files[0] + 8:
            found.append(f"open files went from {files[0]:g} to {files[1]:g}")
        if seconds >= _SHORTEST and memory[1] > _GROWTH * memory[0]:
            found.append(f"memory went from {memory[0]:,.0f} to {memory[1]:,.0f} bytes")
        return found

    def end(self) -> None:
        """All leave in order."""
        for each in (*self.others, self.eldest):
            each.until(lambda: each.said("started"))  # noqa: B023  asked at once
            self._stage.demand(_in_order(each), f"{each.path.name} did not end in order")

    def join(self) -> None:
        """One more."""
        if len(self.others) < 3:
            self.others.append(self._join())

    def leave(self) -> None:
        """One less, once it listens to signals."""
        if self.others:
            one = self._one()
            one.until(lambda: one.said("started"))
            self._stage.demand(_in_order(one), f"{one.path.name} did not end in order")

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
        return self._stack.enter_context(self._stage.daemon(self._setting, "disk-full"))

    def _one(self) -> Daemon:
        return self.others.pop(self._draw.randrange(len(self.others)))

    def _measure(self) -> None:
        self.eldest.until(self.eldest.scrape)
        eldest = psutil.Process(self.eldest.process.pid)
        self.measured.append(Measured(eldest.memory_info().rss, eldest.num_fds()))


def _in_order(daemon: Daemon) -> bool:
    """Whether it ends as it should: with 0, or with 1 where nothing could be saved any more."""
    status = daemon.stop()
    return status == 0 or (status == 1 and daemon.said("the last checkpoint of") == 1)


def soak(stage: Stage) -> Faults:
    """Seeded faults of all kinds at a bounded rate: nothing lost, and nothing grows."""
    assert stage.proxy is not None
    setting = stage.setting(proxy=stage.proxy.address, session=1_500, spans='["5m", "1h"]')
    writer = stage.writer(setting, step=_STEP)
    seconds = 60 * stage.minutes
    with ExitStack() as stack:
        soaked = Soak(stage, setting, stack)
        soaked.eldest.until(soaked.eldest.ready)
        try:
            with writer.flowing(_RATE):
                soaked.run(seconds)
        finally:
            stage.report += [f"{name} {count}" for name, count in sorted(soaked.done.items())]
        soaked.end()
        stage.found += soaked.grown(seconds)
    stage.report.append(f"{writer.content.count} records, {len(writer.content.bad)} invalid")
    return stage.finished(setting, writer)
