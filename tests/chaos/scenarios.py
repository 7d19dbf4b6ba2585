"""Every way in which daemons are hurt; each ends in order, and is then checked against the log."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeAlias

from tests.chaos.check import Faults
from tests.chaos.deaths import kill, points, replicas, revoke, transactions
from tests.chaos.moves import move, slow, zombie
from tests.chaos.refusals import added, recreated, retention
from tests.chaos.soak import soak
from tests.chaos.stage import FAILURES, Stage
from tests.chaos.surroundings import broker_restart, cut, disk_full, store_away, torn

Scenario: TypeAlias = Callable[[Stage], Faults]

SCENARIOS: Mapping[str, Scenario] = MappingProxyType(
    {
        "kill": kill,
        "points": points,
        "revoke": revoke,
        "replicas": replicas,
        "move": move,
        "zombie": zombie,
        "slow": slow,
        "disk-full": disk_full,
        "store-away": store_away,
        "torn": torn,
        "retention": retention,
        "recreated": recreated,
        "partitions": added,
        "transactions": transactions,
        "cut": cut,
        "broker-restart": broker_restart,
        "soak": soak,
    }
)
"""By the names that the command line knows them by."""

ON_S3 = ("kill", "revoke", "replicas", "move", "zombie", "store-away")
"""Those that are played with checkpoints on an S3 server too, or only so."""

IN_FOLDER = tuple(name for name in SCENARIOS if name != "store-away")
"""Those that are played with checkpoints in a folder."""

ROUGH = ("cut", "broker-restart", "soak")
"""Those that hurt the broker, or the way to it, and so need one of their own."""


def played(name: str, stage: Stage) -> Faults:
    """What is wrong after a scenario; none where all is as it should be."""
    try:
        with stage.open:
            return SCENARIOS[name](stage)
    except FAILURES as error:
        return [*stage.found, f"{type(error).__name__}: {error}"]
