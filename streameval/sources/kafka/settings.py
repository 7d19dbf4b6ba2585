"""Settings of the Kafka client: defaults, the user's settings, and reserved settings.

The [source.kafka] table accepts the client's own names, Java's and librdkafka's. Inconsistent
settings are rejected here, because the client treats an unknown security protocol as PLAINTEXT and
would send unencrypted what the user wants encrypted.

Functions raise ConfigError for a setting that is unknown, reserved, given twice, or has an invalid
value; it names the key.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from kafka import KafkaConsumer
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.net.sasl import SASL_MECHANISMS
from kafka.util import ensure_valid_topic_name

from streameval.events.errors import ConfigError, nearest
from streameval.sources.kafka.diagnosis import addresses
from streameval.sources.options import LARGEST_PORT, KafkaOptions
from streameval.sources.secrets import FileText, names_a_file, substitute

TABLE: Final = "source.kafka"
"""The table that errors name."""

KAFKA_PYTHON: Final = "kafka-python"
CONFLUENT: Final = "confluent"
"""The clients that can read; all other connections use kafka-python."""

_FIXED: Final[Mapping[str, Any]] = {
    "group_id": None,
    "enable_auto_commit": False,
    "isolation_level": "read_committed",
    "auto_offset_reset": "none",
    "allow_auto_create_topics": False,
}
_DEFAULTS: Final[Mapping[str, Any]] = {
    "bootstrap_timeout_ms": 5_000,
    "client_id": "streameval",
    "max_poll_records": 10_000,
    "metrics_enabled": False,
    "reconnect_backoff_max_ms": 1_000,
}
"""Defaults that the user may override."""

_MEMBER: Final = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")
_EMPTY: Final = "found an empty text; remove the key, or give a name."
_MEMBER_NEEDED: Final = "give up to 249 letters, digits, dots, underscores and hyphens."
_JAAS: Final = re.compile(r'\b(username|password)\s*=\s*(?:"([^"]*)"|\'([^\']*)\')')
_TRUTH: Final = {"true": True, "false": False}
_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_FILES: Final = ("ssl_cafile", "ssl_certfile", "ssl_keyfile", "ssl_crlfile")
_NEEDED: Final = ("sasl_plain_username", "sasl_plain_password")

RENAMED: Final[Mapping[str, str]] = {
    "metadata_broker_list": "bootstrap_servers",
    "fetch_wait_max_ms": "fetch_max_wait_ms",
    "fetch_message_max_bytes": "max_partition_fetch_bytes",
    "sasl_mechanisms": "sasl_mechanism",
    "sasl_username": "sasl_plain_username",
    "sasl_password": "sasl_plain_password",
    "socket_receive_buffer_bytes": "receive_buffer_bytes",
    "socket_send_buffer_bytes": "send_buffer_bytes",
    "socket_timeout_ms": "request_timeout_ms",
    "ssl_ca_location": "ssl_cafile",
    "ssl_certificate_location": "ssl_certfile",
    "ssl_cipher_suites": "ssl_ciphers",
    "ssl_crl_location": "ssl_crlfile",
    "ssl_key_location": "ssl_keyfile",
    "ssl_key_password": "ssl_password",
    "topic_metadata_refresh_interval_ms": "metadata_max_age_ms",
}
"""Name in other clients, with underscores -> name in kafka-python; others differ only in dots."""

_TRANSLATED: Final = ("sasl_jaas_config", "ssl_endpoint_identification_algorithm")
"""Java's settings that become several settings here, or have another value."""

POSITIONS = "streameval stores positions itself, and commits them after they are durable"
RANGE = "always range assignment, so that partition n of every topic goes to one member"
_START = "set `start` in [source]"
_OBJECT = "its value is a Python object, which a configuration file cannot express"
_BYTES = "records are read as bytes, and decoded according to [event]"
_STORES = "Java key stores are not supported; give PEM files: ssl_cafile, ssl_certfile, ssl_keyfile"

_REFUSED: Final[Mapping[str, str]] = {
    "enable_auto_commit": POSITIONS,
    "auto_commit_interval_ms": POSITIONS,
    "default_offset_commit_callback": POSITIONS,
    "group_id": "set `group` in [source]",
    "group_instance_id": "set `member` in [source]",
    "partition_assignment_strategy": RANGE,
    "group_protocol": RANGE,
    "isolation_level": "always read_committed, so that aborted records are never counted",
    "auto_offset_reset": _START,
    "allow_auto_create_topics": "reading never creates a topic",
    "consumer_timeout_ms": "streameval controls timeouts of polling",
    "key_deserializer": _BYTES,
    "value_deserializer": _BYTES,
    "kafka_client": _OBJECT,
    "key_serializer": _OBJECT,
    "metric_reporters": _OBJECT,
    "partitioner": "always murmur2 of the user, as in Java",
    "sasl_oauth_token_provider": _OBJECT,
    "selector": _OBJECT,
    "socket_options": _OBJECT,
    "ssl_context": _OBJECT,
    "ssl_keystore_location": _STORES,
    "ssl_keystore_password": _STORES,
    "ssl_keystore_type": _STORES,
    "ssl_truststore_location": _STORES,
    "ssl_truststore_password": _STORES,
    "ssl_truststore_type": _STORES,
    "transactional_id": "records are written without transactions",
    "value_serializer": _OBJECT,
    "topics": "set `topics` in [source]",
}
"""Reserved setting -> the reason."""


def source_topics(options: KafkaOptions) -> list[str]:
    """The topics without duplicates."""
    for topic in options.topics:
        try:
            ensure_valid_topic_name(topic)
        except ValueError as error:
            raise ConfigError("source", "topics", f"found {topic!r}: {error}.") from error
    return list(dict.fromkeys(options.topics))


def client_of(options: KafkaOptions) -> str:
    """The client that reads: KAFKA_PYTHON or CONFLUENT."""
    client = options.kafka.get("client", KAFKA_PYTHON)
    _require_known("client", client, (KAFKA_PYTHON, CONFLUENT), TABLE)
    return str(client)


def source_config(options: KafkaOptions, environment: Mapping[str, str]) -> dict[str, Any]:
    """All settings in kafka-python's names, without those that only librdkafka has."""
    return {**_DEFAULTS, **given_config(options, environment), **_FIXED}


def given_config(options: KafkaOptions, environment: Mapping[str, str]) -> dict[str, Any]:
    """The settings of `source_config` that the user gives."""
    table = {key: value for key, value in options.kafka.items() if key != "client"}
    if client_of(options) == CONFLUENT:
        table = {key: value for key, value in _flatten(table) if is_known(key)}
    return client_config(table, environment)


def librdkafka_only(options: KafkaOptions, environment: Mapping[str, str]) -> dict[str, Any]:
    """Settings that kafka-python does not know, with the user's names."""
    further = {}
    for written, raw in _flatten(options.kafka):
        if written != "client" and not is_known(written):
            try:
                further[written] = _fill(raw, environment)
            except ValueError as error:
                raise ConfigError(TABLE, written, _sentence(error)) from error
    return further


def group_config(
    options: KafkaOptions, environment: Mapping[str, str], *, shared: bool
) -> dict[str, Any]:
    """The settings of a group member.

    `shared`: whether to join the configured group; otherwise a group `<group>-<random>`.
    """
    if options.group == "":
        raise ConfigError("source", "group", _EMPTY)
    alone = f"{options.group}-{uuid.uuid4().hex[:12]}"
    return {
        **source_config(options, environment),
        "group_id": options.group if shared else alone,
        "group_instance_id": _member(options.member, environment) if shared else None,
        "partition_assignment_strategy": (RangePartitionAssignor,),
    }


def _member(written: str | None, environment: Mapping[str, str]) -> str | None:
    """The name of this member; ${NAME} distinguishes replicas that share one file."""
    if written is None:
        return None
    if written == "":
        raise ConfigError("source", "member", _EMPTY)
    try:
        member = substitute(written, environment)
    except ValueError as error:
        raise ConfigError("source", "member", f"{error}.") from error
    if not _MEMBER.fullmatch(member):
        raise ConfigError("source", "member", f"found {member!r}; {_MEMBER_NEEDED}")
    return member


def client_config(
    table: Mapping[str, Any],
    environment: Mapping[str, str],
    *,
    path: str = TABLE,
    client: Any = KafkaConsumer,
) -> dict[str, Any]:
    """Settings of the client in kafka-python's names.

    Names may be the client's own, Java's or librdkafka's; nested tables, which TOML makes of
    unquoted dots, are flattened; ${NAME} and ${file:PATH} in strings are replaced.

    `path`: the table that errors name.

    >>> client_config({"bootstrap": {"servers": "${HOST}:9092"}}, {"HOST": "kafka"})
    {'bootstrap_servers': 'kafka:9092'}
    """
    config: dict[str, Any] = {}
    problems: list[ConfigError] = []
    for written, raw in _flatten(table):

        def read(written: str = written, raw: Any = raw) -> dict[str, Any]:
            return _settings(written, _fill(raw, environment), client.DEFAULT_CONFIG)

        try:
            settings = read()
        except ValueError as error:
            problems.append(ConfigError(path, written, _sentence(error)))
            continue
        if repeated := sorted(config.keys() & settings.keys()):
            twice = f"{', '.join(repeated)} is given twice; keep one of the names."
            problems.append(ConfigError(path, written, twice))
        config.update(_rereadable(settings, read) if names_a_file(raw) else settings)
    if problems:
        first, *others = problems
        raise ConfigError(path, first.key, first.problem, *others)
    return check_security(config, path)


def _rereadable(
    settings: Mapping[str, Any], read: Callable[[], Mapping[str, Any]]
) -> dict[str, Any]:
    """Wrap texts from files, so that later connections read the files again."""

    def again(name: str) -> str:
        return str(read()[name])

    return {
        name: FileText(value, partial(again, name)) if isinstance(value, str) else value
        for name, value in settings.items()
    }


def known_settings(config: Mapping[str, Any], client: Any) -> dict[str, Any]:
    """The part of `config` that this kind of client knows (a producer has no fetch sizes)."""
    return {key: value for key, value in config.items() if key in client.DEFAULT_CONFIG}


def _flatten(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _fill(raw: Any, environment: Mapping[str, str]) -> Any:
    if isinstance(raw, list):
        return [_fill(item, environment) for item in raw]
    return substitute(raw, environment) if isinstance(raw, str) else raw


def _sentence(error: ValueError) -> str:
    text = str(error)
    return text if text.endswith("?") else f"{text}."


def _settings(written: str, value: Any, defaults: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that one key of the user sets, usually one."""
    name = written.replace(".", "_")
    if name == "sasl_jaas_config":
        return _jaas(str(value))
    if name == "ssl_endpoint_identification_algorithm":
        return {"ssl_check_hostname": str(value).lower() == "https"}
    name = RENAMED.get(name, name)
    if name in _REFUSED:
        raise ValueError(f"cannot be set: {_REFUSED[name]}")
    if name not in defaults:
        raise ValueError(unknown(name, defaults))
    return {name: _convert(value, defaults[name])}


def is_known(written: str) -> bool:
    """Whether kafka-python has this setting, under any of its names."""
    name = written.replace(".", "_")
    name = RENAMED.get(name, name)
    return name in KafkaConsumer.DEFAULT_CONFIG or name in _REFUSED or name in _TRANSLATED


def unknown(name: str, defaults: Mapping[str, Any] = KafkaConsumer.DEFAULT_CONFIG) -> str:
    """The message about a setting that no client has."""
    similar = nearest(name, (set(defaults) | set(RENAMED)) - set(_REFUSED))
    meant = f"; did you mean {' or '.join(map(repr, similar))}?" if similar else ""
    return f"the Kafka client has no such setting{meant or '; see its documentation'}"


def _jaas(text: str) -> dict[str, Any]:
    found = {key: double or single for key, double, single in _JAAS.findall(text)}
    if found.keys() != {"username", "password"}:
        raise ValueError('only username="..." and password="..." of a login module are supported')
    return {f"sasl_plain_{key}": value for key, value in found.items()}


def _convert(value: Any, default: Any) -> Any:
    """Text converted to the type of the default, because Java's properties are all text."""
    if not isinstance(value, str):
        return value
    if isinstance(default, bool):
        if value.lower() not in _TRUTH:
            raise ValueError(f"found {value!r}; give true or false")
        return _TRUTH[value.lower()]
    if isinstance(default, int):
        if not value.strip().lstrip("-").isdecimal():
            raise ValueError(f"found {value!r}; give a whole number")
        return int(value)
    return value


def check_security(config: Mapping[str, Any], path: str) -> dict[str, Any]:
    """`config` with protocol and mechanism in capitals; raises if its settings are inconsistent."""
    upper = ("security_protocol", "sasl_mechanism")
    config = {key: str(value).upper() if key in upper else value for key, value in config.items()}
    protocol = config.get("security_protocol", "PLAINTEXT")
    _require_known("security_protocol", protocol, _PROTOCOLS, path)
    if protocol.startswith("SASL"):
        _require_credentials(config, path)
    _refuse_unused(config, protocol, path)
    _require_files(config, path)
    _require_addresses(config.get("bootstrap_servers", "localhost"), path)
    return config


def _require_known(key: str, given: object, allowed: tuple[str, ...], path: str) -> None:
    if given not in allowed:
        raise ConfigError(path, key, f"found {given!r}; give one of {', '.join(allowed)}.")


def _require_credentials(config: Mapping[str, Any], path: str) -> None:
    mechanism = config.get("sasl_mechanism")
    _require_known("sasl_mechanism", mechanism, tuple(sorted(SASL_MECHANISMS)), path)
    if mechanism == "PLAIN" or str(mechanism).startswith("SCRAM"):
        for key in _NEEDED:
            if not config.get(key):
                raise ConfigError(path, key, f"missing; {mechanism} needs it.")


def _refuse_unused(config: Mapping[str, Any], protocol: str, path: str) -> None:
    for key in config:
        kind = key.partition("_")[0].upper()
        if kind in ("SASL", "SSL") and kind not in protocol.split("_"):
            problem = f"security_protocol is {protocol}, which does not use this key; remove it."
            raise ConfigError(path, key, problem)


def _require_files(config: Mapping[str, Any], path: str) -> None:
    for key in filter(config.__contains__, _FILES):
        try:
            Path(config[key]).read_bytes()
        except (OSError, TypeError) as error:
            raise ConfigError(path, key, f"the file cannot be read ({error}).") from error


def _require_addresses(servers: object, path: str) -> None:
    listed = servers.split(",") if isinstance(servers, str) else servers
    several = listed if isinstance(listed, list | tuple) else [listed]
    texts = [address.strip() for address in several if isinstance(address, str)]
    given = texts if len(texts) == len(several) else []
    if "@" in str(servers):
        keys = "sasl_plain_username and sasl_plain_password"
        problem = f"user information does not belong here; give {keys}."
        raise ConfigError(path, "bootstrap_servers", problem)
    wrong = [address for address in given if address and not _is_address(address)]
    if wrong or not any(given):
        told = repr(", ".join(wrong or given)) if len(texts) == len(several) else repr(servers)
        problem = f"found {told}; give HOST:PORT, for example 'broker-1:9092'."
        raise ConfigError(path, "bootstrap_servers", problem)


def _is_address(text: str) -> bool:
    """Whether it is HOST:PORT or only a host, which may be an IPv6 address."""
    host, colon, port = text.rpartition("//")[2].rpartition(":")
    if not colon or (":" in host and not host.endswith("]")):
        return True
    return bool(host) and port.isdecimal() and 0 < int(port) <= LARGEST_PORT


_LIBRDKAFKA_FIXED: Final[Mapping[str, Any]] = {
    "allow.auto.create.topics": False,
    "auto.offset.reset": "error",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    # Ends of partitions move the position over transaction markers, which are not records.
    "enable.partition.eof": True,
    "isolation.level": "read_committed",
    "partition.assignment.strategy": "range",
}
_LIBRDKAFKA_DEFAULTS: Final[Mapping[str, Any]] = {
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
NOT_IN_LIBRDKAFKA: Final = (
    'librdkafka has no such setting; remove it, or set client = "kafka-python"'
)
_SECURITY: Final = re.compile(r"(enable_)?(ssl|sasl|https|security)_")
_NOT_THE_USERS: Final[Mapping[str, str]] = {
    "enable_auto_offset_store": POSITIONS,
    "enable_partition_eof": POSITIONS,
    "group_remote_assignor": RANGE,
    "logger": "its value is a Python object, which a configuration file cannot express",
    "on_commit": POSITIONS,
}


def librdkafka_settings(
    options: KafkaOptions, environment: Mapping[str, str], config: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, str]]:
    """The settings of a reader in librdkafka's names, and each name -> key that the user wrote."""
    given = given_config(options, environment)
    mechanism = given.get("sasl_mechanism", _MECHANISMS[0])
    if mechanism not in _MECHANISMS:
        problem = f"found {mechanism!r}; with this client, give one of {', '.join(_MECHANISMS)}."
        raise ConfigError(TABLE, "sasl_mechanism", problem)
    further = librdkafka_only(options, environment)
    written = {_NAMES.get(key, _dotted(key)): key for key in (*given, *further)}
    for key in further:
        _refuse_ours(key)
    mapped = {
        **_LIBRDKAFKA_DEFAULTS,
        **_renamed(config, {*given, *_ALWAYS} - _OF_THE_SOURCE),
        **{_dotted(key): value for key, value in further.items()},
        **_LIBRDKAFKA_FIXED,
    }
    return mapped, written


def credentials(config: Mapping[str, Any]) -> dict[str, str]:
    """User and password in librdkafka's names, from settings in kafka-python's names."""
    return {_NAMES[name]: str(config[name]) for name in _CREDENTIALS if name in config}


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
    renamed = {
        _NAMES.get(key, _dotted(key)): value
        for key, value in config.items()
        if key in passed and value is not None
    }
    renamed["bootstrap.servers"] = ",".join(addresses(config))
    if "SSL" in str(config.get("security_protocol", "")):
        checked = config.get("ssl_check_hostname", True)
        renamed["ssl.endpoint.identification.algorithm"] = "https" if checked else "none"
        if "ssl_certfile" in config:
            # Like Python, use the certificate's file for the key if no other is given.
            renamed.setdefault("ssl.key.location", config["ssl_certfile"])
    return renamed
