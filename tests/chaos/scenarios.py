"""The list of scenarios; each is checked against the log at its end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeAlias

from tests.chaos.check import Problems
from tests.chaos.infrastructure import cut, disk_full, store_away, torn
from tests.chaos.kills import points, replicas, revoke, transactions
from tests.chaos.rebalances import move, zombie
from tests.chaos.refusals import added, recreated, retention
from tests.chaos.run import ERRORS, ScenarioRun
from tests.chaos.soak import soak

Scenario: TypeAlias = Callable[[ScenarioRun], Problems]

SCENARIOS: Mapping[str, Scenario] = MappingProxyType(
    {
        "points": points,
        "revoke": revoke,
        "replicas": replicas,
        "move": move,
        "zombie": zombie,
        "disk-full": disk_full,
        "store-away": store_away,
        "torn": torn,
        "retention": retention,
        "recreated": recreated,
        "partitions": added,
        "transactions": transactions,
        "cut": cut,
        "soak": soak,
    }
)
"""Name on the command line -> scenario."""

ON_S3 = ("revoke", "replicas", "move", "zombie", "store-away")
"""Scenarios that run with checkpoints on an S3 server."""

IN_FOLDER = tuple(name for name in SCENARIOS if name != "store-away")
"""Scenarios that run with checkpoints in a folder."""

ON_OWN_BROKER = ("cut", "soak")
"""Scenarios with faults of the broker or its network, which need a separate broker."""


def run_scenario(name: str, run: ScenarioRun) -> Problems:
    try:
        with run.resources:
            return SCENARIOS[name](run)
    except ERRORS as error:
        return [*run.problems, f"{type(error).__name__}: {error}"]
