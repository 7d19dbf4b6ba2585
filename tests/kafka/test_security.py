from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from streameval.sources.kafka.source import KafkaSource
from streameval.sources.source import Positions
from streameval.sources.topics import probe
from tests.effort import sampled
from tests.kafka.secured import PASSWORD, USER, Secured, refuse_group, set_password
from tests.kafka.topics import (
    awaited,
    by_partition,
    create,
    drained,
    fill,
    filled,
    on_each_client,
    on_each_client_at_night,
    opened,
    options,
)

pytestmark = pytest.mark.kafka

SCRAM = {
    "sasl_mechanism": "SCRAM-SHA-256",
    "sasl_plain_username": USER,
    "sasl_plain_password": PASSWORD,
}
UNKNOWN = {**SCRAM, "sasl_plain_password": "wrong"}
AUTHORITY = {"ssl_cafile": "authority"}
LOGIN = {**SCRAM, **AUTHORITY}
WRONG = {**UNKNOWN, **AUTHORITY}
STRANGER = {**SCRAM, "ssl_cafile": "stranger"}
NOT_OFFERED = {**SCRAM, "sasl_mechanism": "PLAIN"}
REJECTED = "rejects the authentication of user 'alice' by "
CORRECT = "correct the user, the password or sasl_mechanism in [source.kafka]"
PLAIN, TLS, SASL, BOTH = "PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"

CASES: dict[str, tuple[str, str, dict[str, str], str, str]] = {
    # port, security_protocol, settings, reason, what is said
    "a wrong password": (BOTH, BOTH, WRONG, "authentication", f"{REJECTED}SCRAM-SHA-256; correct"),
    "a wrong password without TLS": (SASL, SASL, UNKNOWN, "authentication", f"{REJECTED}SCRAM-"),
    "a mechanism that is not offered": (SASL, SASL, NOT_OFFERED, "authentication", REJECTED),
    "another authority": (BOTH, BOTH, STRANGER, "certificate", "issuer certificate; name the auth"),
    "no authority": (TLS, TLS, {}, "certificate", "is not trusted"),
    "no TLS where there is": (TLS, PLAIN, {}, "tls_port", 'set security_protocol = "SSL"'),
    "a user without TLS where there is": (BOTH, SASL, SCRAM, "tls_port", 'protocol = "SASL_SSL"'),
    "TLS where there is none": (PLAIN, TLS, AUTHORITY, "plaintext_port", "give the port with TLS"),
    "TLS and a user where there is none": (SASL, BOTH, LOGIN, "plaintext_port", '"SASL_PLAINTEXT"'),
    "a user where none is asked for": (PLAIN, SASL, SCRAM, "other", "IllegalSaslStateError"),
    "no user where one is asked for": (BOTH, TLS, AUTHORITY, "silent", "correct the port or sec"),
}


def _settings(safe: Secured, protocol: str, settings: dict[str, str]) -> dict[str, Any]:
    files = (
        {"ssl_cafile": getattr(safe, settings["ssl_cafile"])} if "ssl_cafile" in settings else {}
    )
    return {"security_protocol": protocol, **settings, **files}


@on_each_client_at_night
@pytest.mark.parametrize("name", sampled(CASES, 3))
def test_an_invalid_security_setting_is_named(safe: Secured, name: str) -> None:
    port, protocol, wrong, reason, says = CASES[name]
    table = options(safe.addresses[port], "topic", **_settings(safe, protocol, wrong))
    with opened(table) as source:
        awaited(source, says)
        assert source.status.problem is not None
        assert source.status.problem.endswith("; still trying.")
        assert safe.addresses[port] in source.status.problem
        assert _counted(source) == {reason}


def _counted(source: KafkaSource) -> set[str]:
    return {reason for reason, count in source.status.connection_failures.items() if count}


@on_each_client_at_night
def test_a_wrong_password_is_one_sentence_each_time_however_slow_the_first_attempt_is(
    safe: Secured, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The first attempt has no time, and the second enough for this machine.
    monkeypatch.setattr("streameval.sources.kafka.cluster._FIRST_TIMEOUT_MS", 1)
    monkeypatch.setattr("streameval.sources.kafka.cluster._LAST_TIMEOUT_MS", 3_000)
    wrong = _settings(safe, SASL, UNKNOWN)
    address = safe.addresses[SASL]
    for _ in range(2):
        said: list[str | None] = []
        with opened(options(address, "topic", **wrong)) as source:
            while not any(source.status.connection_failures.values()):
                said.append(source.status.problem)
                source.poll(0.05)
            said.append(source.status.problem)
            assert _counted(source) == {"authentication"}
        assert list(dict.fromkeys(said)) == [
            f"connecting to Kafka at {address}.",
            f"Kafka at {address} {REJECTED}SCRAM-SHA-256; {CORRECT}; still trying.",
        ]


@on_each_client_at_night
def test_a_host_name_mismatch_is_reported(safe: Secured) -> None:
    address = safe.addresses["SSL"].replace("127.0.0.1", "localhost")
    table = options(address, "topic", **_settings(safe, "SSL", AUTHORITY))
    with opened(table) as source:
        awaited(source, "not valid for 'localhost'; name the broker in bootstrap_servers as its")


@on_each_client
def test_valid_security_settings_work(safe: Secured) -> None:
    topic = create(safe.broker)
    table = options(safe.addresses["SASL_SSL"], topic, **_settings(safe, "SASL_SSL", LOGIN))
    assert "1 partitions" in probe(table, {})
    with opened(table) as source:
        awaited(source, None)
        assert not any(source.status.connection_failures.values())


@on_each_client
def test_missing_permission_for_the_group_is_reported(safe: Secured) -> None:
    topic = create(safe.broker)
    refuse_group(safe.broker, USER, topic)
    settings = _settings(safe, "SASL_SSL", LOGIN)
    table = options(safe.addresses["SASL_SSL"], topic, group=topic, **settings)
    with closing(KafkaSource(table, {}, shared=True)) as source:
        source.open(Positions())
        awaited(source, "GroupAuthorizationFailedError")
        source.poll(0.1)
        assert "GroupAuthorizationFailedError" in (source.status.problem or "")
        assert "; allow this user to read the topics" in (source.status.problem or "")


@on_each_client_at_night
def test_a_password_in_a_file_is_read_again_by_the_next_connection(
    safe: Secured, tmp_path: Path, client: str
) -> None:
    user, file = f"rotating-{client}", tmp_path / "password"
    topic = filled(safe.broker, {0: [b"0"]})
    settings = {**SCRAM, "sasl_plain_username": user, "sasl_plain_password": f"${{file:{file}}}"}
    table = options(
        safe.addresses["SASL_PLAINTEXT"], topic, **_settings(safe, "SASL_PLAINTEXT", settings)
    )
    set_password(safe.broker, user, "first")
    file.write_text("first\n")
    with opened(table) as source:
        drained(source, 1)
        # Kafka knows it first: reading stops, until the file says it, too.
        set_password(safe.broker, user, "second")
        awaited(source, f"rejects the authentication of user '{user}'")
        file.write_text("second\n")
        awaited(source, None)
        fill(safe.broker, topic, {0: [b"1"]})
        drained(source, 1)
        # The file knows it first: whoever is asked meanwhile is refused, and tries again.
        file.write_text("third\n")
        set_password(safe.broker, user, "third")
        fill(safe.broker, topic, {0: [b"2"]})
        (values,) = by_partition(drained(source, 1)).values()
    assert values == [b"2"]
