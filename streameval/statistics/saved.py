"""What every saved state must show before it is loaded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from streameval.errors import StateVersionError, UnlikeStateError


def check_saved(what: str, state: Mapping[str, Any], version: int, options: msgspec.Struct) -> None:
    """Refuse a state of another version, or of a statistic made otherwise.

    Raises:
        StateVersionError: the version is not known.
        UnlikeStateError: its options differ.
    """
    if state["version"] != version:
        raise StateVersionError(what, state["version"], version)
    saved = msgspec.convert(state["options"], type(options))
    if saved != options:
        raise UnlikeStateError(what, options, saved)
