"""What to do where going on from a saved state would be wrong: fail, unless told otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

import msgspec

from streameval.errors import RefusedStateError


class Policies(msgspec.Struct, frozen=True, kw_only=True):
    """The policies of the [state] table; "restart" gives up what was counted and begins anew.

    Attributes:
        on_retention: the log has lost records that the state has not counted yet.
        on_recreated: the topic was deleted and made again.
        on_truncated: the state has counted records that the log does not have.
        on_new_partitions: the topic has more partitions than when its state began.
        on_unknown_version: a newer release wrote the state.
        on_other_settings: decoding, labels, panes or depth differ.
        on_foreign_progress: the group has committed more than any checkpoint covers; records
            below that rebuild the state, and never count in counters again.
    """

    on_retention: Literal["fail", "skip"] = "fail"
    on_recreated: Literal["fail", "restart"] = "fail"
    on_truncated: Literal["fail", "restart"] = "fail"
    on_new_partitions: Literal["fail", "accept"] = "fail"
    on_unknown_version: Literal["fail", "restart"] = "fail"
    on_other_settings: Literal["fail", "restart"] = "fail"
    on_foreign_progress: Literal["fail", "rebuild"] = "fail"

    def obey(self, policy: str, where: str, problem: str) -> str:
        """Go on as the policy says.

        Returns:
            How: "skip", "restart", ...

        Raises:
            RefusedStateError: the policy is to fail.

        Example:
            >>> Policies(on_truncated="restart").obey("on_truncated", "events[0]", "...")
            'restart'
        """
        chosen: str = getattr(self, policy)
        if chosen == "fail":
            raise RefusedStateError(where, problem, policy, CHOICES[policy])
        return chosen


CHOICES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "on_retention": ("skip",),
        "on_recreated": ("restart",),
        "on_truncated": ("restart",),
        "on_new_partitions": ("accept",),
        "on_unknown_version": ("restart",),
        "on_other_settings": ("restart",),
        "on_foreign_progress": ("rebuild",),
    }
)
"""What each policy can be besides "fail"."""
