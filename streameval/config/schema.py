"""What a saved state says of the configuration that it was made with, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from streameval.config.settings import Config
from streameval.errors import DamagedStateError

_LEFT_OUT: Final = ("source", "state", "dead_letters", "log_level", "web")
"""Where records come from and where values go says nothing of what was counted."""


def schema(config: Config) -> dict[str, Any]:
    """All that is needed to read a state elsewhere, as plain values.

    Files that the configuration names (a catalogue of ids, popularity, similarity) are named here
    too, and needed where the state is read.

    Example:
        >>> from streameval.sources.options import SimulatorOptions
        >>> config = Config(metrics=["ctr"], source=SimulatorOptions(), labels=["variant"])
        >>> from_schema(schema(config)) == config
        True
    """
    plain: dict[str, Any] = msgspec.to_builtins(config)
    default = msgspec.to_builtins(Config(source=config.source))
    kept = {name: value for name, value in plain.items() if name not in _LEFT_OUT}
    return {name: value for name, value in sorted(kept.items()) if value != default[name]}


def from_schema(saved: Mapping[str, Any]) -> Config:
    """The configuration that a state was made with; its source is a stand-in.

    Raises:
        DamagedStateError: it is not what `schema` gave.
    """
    try:
        return msgspec.convert({**saved, "source": {"type": "simulator"}}, Config)
    except msgspec.ValidationError as error:
        raise DamagedStateError("the schema of the state", str(error)) from error
