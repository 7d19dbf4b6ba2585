"""Trouble with what a daemon stands on: the broker, the network, the disk, its own files."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path

from tests.chaos.check import Faults
from tests.chaos.configuration import Setting
from tests.chaos.daemons import Daemon
from tests.chaos.proxy import FETCH, HEARTBEAT, OFFSET_COMMIT, PRODUCE, Proxy
from tests.chaos.stage import Stage
from tests.stores import s3
from tests.stores.s3 import Fault, S3Proxy

_RATE = 200


def broker_restart(stage: Stage) -> Faults:
    """The broker is killed and comes back while a daemon reads."""
    setting = stage.setting(member="one")
    writer = stage.writer(setting)
    with stage.daemon(setting) as daemon:
        daemon.until(daemon.ready)
        with writer.flowing(_RATE):
            for _ in range(stage.times):
                time.sleep(1.5)
                stage.broker.kill()
                time.sleep(1.0)
                stage.broker.start()
        stage.settled(setting, daemon)
        stage.stop(daemon)
    return stage.finished(setting, writer)


def cut(stage: Stage) -> Faults:
    """Requests arrive and their answers do not; all is slow; nothing passes, and nobody is told."""
    proxy = _required(stage.proxy)
    setting = stage.setting(member="one", proxy=proxy.address, events=200)
    writer = stage.writer(setting)
    with stage.daemon(setting) as daemon, writer.flowing(_RATE):
        daemon.until(daemon.ready)
        for _ in range(stage.times):
            for kind in (OFFSET_COMMIT, FETCH, PRODUCE, HEARTBEAT):
                before = proxy.cuts
                proxy.cut_answers(kind)
                daemon.until(lambda: proxy.cuts > before)  # noqa: B023  asked at once
                daemon.until(goes_on(daemon))
            proxy.delay = 0.3
            daemon.until(goes_on(daemon))
            proxy.delay = 0.0
            proxy.freeze()
            time.sleep(2.0)
            proxy.thaw()
            daemon.until(goes_on(daemon))
        stage.stop(daemon)
    return stage.finished(setting, writer)


def disk_full(stage: Stage) -> Faults:
    """The disk of the store is full for a while; counting goes on, and is saved later."""
    setting = stage.setting(member="one", events=200)
    writer = stage.writer(setting)
    flag = setting.folder / "disk-full"
    with stage.daemon(setting, "disk-full") as daemon, writer.flowing(_RATE):
        daemon.until(daemon.ready)
        for _ in range(stage.times):
            flag.touch()
            failures = daemon.failures()
            daemon.until(lambda: daemon.failures() > failures + 1)  # noqa: B023  asked at once
            flag.unlink()
            daemon.until(goes_on(daemon))
        stage.stop(daemon)
    return stage.finished(setting, writer, exact=True)


def store_away(stage: Stage) -> Faults:
    """The S3 server fails, is away or silent for a while; counting goes on, and is saved later."""
    with S3Proxy(s3.server()) as proxy:
        # A long session: a member that must restore meanwhile ends, and is to be started again.
        setting = stage.setting(member="one", events=200, session=30_000, endpoint=proxy.endpoint)
        writer = stage.writer(setting)
        with stage.daemon(setting) as daemon, writer.flowing(_RATE):
            daemon.until(daemon.ready)
            for fault in ("error", "cut", "silent"):
                _hurt(proxy, fault)
                failures = daemon.failures()
                daemon.until(lambda: daemon.failures() > failures + 1)  # noqa: B023  asked at once
                proxy.fault = lambda _: None
                daemon.until(goes_on(daemon))
            _hurt(proxy, "lost", "slow", None)
            for _ in range(3):
                daemon.until(goes_on(daemon))
            proxy.fault = lambda _: None
            stage.stop(daemon)
        return stage.finished(setting, writer, exact=True)


def _hurt(proxy: S3Proxy, *faults: Fault | None) -> None:
    """One of these happens to each request."""
    turns = itertools.cycle(faults)
    proxy.fault = lambda _: next(turns)


def torn(stage: Stage) -> Faults:
    """The newest checkpoints are damaged while the daemon is down; the older ones serve."""
    setting = stage.setting(events=200)
    writer = stage.writer(setting)
    for _ in range(stage.times):
        with stage.daemon(setting) as daemon:
            for _ in range(3):
                writer.write(500)
                stage.settled(setting, daemon)
            stage.stop(daemon)
        damaged(setting)
        with stage.daemon(setting) as daemon:
            stage.settled(setting, daemon)
            stage.stop(daemon)
            told = daemon.said("a damaged checkpoint was skipped")
            stage.demand(told == 2, f"of 2 damaged checkpoints, {told} were told of")
    return stage.finished(setting, writer, exact=True)


def goes_on(daemon: Daemon) -> Callable[[], bool]:
    """That every partition has come to another checkpoint than it has now."""
    before = daemon.offsets()

    def further() -> bool:
        now = daemon.offsets()
        return len(now) >= len(before) and all(now[each] > before.get(each, 0) for each in now)

    return further


def damaged(setting: Setting, before: Collection[Path] = ()) -> list[Path]:
    """Take the end off one newest checkpoint, and turn a bit in that of another partition.

    Args:
        setting: of the store.
        before: what was damaged before; the checkpoint to fall back to is never among it.

    Returns:
        What was damaged.
    """
    files = Path(setting.path).glob("*/*/*/*.checkpoint")
    folders = sorted({file.parent for file in files})
    newest = [sorted(folder.glob("*.checkpoint"))[-2:] for folder in folders]
    chosen = [two[-1] for two in newest if len(two) > 1 and not set(two) & set(before)][:2]
    for damage, file in zip((_truncate, _flip), chosen, strict=False):
        # Whoever saves meanwhile may remove it.
        with suppress(FileNotFoundError):
            damage(file)
    return chosen


def _truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-100])


def _flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def _required(proxy: Proxy | None) -> Proxy:
    assert proxy is not None
    return proxy
