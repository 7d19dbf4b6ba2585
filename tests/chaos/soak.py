"""Injects all faults for ten minutes, and checks that memory and open files do not grow."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from statistics import median

import msgspec
import psutil

from tests.chaos.check import Problems
from tests.chaos.daemons import Daemon, DaemonConfig
from tests.chaos.infrastructure import damaged
from tests.chaos.proxy import FETCH, HEARTBEAT, JOIN_GROUP, OFFSET_COMMIT, PRODUCE, Proxy
from tests.chaos.run import ScenarioRun

_RATE = 200
_STEP = 0.5
"""Seconds of event time per record, so that windows of an hour are full after twenty seconds."""

_PAUSE = 1.0
_GROWTH = 1.2
"""Allowed memory of the last quarter relative to the second; the state may still grow a little."""

_SECONDS = 600.0
"""In less than half of it memory is still warming up."""


class Measured(msgspec.Struct, frozen=True):
    """Resident bytes and open files of the oldest member after a fault."""

    memory: int
    files: int


class Soak:
    """Two to four members on one store, and faults for them.

    The oldest member is never killed, so that its growth can be measured.

    Args:
        run: of the scenario.
        config: of all members.
        stack: stops the members.
    """

    def __init__(self, run: ScenarioRun, config: DaemonConfig, stack: ExitStack) -> None:
        self._run = run
        self._daemon_config = config
        self._stack = stack
        self._draw = run.random
        self._torn: list[Path] = []
        self.oldest = self._join()
        self.others: list[Daemon] = [self._join()]
        self.measured: list[Measured] = []

    def run(self) -> None:
        faults: list[Callable[[], None]] = [
            self.join, self.leave, self.kill, self.sleep, self.fill_disk,
            self.cut, self.delay, self.freeze, self.restart_broker, self.tear,
        ]  # fmt: skip
        end = time.monotonic() + _SECONDS
        while time.monotonic() < end:
            for fault in self._draw.sample(faults, len(faults)):
                fault()
                self._measure()
                time.sleep(_PAUSE * self._draw.random())

    def growth(self) -> Problems:
        """Messages about growth of the oldest member."""
        quarter = len(self.measured) // 4
        early, late = self.measured[quarter : 2 * quarter], self.measured[-quarter:]
        files = [median(measurement.files for measurement in part) for part in (early, late)]
        memory = [median(measurement.memory for measurement in part) for part in (early, late)]
        complaints = []
        if files[1] > files[0] + 8:
            complaints.append(f"open files went from {files[0]:g} to {files[1]:g}")
        if memory[1] > _GROWTH * memory[0]:
            complaints.append(f"memory went from {memory[0]:,.0f} to {memory[1]:,.0f} bytes")
        return complaints

    def end(self) -> None:
        for daemon in (*self.others, self.oldest):
            daemon.wait_for(lambda: daemon.logged("started"))  # noqa: B023  called at once
            self._run.expect(_stopped_cleanly(daemon), f"{daemon.path.name} did not stop cleanly")

    def join(self) -> None:
        if len(self.others) < 3:
            self.others.append(self._join())

    def leave(self) -> None:
        """Stop a member once it handles signals."""
        if self.others:
            leaving = self._one()
            leaving.wait_for(lambda: leaving.logged("started"))
            self._run.expect(_stopped_cleanly(leaving), f"{leaving.path.name} did not stop cleanly")

    def kill(self) -> None:
        if self.others:
            victim = self._one()
            victim.scrape()
            victim.kill()

    def sleep(self) -> None:
        """Pause the oldest member until the group removes it."""
        self.oldest.process.send_signal(signal.SIGSTOP)
        time.sleep(2.0)
        self.oldest.process.send_signal(signal.SIGCONT)

    def fill_disk(self) -> None:
        """Make every save fail for a second."""
        flag = self._daemon_config.folder / "disk-full"
        flag.touch()
        time.sleep(1.0)
        flag.unlink()

    def cut(self) -> None:
        self._proxy.cut_answers(PRODUCE, FETCH, OFFSET_COMMIT, JOIN_GROUP, HEARTBEAT)

    def delay(self) -> None:
        """Delay responses for a second."""
        self._proxy.delay = 0.3
        time.sleep(1.0)
        self._proxy.delay = 0.0

    def freeze(self) -> None:
        """Block the network for a second."""
        self._proxy.freeze()
        time.sleep(1.0)
        self._proxy.thaw()

    def restart_broker(self) -> None:
        self._run.broker.kill()
        self._run.broker.start()

    def tear(self) -> None:
        """Damage the newest rounds of two processes."""
        self._torn += damaged(self._daemon_config, self._torn)

    @property
    def _proxy(self) -> Proxy:
        assert self._run.proxy is not None
        return self._run.proxy

    def _join(self) -> Daemon:
        return self._stack.enter_context(self._run.daemon(self._daemon_config, "disk-full"))

    def _one(self) -> Daemon:
        return self.others.pop(self._draw.randrange(len(self.others)))

    def _measure(self) -> None:
        self.oldest.wait_for(self.oldest.scrape)
        oldest = psutil.Process(self.oldest.process.pid)
        self.measured.append(Measured(oldest.memory_info().rss, oldest.num_fds()))


def _stopped_cleanly(daemon: Daemon) -> bool:
    """Whether it exits with 0, or with 1 because the last checkpoint failed."""
    status = daemon.stop()
    return status == 0 or (status == 1 and daemon.logged("the last checkpoint of") == 1)


def soak(run: ScenarioRun) -> Problems:
    """Seeded faults of all kinds for ten minutes."""
    assert run.proxy is not None
    config = run.config(proxy=run.proxy.address, session=1_500, spans='["5m", "1h"]')
    writer = run.writer(config, step=_STEP)
    with ExitStack() as stack:
        soak_run = Soak(run, config, stack)
        soak_run.oldest.wait_for(soak_run.oldest.ready)
        with writer.traffic(_RATE):
            soak_run.run()
        soak_run.end()
        run.problems += soak_run.growth()
    return run.finish(config, writer)
