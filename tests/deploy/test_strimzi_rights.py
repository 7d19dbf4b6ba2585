"""The rights that deploy/ asks Strimzi for are enough for the daemon, as a real broker sees it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from kafka import KafkaAdminClient
from kafka.admin import (
    ACL,
    ACLOperation,
    ACLPermissionType,
    ResourcePattern,
    ResourceType,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from streameval.events.records import Partition
from streameval.sources.kafka.cluster import Cluster
from streameval.sources.options import LATEST
from streameval.testing.broker import Broker, free_ports
from tests.daemon.running import running
from tests.deploy.examples import BASE, KUBERNETES, document
from tests.kafka.topics import create, fill

pytestmark = [pytest.mark.kafka, pytest.mark.nightly]

TOPIC, LETTERS = "recommendation-events", "recommendation-events.dlq"
PASSWORD = "correct-horse"
KAFKA_USER = document(KUBERNETES / "strimzi" / "user.yaml")
USER = KAFKA_USER["metadata"]["name"]
EVENT = (
    b'{"event_id": "e", "ts": "2026-01-01T00:00:00Z", "variant": "control",'
    b' "recommendations": ["a"], "interactions": ["a"]}'
)


def test_the_daemon_reads_commits_and_writes_dead_letters_with_its_rights(tmp_path: Path) -> None:
    with _guarded() as (broker, address):
        create(broker, name=TOPIC)
        create(broker, name=LETTERS)
        fill(broker, TOPIC, {0: [EVENT, b"no event"]})
        environment = {"POD_NAME": "pod-0", "KAFKA_USERNAME": USER, "KAFKA_PASSWORD": PASSWORD}
        config = _configuration(address, tmp_path / "state")
        web = ("--web.listen", "127.0.0.1:0")
        with running(config, tmp_path, *web, **environment) as daemon:
            refused = daemon.until(lambda: daemon.said("source_trouble"))
            assert "authoriz" in refused[0].lower()
            _allow(broker)
            daemon.consumed(2)
            daemon.until(lambda: daemon.get("/-/ready").status_code == 200)
            assert daemon.stop() == 0
        with closing(Cluster({"bootstrap_servers": broker.bootstrap_servers})) as cluster:
            (letters,) = cluster.offsets([Partition(LETTERS, 0)], LATEST).values()
            (committed,) = cluster.committed("streameval", [Partition(TOPIC, 0)]).values()
        assert (letters, committed) == (1, 2)


@contextmanager
def _guarded() -> Iterator[tuple[Broker, str]]:
    """A broker that lets only those do anything to whom it is allowed, and where they come in."""
    address = f"127.0.0.1:{free_ports(1)[0]}"
    scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    properties = {
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config": scram,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        # The tests themselves, and the broker.
        "super.users": "User:ANONYMOUS",
    }
    with Broker(listeners={"SASL_PLAINTEXT": address}, properties=properties) as broker:
        credential = UserScramCredentialUpsertion(USER, ScramMechanism.SCRAM_SHA_512, PASSWORD)
        with closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)) as admin:
            admin.alter_user_scram_credentials([credential])
        yield broker, address


def _allow(broker: Broker) -> None:
    """What Strimzi's operator does with the KafkaUser."""
    rights = [
        ACL(
            f"User:{USER}",
            "*",
            ACLOperation[operation.upper()],
            ACLPermissionType.ALLOW,
            ResourcePattern(
                ResourceType[each["resource"]["type"].upper()], each["resource"]["name"]
            ),
        )
        for each in KAFKA_USER["spec"]["authorization"]["acls"]
        for operation in each["operations"]
    ]
    with closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)) as admin:
        admin.create_acls(rights)


def _configuration(address: str, state: Path) -> str:
    """That of the pods, with this broker, without TLS, and a folder of the test's own."""
    text = (BASE / "streameval.toml").read_text(encoding="utf-8")
    changes = {
        "events-kafka-bootstrap.kafka.svc:9093": address,
        '"SASL_SSL"': '"SASL_PLAINTEXT"',
        'ssl_cafile = "/etc/streameval-kafka/ca.crt"\n': "",
        "/var/lib/streameval/state": str(state),
        'allowed_hosts = ["*.streameval"]\n': "",
    }
    for before, after in changes.items():
        assert text.count(before) == 1
        text = text.replace(before, after)
    return text
