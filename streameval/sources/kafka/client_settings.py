"""The [source.kafka] table: one spelling for both clients, whose own checks judge its values.

A setting has kafka-python's name, in which a dot is an underscore. librdkafka's name has dots, and
a few names differ. Only settings that a client would ignore are refused: those that streameval sets
itself, and security settings that the security protocol does not use.

Functions raise ConfigError, which names the key.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec
from kafka import KafkaConsumer
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.util import ensure_valid_topic_name

from streameval.events.errors import ConfigError
from streameval.events.secrets import FileText, names_a_file, substitute
from streameval.events.spelling import nearest
from streameval.sources.settings import LARGEST_PORT, KafkaOptions

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

_LIBRDKAFKA_FIXED: Final[Mapping[str, Any]] = {
    "allow.auto.create.topics": False,
    "auto.offset.reset": "error",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    # Ends of partitions advance the position over transaction markers, which are not records.
    "enable.partition.eof": True,
    "isolation.level": "read_committed",
    "partition.assignment.strategy": "range",
}
_LIBRDKAFKA_DEFAULTS: Final[Mapping[str, Any]] = {
    "check.crcs": True,
    "log_level": 0,
    "topic.metadata.refresh.interval.ms": 2_000,
}

_IN_LIBRDKAFKA: Final[Mapping[str, str]] = {
    "fetch_max_wait_ms": "fetch.wait.max.ms",
    "receive_buffer_bytes": "socket.receive.buffer.bytes",
    "request_timeout_ms": "socket.timeout.ms",
    "sasl_mechanism": "sasl.mechanisms",
    "sasl_plain_password": "sasl.password",
    "sasl_plain_username": "sasl.username",
    "send_buffer_bytes": "socket.send.buffer.bytes",
    "ssl_cafile": "ssl.ca.location",
    "ssl_certfile": "ssl.certificate.location",
    "ssl_ciphers": "ssl.cipher.suites",
    "ssl_crlfile": "ssl.crl.location",
    "ssl_keyfile": "ssl.key.location",
    "ssl_password": "ssl.key.password",
    "log_level": "log_level",
}
"""Name in kafka-python -> name in librdkafka; all others differ only in dots."""

_RENAMED: Final = {
    librdkafka_name.replace(".", "_"): ours for ours, librdkafka_name in _IN_LIBRDKAFKA.items()
}
_NOT_FOR_LIBRDKAFKA: Final = (
    *("bootstrap_timeout_ms", "max_poll_records", "metrics_enabled", "ssl_check_hostname"),
    "partition_assignment_strategy",
)
"""Settings of the readers in kafka-python's values."""

_POSITIONS = "streameval stores positions itself, and commits them after they are durable"
_RANGE = "always range assignment, so that partition n of every topic goes to one member"
_PUBLISHING = "records are written by murmur2 of the user, as in Java, and without transactions"

_RESERVED: Final[Mapping[str, str]] = {
    "group_id": "set `group` in [source]",
    "group_instance_id": "set `member` in [source]",
    "auto_offset_reset": "set `start` in [source]",
    "isolation_level": "always read_committed, so that aborted records are never counted",
    "allow_auto_create_topics": "reading never creates a topic",
    **dict.fromkeys(
        ("enable_auto_commit", "enable_auto_offset_store", "enable_partition_eof"), _POSITIONS
    ),
    **dict.fromkeys(
        ("group_protocol", "group_remote_assignor", "partition_assignment_strategy"), _RANGE
    ),
    **dict.fromkeys(("partitioner", "transactional_id"), _PUBLISHING),
    "sasl_jaas_config": "removed in 0.3.0; give sasl_plain_username and sasl_plain_password",
    "ssl_endpoint_identification_algorithm": "removed in 0.3.0; set ssl_check_hostname",
}
"""Setting that a user cannot set -> the reason."""

CREDENTIALS: Final = ("sasl_plain_username", "sasl_plain_password")
_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_FILES: Final = ("ssl_cafile", "ssl_certfile", "ssl_keyfile", "ssl_crlfile")


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
    _require_one_of("client", client, (KAFKA_PYTHON, CONFLUENT), TABLE)
    return str(client)


def source_config(options: KafkaOptions, environment: Mapping[str, str]) -> dict[str, Any]:
    """The settings of a reader in kafka-python's names, also those that only librdkafka has."""
    table = {key: value for key, value in options.kafka.items() if key != "client"}
    defaults = None if client_of(options) == CONFLUENT else KafkaConsumer.DEFAULT_CONFIG
    return {**_DEFAULTS, **client_config(table, environment, defaults), **_FIXED}


def group_config(
    options: KafkaOptions, environment: Mapping[str, str], *, shared: bool
) -> dict[str, Any]:
    """The settings of a group member.

    `shared`: whether to join the configured group; otherwise a group `<group>-<random>`.
    """
    if options.group == "":
        raise ConfigError("source", "group", "found an empty text; remove the key, or give a name.")
    alone = f"{options.group}-{uuid.uuid4().hex[:12]}"
    return {
        **source_config(options, environment),
        "group_id": options.group if shared else alone,
        "group_instance_id": _member(options.member, environment) if shared else None,
        "partition_assignment_strategy": (RangePartitionAssignor,),
    }


def _member(member_name: str | None, environment: Mapping[str, str]) -> str | None:
    """The name of this member; ${NAME} distinguishes replicas that share one file."""
    if member_name is None:
        return None
    try:
        member = substitute(member_name, environment)
    except ValueError as error:
        raise ConfigError("source", "member", f"{error}.") from error
    try:
        # Kafka's rule for both names.
        ensure_valid_topic_name(member)
    except ValueError as error:
        problem = "give up to 249 letters, digits, dots, underscores and hyphens."
        raise ConfigError("source", "member", f"found {member!r}; {problem}") from error
    return member


def client_config(
    table: Mapping[str, Any],
    environment: Mapping[str, str],
    defaults: Mapping[str, Any] | None = KafkaConsumer.DEFAULT_CONFIG,
    path: str = TABLE,
) -> dict[str, Any]:
    """The settings of a table in kafka-python's names.

    Nested tables, which TOML makes of unquoted dots, are flattened; ${NAME} and ${file:PATH} in
    strings are replaced.

    `defaults`: all settings of the client; None if another client judges the names.
    `path`: the table that errors name.

    >>> client_config({"bootstrap": {"servers": "${HOST}:9092"}}, {"HOST": "kafka"})
    {'bootstrap_servers': 'kafka:9092'}
    """
    config: dict[str, Any] = {}
    unfilled: dict[str, Any] = {}
    problems: list[ConfigError] = []
    for user_name, raw in _flatten(table):
        name = user_name.replace(".", "_")
        name = _RENAMED.get(name, name)
        problem = None
        if name in config:
            problem = f"{name} is given twice; keep one of the names"
        elif name in _RESERVED:
            problem = f"cannot be set: {_RESERVED[name]}"
        elif defaults is not None and name not in defaults:
            similar = similar_names(name, defaults) or "; see its documentation"
            problem = f"the Kafka client has no such setting{similar}"
        else:
            default = (defaults or KafkaConsumer.DEFAULT_CONFIG).get(name)
            try:
                value = _fill(raw, environment)
                if isinstance(value, str) and isinstance(default, bool | int):
                    # A variable is text, and "false" would count as true.
                    value = msgspec.convert(value, type(default), strict=False)
                config[name], unfilled[name] = value, raw
            except ValueError as error:
                problem = str(error)
        if problem is not None:
            text = problem if problem.endswith("?") else f"{problem}."
            problems.append(ConfigError(path, user_name, text))
    if problems:
        first, *others = problems
        raise ConfigError(path, first.key, first.problem, *others)
    return _check(config, unfilled, path)


def known_settings(config: Mapping[str, Any], client: Any) -> dict[str, Any]:
    """The part of `config` that this kind of client knows (a producer has no fetch sizes)."""
    return {key: value for key, value in config.items() if key in client.DEFAULT_CONFIG}


def addresses(config: Mapping[str, Any]) -> list[str]:
    """The bootstrap servers as HOST:PORT."""
    servers = config.get("bootstrap_servers", "localhost")
    entries = servers.split(",") if isinstance(servers, str) else servers
    stripped = [address.strip() for address in entries]
    return [
        address if _host_and_port(address)[1] else f"{address}:9092"
        for address in stripped
        if address
    ]


def similar_names(name: str, names: Collection[str] = KafkaConsumer.DEFAULT_CONFIG) -> str:
    """The settings that an unknown name may mean, as a part of a sentence; empty without one."""
    among = {*names, *_IN_LIBRDKAFKA}
    nearest_names = [] if name in among else nearest(name, among - {*_RESERVED})
    return f"; did you mean {' or '.join(map(repr, nearest_names))}?" if nearest_names else ""


def librdkafka_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a group member for librdkafka."""
    settings = {
        librdkafka_name(name): value
        for name, value in config.items()
        if value is not None and name not in _NOT_FOR_LIBRDKAFKA
    }
    if "SSL" in str(config.get("security_protocol")):
        checked = config.get("ssl_check_hostname", True)
        settings["ssl.endpoint.identification.algorithm"] = "https" if checked else "none"
        if "ssl_certfile" in config:
            # Like Python, take the key from the file of the certificate if no other is given.
            settings.setdefault("ssl.key.location", config["ssl_certfile"])
    servers = {"bootstrap.servers": ",".join(addresses(config))}
    return {**_LIBRDKAFKA_DEFAULTS, **settings, **servers, **_LIBRDKAFKA_FIXED}


def librdkafka_name(name: str) -> str:
    """The name in librdkafka of a setting of kafka-python."""
    return _IN_LIBRDKAFKA.get(name, name.replace("_", "."))


def _flatten(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _fill(raw: Any, environment: Mapping[str, str]) -> Any:
    """The value with its variables; a text from files can be read again by later connections."""
    if isinstance(raw, list):
        return [_fill(item, environment) for item in raw]
    if not isinstance(raw, str):
        return raw
    text = substitute(raw, environment)
    return FileText(text, partial(substitute, raw, environment)) if names_a_file(raw) else text


def _check(config: Mapping[str, Any], unfilled: Mapping[str, Any], path: str) -> dict[str, Any]:
    """`config` with protocol and mechanism in capitals; raises if a client would ignore a part.

    `unfilled`: the same settings with their ${...}, which errors print: a value may be secret.
    """
    upper = ("security_protocol", "sasl_mechanism")
    config = {key: str(value).upper() if key in upper else value for key, value in config.items()}
    # kafka-python takes an unknown protocol for PLAINTEXT, and would send everything unencrypted.
    protocol = config.get("security_protocol", "PLAINTEXT")
    _require_one_of("security_protocol", protocol, _PROTOCOLS, path)
    for key in config:
        kind = key.partition("_")[0].upper()
        if kind in ("SASL", "SSL") and kind not in protocol.split("_"):
            problem = f"security_protocol is {protocol}, which does not use this key; remove it."
            raise ConfigError(path, key, problem)
    mechanism = str(config.get("sasl_mechanism"))
    for key in CREDENTIALS if mechanism.startswith(("PLAIN", "SCRAM")) else ():
        if not config.get(key):
            # kafka-python makes this error for SCRAM, and does not raise it.
            raise ConfigError(path, key, f"missing; {mechanism} needs it.")
    for key in filter(config.__contains__, _FILES):
        try:
            Path(config[key]).read_bytes()
        except (OSError, TypeError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not a path"
            problem = f"the file {unfilled[key]!r} cannot be read ({reason})."
            raise ConfigError(path, key, problem) from error
    servers = config.get("bootstrap_servers", "localhost")
    written_servers = unfilled.get("bootstrap_servers")
    if "@" in str(servers):
        problem = "user information does not belong here; give sasl_plain_username and "
        raise ConfigError(path, "bootstrap_servers", f"{problem}sasl_plain_password.")
    parts: Any = servers.split(",") if isinstance(servers, str) else servers
    is_text = isinstance(parts, list) and all(isinstance(part, str) for part in parts)
    texts = [part.strip() for part in parts if part.strip()] if is_text else []
    split = [*map(_host_and_port, texts)]
    ports = [port for _, port in split if port is not None]
    valid = all(port.isdecimal() and 0 < int(port) <= LARGEST_PORT for port in ports)
    if not texts or not valid or not all(host for host, _ in split):
        problem = f"found {written_servers!r}; give HOST:PORT, for example 'broker-1:9092'."
        raise ConfigError(path, "bootstrap_servers", problem)
    return config


def _host_and_port(address: str) -> tuple[str, str | None]:
    """Host and port of an address; None for a host alone, which may be an IPv6 address."""
    text = address.rpartition("//")[2]
    host, colon, port = text.rpartition(":")
    return (host, port) if colon and (":" not in host or host.endswith("]")) else (text, None)


def _require_one_of(key: str, value: object, allowed: tuple[str, ...], path: str) -> None:
    if value not in allowed:
        raise ConfigError(path, key, f"found {value!r}; give one of {', '.join(allowed)}.")
