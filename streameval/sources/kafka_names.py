"""How Java and librdkafka call the client's settings, and which settings are not a user's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

RENAMED: Final[Mapping[str, str]] = {
    "metadata_broker_list": "bootstrap_servers",
    "broker_rack": "client_rack",
    "fetch_wait_max_ms": "fetch_max_wait_ms",
    "fetch_message_max_bytes": "max_partition_fetch_bytes",
    "receive_message_max_bytes": "receive_message_max_bytes",
    "sasl_mechanisms": "sasl_mechanism",
    "sasl_username": "sasl_plain_username",
    "sasl_password": "sasl_plain_password",
    "sasl_kerberos_service": "sasl_kerberos_service_name",
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
"""Name in other clients, dots as underscores -> name here; the rest differ by their dots only."""

_POSITIONS = "positions are kept by streameval, and told to Kafka after they are safe"
_RANGE = "always by ranges, so that partition n of every topic goes to one member"
_START = "where to begin is said by `start` in [source]"
_OBJECT = "it takes a Python object, which a configuration file cannot hold"
_BYTES = "records are read as bytes, and decoded as [event] says"
_STORES = "Java key stores are not read; give PEM files as ssl_cafile, ssl_certfile, ssl_keyfile"

REFUSED: Final[Mapping[str, str]] = {
    "enable_auto_commit": _POSITIONS,
    "auto_commit_interval_ms": _POSITIONS,
    "default_offset_commit_callback": _POSITIONS,
    "group_id": "the consumer group is said by `group` in [source]",
    "group_instance_id": "a static member is named by `member` in [source]",
    "partition_assignment_strategy": _RANGE,
    "group_protocol": _RANGE,
    "isolation_level": "always read_committed, so that aborted records are never counted",
    "auto_offset_reset": _START,
    "allow_auto_create_topics": "reading never creates a topic",
    "consumer_timeout_ms": "waiting is up to streameval",
    "key_deserializer": _BYTES,
    "value_deserializer": _BYTES,
    "kafka_client": _OBJECT,
    "key_serializer": _OBJECT,
    "metric_reporters": _OBJECT,
    "partitioner": "records of a user go where murmur2 of the user says, as in Java",
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
    "topics": "topics are said by `topics` in [source]",
}
"""Setting -> why it cannot be given."""
