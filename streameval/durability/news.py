"""What happened to state, for whoever logs it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec


class News(msgspec.Struct, frozen=True):
    """Something a person may want to know.

    Attributes:
        level: how much it matters.
        event: what happened, in a few words.
        fields: where, and with what figures; plain values.
    """

    level: Literal["info", "warning", "error"]
    event: str
    fields: Mapping[str, Any]
