"""Settings of librdkafka: translated and validated; a ConfigError names the user's key."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from contextlib import closing
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException
from kafka import errors

from streameval.errors import ConfigError
from streameval.sources.kafka.connections import addresses
from streameval.sources.kafka.settings import (
    POSITIONS,
    RANGE,
    RENAMED,
    TABLE,
    given_config,
    is_known,
    librdkafka_only,
    unknown,
)
from streameval.sources.options import KafkaOptions

_FIXED: Final[Mapping[str, Any]] = {
    "allow.auto.create.topics": False,
    "auto.offset.reset": "error",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    # Ends of partitions move the position over transaction markers, which are not records.
    "enable.partition.eof": True,
    "isolation.level": "read_committed",
    "partition.assignment.strategy": "range",
}
_DEFAULTS: Final[Mapping[str, Any]] = {
    "check.crcs": True,
    "log_level": 0,
    "topic.metadata.refresh.interval.ms": 2_000,
}
"""Defaults that the user may override."""

_NAMES: Final[Mapping[str, str]] = {
    ours: theirs.replace("_", ".") for theirs, ours in RENAMED.items()
}
"""Name in kafka-python -> name in librdkafka; other names differ only in dots."""

_ALWAYS: Final = ("client_id", "group_id", "group_instance_id", "reconnect_backoff_max_ms")
"""Passed to librdkafka even if the user does not set them."""

_OF_THE_SOURCE: Final = frozenset(
    {"bootstrap_servers", "bootstrap_timeout_ms", "max_poll_records", "ssl_check_hostname"}
)
"""Handled by us, not passed to librdkafka unchanged."""

_CREDENTIALS: Final = ("sasl_plain_username", "sasl_plain_password")
_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_NOT_THERE: Final = 'librdkafka has no such setting; remove it, or set client = "kafka-python"'
_SECURITY: Final = re.compile(r"(enable_)?(ssl|sasl|https|security)_")
_NOT_THE_USERS: Final[Mapping[str, str]] = {
    "enable_auto_offset_store": POSITIONS,
    "enable_partition_eof": POSITIONS,
    "group_remote_assignor": RANGE,
    "logger": "its value is a Python object, which a configuration file cannot express",
    "on_commit": POSITIONS,
}
_NAMED: Final = re.compile(r'property:? "([^"]+)"|`([a-z._]+)`|^([a-z._]+) failed')

_CONNECTING_SECONDS: Final = 10.0


def librdkafka_config(
    options: KafkaOptions, environment: Mapping[str, str], config: Mapping[str, Any]
) -> dict[str, Any]:
    """The settings of a reader in librdkafka's names; validated by librdkafka."""
    given = given_config(options, environment)
    mechanism = given.get("sasl_mechanism", _MECHANISMS[0])
    if mechanism not in _MECHANISMS:
        problem = f"found {mechanism!r}; with this client, give one of {', '.join(_MECHANISMS)}."
        raise ConfigError(TABLE, "sasl_mechanism", problem)
    further = librdkafka_only(options, environment)
    written = {_NAMES.get(key, _dotted(key)): key for key in (*given, *further)}
    for key in further:
        _refuse_ours(key)
    found = {
        **_DEFAULTS,
        **_renamed(config, {*given, *_ALWAYS} - _OF_THE_SOURCE),
        **{_dotted(key): value for key, value in further.items()},
        **_FIXED,
    }
    _try(found, written)
    return found


def credentials(config: Mapping[str, Any]) -> dict[str, str]:
    """User and password in librdkafka's names, from settings in kafka-python's names."""
    return {_NAMES[name]: str(config[name]) for name in _CREDENTIALS if name in config}


def try_connection(settings: Mapping[str, Any]) -> None:
    """Connect once."""
    heard: list[KafkaError] = []
    with closing(Consumer({**settings, "error_cb": heard.append})) as client:
        try:
            client.list_topics(timeout=_CONNECTING_SECONDS)
        except KafkaException as error:
            client.poll(0.0)
            said = "; ".join(dict.fromkeys(each.str() for each in heard))
            raise errors.KafkaError(said or error.args[0].str()) from error


def _dotted(written: str) -> str:
    return written if written == "log_level" else written.replace("_", ".")


def _refuse_ours(written: str) -> None:
    name = written.replace(".", "_")
    if name in _NOT_THE_USERS or name.endswith("_cb"):
        reason = _NOT_THE_USERS.get(name, _NOT_THE_USERS["logger"])
        raise ConfigError(TABLE, written, f"cannot be set: {reason}.")
    if _SECURITY.match(name):
        problem = "only librdkafka knows it, but kafka-python also connects to Kafka;"
        raise ConfigError(TABLE, written, f"{problem} use kafka-python's security settings.")


def _renamed(config: Mapping[str, Any], passed: Collection[str]) -> dict[str, Any]:
    found = {
        _NAMES.get(key, _dotted(key)): value
        for key, value in config.items()
        if key in passed and value is not None
    }
    found["bootstrap.servers"] = ",".join(addresses(config))
    if "SSL" in str(config.get("security_protocol", "")):
        checked = config.get("ssl_check_hostname", True)
        found["ssl.endpoint.identification.algorithm"] = "https" if checked else "none"
        if "ssl_certfile" in config:
            # Like Python, use the certificate's file for the key if no other is given.
            found.setdefault("ssl.key.location", config["ssl_certfile"])
    return found


def _try(settings: Mapping[str, Any], written: Mapping[str, str]) -> None:
    """Let librdkafka validate the settings; without an address, it does not connect."""
    offline = {key: value for key, value in settings.items() if key != "bootstrap.servers"}
    try:
        Consumer(offline).close()
    except (KafkaException, TypeError, ValueError) as error:
        text = error.args[0].str() if isinstance(error, KafkaException) else str(error)
        text = text.removeprefix("Failed to create consumer: ").rstrip(".")
        match = _NAMED.search(text)
        name = next(filter(None, match.groups()), "client") if match else "client"
        key = written.get(name, name)
        if text.startswith("No such configuration property"):
            text = _NOT_THERE if is_known(key) else unknown(name.replace(".", "_"))
        raise ConfigError(TABLE, key, f"{text}." if not text.endswith("?") else text) from error
