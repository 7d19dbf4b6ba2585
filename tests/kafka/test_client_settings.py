from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from streameval.events.errors import ConfigError, MissingExtraError, SourceError
from streameval.events.secrets import redact
from streameval.sources import kafka
from streameval.sources.kafka.client_settings import (
    client_config,
    group_config,
    librdkafka_settings,
)
from streameval.sources.kafka.confluent import librdkafka_config
from streameval.sources.kafka.source import KafkaSource
from tests.kafka.topics import options

PLAIN = {
    "security_protocol": "SASL_SSL",
    "sasl_mechanism": "PLAIN",
    "sasl_plain_username": "me",
    "sasl_plain_password": "xyzzy",
}


@pytest.mark.parametrize(
    ("written", "config"),
    [
        *(
            (f'bootstrap_servers = "{servers}"', {"bootstrap_servers": servers})
            for servers in ("a", "a:1, b:2,", "[::1]:1", "::1", "[::1]", "SSL://a:1")
        ),
        ('bootstrap.servers = ["${A}:1", "b:2"]', {"bootstrap_servers": ["a:1", "b:2"]}),
        # A doubled dollar is a literal one.
        ('client_id = "$${A}"', {"client_id": "${A}"}),
        # Text is converted to the type of the setting.
        ('fetch.min.bytes = "65536"', {"fetch_min_bytes": 65536}),
        ('"check.crcs" = "false"', {"check_crcs": False}),
        ('"client.id" = "12"', {"client_id": "12"}),
        (
            """
            security_protocol = "SASL_SSL"
            sasl_mechanism = "PLAIN"
            sasl_plain_username = "me"
            sasl_plain_password = "xyzzy"
            """,
            PLAIN,
        ),
        (
            """
            "security.protocol" = "sasl_ssl"
            sasl.mechanisms = "plain"
            sasl.username = "me"
            sasl.password = "${PASSWORD}"
            """,
            PLAIN,
        ),
    ],
)
def test_a_dot_is_an_underscore_and_librdkafka_has_names_of_its_own(
    written: str, config: dict[str, Any]
) -> None:
    environment = {"A": "a", "PASSWORD": "xyzzy"}
    assert client_config(tomllib.loads(written), environment) == config


def test_secrets_lose_the_newline_of_their_file(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("xyzzy\n")
    for password in (f"${{file:{tmp_path / 'password'}}}", "${PASSWORD}"):
        table = {**PLAIN, "sasl_plain_password": password}
        assert client_config(table, {"PASSWORD": "xyzzy\n"}) == PLAIN


def test_an_endless_file_is_no_secret() -> None:
    with pytest.raises(ConfigError, match="the file /dev/zero has more than 1,048,576 bytes"):
        client_config({**PLAIN, "sasl_plain_password": "${file:/dev/zero}"}, {})


def test_librdkafka_is_given_the_port_that_an_address_has_or_the_usual_one() -> None:
    config = client_config({"bootstrap_servers": "a, SSL://b:1, [::1]:2, ::1"}, {})
    result = librdkafka_settings(config)["bootstrap.servers"]
    assert result == "a:9092,SSL://b:1,[::1]:2,::1:9092"


def test_an_error_does_not_print_other_secrets() -> None:
    with pytest.raises(ConfigError) as raised:
        client_config({**PLAIN, "security_protocol": "${PASSWORD}"}, {"PASSWORD": "SSL"})
    assert "xyzzy" not in str(raised.value)


@pytest.mark.parametrize("key", ["ssl_cafile", "bootstrap_servers"])
def test_an_error_prints_a_setting_as_it_is_written(key: str) -> None:
    table = {**PLAIN, "security_protocol": "SASL_SSL", key: "${PASSWORD}"}
    with pytest.raises(ConfigError) as raised:
        client_config(table, {"PASSWORD": "xyzzy:port"})
    assert "xyzzy" not in str(raised.value)
    assert "'${PASSWORD}'" in str(raised.value)


def test_what_is_logged_holds_no_secret() -> None:
    nested = {"sasl": {"jaas.config": "xyzzy", "oauth_token": "xyzzy"}, "client_id": "me"}
    actual = redact({**PLAIN, **nested, "proxy_url": "socks5://me:xyzzy@host:1"})
    assert "xyzzy" not in str(actual)
    assert actual["client_id"] == "me"
    assert actual["proxy_url"] == "socks5://***@host:1"


@pytest.mark.parametrize(
    ("topics", "says"),
    [([], "topics: found \\[\\]; give a list of at least 1"), (["a/b"], "is illegal")],
)
def test_invalid_topics_are_rejected(topics: list[str], says: str) -> None:
    with pytest.raises((ConfigError, SourceError), match=says):
        KafkaSource(options("127.0.0.1:1", *topics), {}, shared=False)


def test_an_unknown_client_is_rejected() -> None:
    with pytest.raises(ConfigError, match=r"client: found 'java'; give one of kafka-python, conf"):
        KafkaSource(options("127.0.0.1:1", "topic", client="java"), {}, shared=False)


def test_a_client_that_is_not_installed_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    monkeypatch.delitem(sys.modules, "streameval.sources.kafka.confluent")
    monkeypatch.delattr(kafka, "confluent")
    with pytest.raises(MissingExtraError, match=r"needs the extra 'fast', .*pip install 'conflu"):
        KafkaSource(options("127.0.0.1:1", "topic", client="confluent"), {}, shared=False)


def _of_librdkafka(table: dict[str, Any]) -> dict[str, Any]:
    source = options("127.0.0.1:1", "topic", client="confluent", **table)
    return librdkafka_config(group_config(source, {}, shared=True))


@pytest.mark.parametrize(
    ("table", "name", "value"),
    [
        ({}, "bootstrap.servers", "127.0.0.1:1"),
        ({}, "group.id", "streameval"),
        ({}, "isolation.level", "read_committed"),
        ({}, "client.id", "streameval"),
        ({}, "reconnect.backoff.max.ms", 1_000),
        ({}, "enable.auto.commit", False),
        ({}, "check.crcs", True),
        ({"fetch_max_wait_ms": 50}, "fetch.wait.max.ms", 50),
        ({"fetch.max.wait.ms": "50"}, "fetch.wait.max.ms", 50),
        ({"fetch.wait.max.ms": 50}, "fetch.wait.max.ms", 50),
        ({"request_timeout_ms": 9_000}, "socket.timeout.ms", 9_000),
        ({"queued.max.messages.kbytes": 1024}, "queued.max.messages.kbytes", 1024),
        ({"queued": {"min": {"messages": 10}}}, "queued.min.messages", 10),
        ({"member": "replica-1"}, "group.instance.id", "replica-1"),
        (PLAIN, "sasl.password", "xyzzy"),
        (PLAIN, "sasl.mechanisms", "PLAIN"),
        (PLAIN, "ssl.endpoint.identification.algorithm", "https"),
        ({**PLAIN, "ssl_check_hostname": False}, "ssl.endpoint.identification.algorithm", "none"),
    ],
)
def test_settings_reach_librdkafka_under_its_names(
    table: dict[str, Any], name: str, value: object
) -> None:
    assert _of_librdkafka(table)[name] == value
