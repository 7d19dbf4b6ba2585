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


_ANEW = "counting begins anew where `start` says, and what was counted is set aside"

CHOICES: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "on_retention": {"skip": "the gap is told, and never counted"},
        "on_recreated": {"restart": _ANEW},
        "on_truncated": {"restart": _ANEW},
        "on_new_partitions": {"accept": "new partitions count from their first record"},
        "on_unknown_version": {"restart": _ANEW},
        "on_damaged": {"restart": _ANEW},
        "on_other_settings": {
            "restart": f"{_ANEW}; or write the settings as they were",
            "accept": "where only [event] differs: what was counted stays, and counting goes on",
        },
        "on_foreign_progress": {
            "rebuild": "records up to the commit are counted again, in no counter"
        },
    }
)
"""What each policy can be besides "fail", and what it does then."""
