"""The real broker of a test run, with a SCRAM user and a certificate."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec
import pytest
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ResourcePattern,
    ResourceType,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from streameval.events.errors import MissingExtraError, SourceError
from streameval.testing.broker import Broker, free_ports
from tests.certificates import Authority
from tests.kafka.topics import admin_of, read_by

USER, PASSWORD = "alice", "correct horse"


class Secured(msgspec.Struct, frozen=True, kw_only=True):
    """A broker that listens with every security protocol.

    Attributes:
        broker: that runs.
        addresses: security protocol -> HOST:PORT.
        authority: file of the authority that signed its certificate.
        stranger: file of another authority.
    """

    broker: Broker
    addresses: dict[str, str]
    authority: str
    stranger: str


@contextmanager
def secured(folder: Path) -> Iterator[Secured]:
    """Start one, with one SCRAM user; its certificate is for 127.0.0.1 and in `folder`.

    Without TLS, it has users authenticate again each second. A user may do anything until refused.
    """
    authority = Authority(folder)
    names = ("SSL", "SASL_PLAINTEXT", "SASL_SSL")
    ports = free_ports(len(names))
    listeners = {name: f"127.0.0.1:{port}" for name, port in zip(names, ports, strict=True)}
    properties = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(_keystore(authority, folder / "broker.pem")),
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
        "super.users": "User:ANONYMOUS",
    }
    scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    for name in ("sasl_plaintext", "sasl_ssl"):
        properties[f"listener.name.{name}.scram-sha-256.sasl.jaas.config"] = scram
    reauthenticate = "listener.name.sasl_plaintext.scram-sha-256.connections.max.reauth.ms"
    properties[reauthenticate] = "1000"
    stranger = Authority(folder, "stranger")
    with Broker(listeners=listeners, properties=properties) as broker:
        set_password(broker, USER, PASSWORD)
        yield Secured(
            broker=broker,
            addresses={"PLAINTEXT": broker.bootstrap_servers, **listeners},
            authority=str(authority.file),
            stranger=str(stranger.file),
        )


def set_password(broker: Broker, user: str, password: str) -> None:
    """Of a SCRAM user, who may be a new one; open connections live until they are asked again."""
    with admin_of(broker) as admin:
        wanted = UserScramCredentialUpsertion(user, ScramMechanism.SCRAM_SHA_256, password)
        admin.alter_user_scram_credentials([wanted])


def allow_only(
    broker: Broker, user: str, resource: ResourcePattern, operations: Collection[str]
) -> None:
    """Allow one user these operations, and nobody anything else; without any, all may all."""
    allowed = ACLPermissionType.ALLOW
    with admin_of(broker) as admin:
        admin.delete_acls(
            [ACLFilter(None, None, ACLOperation.ANY, ACLPermissionType.ANY, resource)]
        )
        wanted = [
            ACL(f"User:{user}", "*", ACLOperation[operation], allowed, resource)
            for operation in operations
        ]
        if wanted:
            admin.create_acls(wanted)


def refuse_group(broker: Broker, user: str, group: str) -> None:
    """Deny a user access to this group only."""
    group_of_that_name = ResourcePattern(ResourceType.GROUP, group)
    with admin_of(broker) as admin:
        operation, kind = ACLOperation.READ, ACLPermissionType.DENY
        admin.create_acls([ACL(f"User:{user}", "*", operation, kind, group_of_that_name)])


def _keystore(authority: Authority, path: Path) -> Path:
    """Key and certificate of a broker at 127.0.0.1, in one file."""
    certificate, key = authority.issue("broker")
    path.write_bytes(key.read_bytes() + certificate.read_bytes())
    return path


@pytest.fixture(scope="session")
def _secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """The broker with every security protocol; most tests use none."""
    with ExitStack() as stack:
        try:
            cluster = stack.enter_context(secured(tmp_path_factory.mktemp("identities")))
        except (MissingExtraError, SourceError) as error:
            if os.environ.get("CI") == "true":
                raise
            pytest.skip(f"no real Kafka here: {error}")
        yield cluster


@pytest.fixture(scope="session")
def _session_broker(_secured: Secured) -> Broker:
    return _secured.broker


@pytest.fixture
def broker(_session_broker: Broker) -> Broker:
    """A running broker, restarted if necessary; it may have topics of other tests."""
    _session_broker.start()
    return _session_broker


@pytest.fixture
def safe(broker: Broker, _secured: Secured) -> Secured:
    """A broker that runs, has an authorizer, and listens with every security protocol."""
    assert _secured.broker is broker
    return _secured


@pytest.fixture
def client(request: pytest.FixtureRequest) -> Iterator[str]:
    """The client that reads, see `tests.kafka.topics.on_each_client`."""
    with read_by(request.param):
        yield request.param
