"""Faults of the broker, the network, the disk, the store and its files."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path

from tests.chaos.check import Problems
from tests.chaos.daemons import Daemon, DaemonConfig
from tests.chaos.proxy import FETCH, HEARTBEAT, OFFSET_COMMIT, PRODUCE
from tests.chaos.run import PARTITIONS, ScenarioRun
from tests.stores import s3
from tests.stores.s3 import Fault, S3Proxy

_RATE = 200


def cut(run: ScenarioRun) -> Problems:
    """Responses are dropped or late, the network is blocked, and the broker is killed."""
    assert run.proxy is not None
    proxy = run.proxy
    config = run.config(member="one", proxy=proxy.address, interval="0s")
    writer = run.writer(config)
    with run.daemon(config) as daemon, writer.traffic(_RATE):
        daemon.wait_for(daemon.ready)
        for kind in (OFFSET_COMMIT, FETCH, PRODUCE, HEARTBEAT):
            before = proxy.cuts
            proxy.cut_answers(kind)
            daemon.wait_for(lambda: proxy.cuts > before)  # noqa: B023  called at once
            daemon.wait_for(saves_again(daemon))
        proxy.delay = 0.3
        daemon.wait_for(saves_again(daemon))
        proxy.delay = 0.0
        proxy.freeze()
        time.sleep(2.0)
        proxy.thaw()
        daemon.wait_for(saves_again(daemon))
        run.broker.kill()
        run.broker.start()
        daemon.wait_for(saves_again(daemon))
        run.stop(daemon)
    return run.finish(config, writer)


def disk_full(run: ScenarioRun) -> Problems:
    """The disk of the store is full for a while; counting continues and is saved later."""
    config = run.config(member="one", interval="0s")
    writer = run.writer(config)
    flag = config.folder / "disk-full"
    with run.daemon(config, "disk-full") as daemon, writer.traffic(_RATE):
        daemon.wait_for(daemon.ready)
        flag.touch()
        failures = daemon.failures()
        daemon.wait_for(lambda: daemon.failures() > failures + 1)
        flag.unlink()
        daemon.wait_for(saves_again(daemon))
        run.stop(daemon)
    return run.finish(config, writer, exact=True)


def store_away(run: ScenarioRun) -> Problems:
    """The S3 server fails, is unreachable or silent for a while; counting continues."""
    with S3Proxy(s3.server()) as proxy:
        # A long session, because a member that must restore during the outage exits.
        config = run.config(member="one", interval="0s", session=30_000, endpoint=proxy.endpoint)
        writer = run.writer(config)
        with run.daemon(config) as daemon, writer.traffic(_RATE):
            daemon.wait_for(daemon.ready)
            for fault in ("error", "cut", "silent"):
                _inject(proxy, fault)
                failures = daemon.failures()
                daemon.wait_for(lambda: daemon.failures() > failures + 1)  # noqa: B023  called at once
                proxy.fault = lambda _: None
                daemon.wait_for(saves_again(daemon))
            _inject(proxy, "lost", "slow", None)
            for _ in range(3):
                daemon.wait_for(saves_again(daemon))
            proxy.fault = lambda _: None
            run.stop(daemon)
        return run.finish(config, writer, exact=True)


def _inject(proxy: S3Proxy, *faults: Fault | None) -> None:
    """Inject these faults into requests in turn."""
    turns = itertools.cycle(faults)
    proxy.fault = lambda _: next(turns)


def torn(run: ScenarioRun) -> Problems:
    """The newest round is damaged while the daemon is down; it loads the one before."""
    config = run.config(interval="0s")
    writer = run.writer(config)
    with run.daemon(config) as daemon:
        for _ in range(3):
            writer.write(500)
            run.wait_until_saved(config, daemon)
        run.stop(daemon)
    damaged(config)
    with run.daemon(config) as daemon:
        run.wait_until_saved(config, daemon)
        run.stop(daemon)
        logged, partitions = daemon.logged("a damaged checkpoint was skipped"), PARTITIONS
        run.expect(logged == partitions, f"{logged} of {partitions} partitions said so")
    return run.finish(config, writer, exact=True)


def saves_again(daemon: Daemon) -> Callable[[], bool]:
    """A condition: every partition has a newer checkpoint than now."""
    before = daemon.offsets()

    def further() -> bool:
        now = daemon.offsets()
        return len(now) >= len(before) and all(
            now[number] > before.get(number, 0) for number in now
        )

    return further


def damaged(config: DaemonConfig, before: Collection[Path] = ()) -> list[Path]:
    """Truncate the newest round of one process, and flip a bit in the directory of another's.

    Processes with a file in `before`, which was damaged earlier, are left alone.
    """
    folders = sorted({file.parent for file in Path(config.path).glob("rounds/*/*.round")})
    newest = [sorted(folder.glob("*.round"))[-2:] for folder in folders]
    selected = [two[-1] for two in newest if len(two) > 1 and not set(two) & set(before)][-2:]
    for damage, file in zip((_truncate, _flip), selected, strict=False):
        # A concurrent save may remove the file.
        with suppress(FileNotFoundError):
            damage(file)
    return selected


def _truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-100])


def _flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[-200] ^= 1
    file.write_bytes(content)
