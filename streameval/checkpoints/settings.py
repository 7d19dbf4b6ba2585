"""Settings of checkpoints: interval, group, and the policies of the [state] table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Literal

import msgspec

from streameval.errors import RefusedStateError


class Policies(msgspec.Struct, frozen=True, kw_only=True):
    """The policies of the [state] table; "restart" archives the state and starts over.

    Attributes:
        on_retention: the log has lost records that the state has not counted yet.
        on_recreated: the topic was deleted and made again.
        on_truncated: the state has counted records that the log does not have.
        on_new_partitions: the topic has more partitions than when its state began.
        on_unknown_version: a newer release wrote the state.
        on_damaged: every checkpoint of a partition is damaged.
        on_other_settings: decoding, labels, panes or depth differ; where it is decoding alone,
            "accept" counts on.
        on_foreign_progress: the group has committed more than any checkpoint covers; records
            below that rebuild the state, and never count in counters again.
    """

    on_retention: Literal["fail", "skip"] = "fail"
    on_recreated: Literal["fail", "restart"] = "fail"
    on_truncated: Literal["fail", "restart"] = "fail"
    on_new_partitions: Literal["fail", "accept"] = "fail"
    on_unknown_version: Literal["fail", "restart"] = "fail"
    on_damaged: Literal["fail", "restart"] = "fail"
    on_other_settings: Literal["fail", "restart", "accept"] = "fail"
    on_foreign_progress: Literal["fail", "rebuild"] = "fail"

    def enforce(self, policy: str, where: str, problem: str) -> str:
        """Apply a policy to a problem.

        Returns:
            The choice: "skip", "restart", ...

        Raises:
            RefusedStateError: the choice is "fail".

        Example:
            >>> Policies(on_truncated="restart").enforce("on_truncated", "events[0]", "...")
            'restart'
        """
        chosen: str = getattr(self, policy)
        if chosen == "fail":
            raise RefusedStateError(where, problem, policy, CHOICES[policy])
        return chosen


_RESTART = "the state is archived and counting starts over where `start` says"

CHOICES: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "on_retention": {"skip": "the gap is logged and never counted"},
        "on_recreated": {"restart": _RESTART},
        "on_truncated": {"restart": _RESTART},
        "on_new_partitions": {"accept": "new partitions are counted from their first record"},
        "on_unknown_version": {"restart": _RESTART},
        "on_damaged": {"restart": _RESTART},
        "on_other_settings": {
            "restart": f"{_RESTART}; or write the settings as they were",
            "accept": "where only [event] differs: what was counted stays, and counting goes on",
        },
        "on_foreign_progress": {
            "rebuild": "records up to the commit are counted again, in no counter"
        },
    }
)
"""What each policy can be besides "fail", and its effect."""


class CheckpointSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What the checkpointer needs to know of the configuration.

    Attributes:
        release: of streameval.
        cluster: returns the id of the cluster; called at the first assignment.
        group: the consumer group.
        fingerprint: settings that must be the same to resume from a checkpoint; plain values.
        schema: what is counted; plain values, enough to read the state without a configuration.
        policies: what to do where resuming would be wrong.
        interval: seconds between checkpoints.
        events: records after which a checkpoint is made early; None for never.
        budget: seconds allowed for the last checkpoints before partitions are given away.
    """

    release: str
    cluster: Callable[[], str]
    group: str
    fingerprint: Mapping[str, Any]
    schema: Mapping[str, Any] = {}
    policies: Policies = Policies()
    interval: float = 10.0
    events: int | None = None
    budget: float = 60.0
