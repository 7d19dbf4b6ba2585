"""What must hold between the settings of a secured connection.

The client itself takes an unknown security protocol as PLAINTEXT, and would send without
encryption what the user meant to be encrypted.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from kafka.net.sasl import SASL_MECHANISMS

from streameval.errors import ConfigError

_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_FILES: Final = ("ssl_cafile", "ssl_certfile", "ssl_keyfile", "ssl_crlfile")
_NEEDED: Final = ("sasl_plain_username", "sasl_plain_password")


def secured(config: Mapping[str, Any], path: str) -> dict[str, Any]:
    """`config` with protocol and mechanism in capitals, found to be of one piece.

    Raises:
        ConfigError: a protocol or mechanism is unknown, a setting of theirs is missing or would
            never be used, or a file cannot be read.
    """
    upper = ("security_protocol", "sasl_mechanism")
    config = {key: str(value).upper() if key in upper else value for key, value in config.items()}
    protocol = config.get("security_protocol", "PLAINTEXT")
    _require_known("security_protocol", protocol, _PROTOCOLS, path)
    if protocol.startswith("SASL"):
        _require_credentials(config, path)
    _refuse_unused(config, protocol, path)
    _require_files(config, path)
    return config


def _require_known(key: str, found: object, known: tuple[str, ...], path: str) -> None:
    if found not in known:
        raise ConfigError(path, key, f"found {found!r}; write one of {', '.join(known)}.")


def _require_credentials(config: Mapping[str, Any], path: str) -> None:
    mechanism = config.get("sasl_mechanism")
    _require_known("sasl_mechanism", mechanism, tuple(sorted(SASL_MECHANISMS)), path)
    if mechanism == "PLAIN" or str(mechanism).startswith("SCRAM"):
        for key in _NEEDED:
            if not config.get(key):
                raise ConfigError(path, key, f"is missing; {mechanism} needs it.")


def _refuse_unused(config: Mapping[str, Any], protocol: str, path: str) -> None:
    for key in config:
        kind = key.partition("_")[0].upper()
        if kind in ("SASL", "SSL") and kind not in protocol.split("_"):
            problem = f"is set, but security_protocol is {protocol}, which does not use it."
            raise ConfigError(path, key, problem)


def _require_files(config: Mapping[str, Any], path: str) -> None:
    for key in _FILES:
        if key in config:
            try:
                Path(config[key]).read_bytes()
            except (OSError, TypeError) as error:
                raise ConfigError(path, key, f"the file cannot be read ({error}).") from error
