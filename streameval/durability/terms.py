"""Under which terms state is kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from streameval.durability.policies import Policies


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """Whose state it is, what it was made with, and how often it is saved.

    Attributes:
        release: of streameval.
        cluster: asked for the id of the cluster when partitions first come.
        group: the consumer group.
        settings: what must be the same for a state to go on; plain values.
        schema: what is counted, and how; plain values, for whoever reads the state elsewhere.
        policies: what to do where it cannot.
        interval: seconds between checkpoints.
        events: records after which one is made all the same; None means never.
        budget: longest time in seconds for the last checkpoints before partitions go elsewhere.
    """

    release: str
    cluster: Callable[[], str]
    group: str
    settings: Mapping[str, Any]
    schema: Mapping[str, Any] = {}
    policies: Policies = Policies()
    interval: float = 10.0
    events: int | None = None
    budget: float = 60.0
