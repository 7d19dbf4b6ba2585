"""From the user's [source.kafka] table to settings of the Kafka client."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from kafka import KafkaConsumer

from streameval.errors import ConfigError, nearest
from streameval.sources.kafka_names import REFUSED, RENAMED
from streameval.sources.kafka_secrets import substituted
from streameval.sources.kafka_security import secured

TABLE: Final = "source.kafka"
"""How an error calls the place of a setting."""

_JAAS: Final = re.compile(r'\b(username|password)\s*=\s*(?:"([^"]*)"|\'([^\']*)\')')
_TRUTH: Final = {"true": True, "false": False}


def client_config(
    table: Mapping[str, Any],
    environment: Mapping[str, str],
    *,
    path: str = TABLE,
    client: Any = KafkaConsumer,
) -> dict[str, Any]:
    """Settings of the client, named as kafka-python names them.

    Names may be the client's own, Java's or librdkafka's; tables that unquoted dots made are
    flattened; ${NAME} and ${file:PATH} in strings are replaced.

    Args:
        table: the user's table as it was read.
        environment: what ${NAME} refers to.
        path: how an error calls the place of the table.
        client: the class whose settings are asked for.

    Raises:
        ConfigError: a key is unknown, repeated or not the user's, or its value cannot be used.

    >>> client_config({"bootstrap": {"servers": "${HOST}:9092"}}, {"HOST": "kafka"})
    {'bootstrap_servers': 'kafka:9092'}
    """
    config: dict[str, Any] = {}
    for written, raw in _flattened(table):
        try:
            settings = _settings(written, _filled(raw, environment), client.DEFAULT_CONFIG)
        except ValueError as error:
            raise ConfigError(path, written, _sentence(error)) from error
        repeated = config.keys() & settings.keys()
        if repeated:
            names = ", ".join(sorted(repeated))
            raise ConfigError(path, written, f"{names} is given twice; keep one of its names.")
        config.update(settings)
    return secured(config, path)


def accepted(config: Mapping[str, Any], client: Any) -> dict[str, Any]:
    """The part of `config` that this kind of client knows (a producer has no fetch sizes)."""
    return {key: value for key, value in config.items() if key in client.DEFAULT_CONFIG}


def _flattened(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _flattened(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _filled(raw: Any, environment: Mapping[str, str]) -> Any:
    if isinstance(raw, list):
        return [_filled(item, environment) for item in raw]
    return substituted(raw, environment) if isinstance(raw, str) else raw


def _sentence(error: ValueError) -> str:
    said = str(error)
    return said if said.endswith("?") else f"{said}."


def _settings(written: str, value: Any, defaults: Mapping[str, Any]) -> dict[str, Any]:
    """What one key of the user's means; usually one setting."""
    name = written.replace(".", "_")
    if name == "sasl_jaas_config":
        return _jaas(str(value))
    if name == "ssl_endpoint_identification_algorithm":
        return {"ssl_check_hostname": str(value).lower() == "https"}
    name = RENAMED.get(name, name)
    if name in REFUSED:
        raise ValueError(f"cannot be set: {REFUSED[name]}")
    if name not in defaults:
        raise ValueError(_unknown(name, defaults))
    return {name: _converted(value, defaults[name])}


def _unknown(name: str, defaults: Mapping[str, Any]) -> str:
    offered = nearest(name, (set(defaults) | set(RENAMED)) - set(REFUSED))
    meant = f"; did you mean {' or '.join(map(repr, offered))}?" if offered else ""
    return f"the Kafka client has no such setting{meant or '; see its documentation'}"


def _jaas(text: str) -> dict[str, Any]:
    found = {key: double or single for key, double, single in _JAAS.findall(text)}
    if found.keys() != {"username", "password"}:
        raise ValueError('only username="..." and password="..." of a login module are understood')
    return {f"sasl_plain_{key}": value for key, value in found.items()}


def _converted(value: Any, default: Any) -> Any:
    """Text as the kind of the default, because Java's properties are all text."""
    if not isinstance(value, str):
        return value
    if isinstance(default, bool):
        if value.lower() not in _TRUTH:
            raise ValueError(f"found {value!r} where true or false is needed")
        return _TRUTH[value.lower()]
    if isinstance(default, int):
        if not value.strip().lstrip("-").isdecimal():
            raise ValueError(f"found {value!r} where a whole number is needed")
        return int(value)
    return value
