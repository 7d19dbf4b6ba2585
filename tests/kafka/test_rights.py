"""`check --connect` says which right is missing, on which topic or group, and writes nothing."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from kafka.admin import ACLResourcePatternType, ResourcePattern, ResourceType

from streameval.testing.broker import Broker
from tests.cli.program import run, write_file
from tests.kafka.secured import PASSWORD, USER, Secured, allow_only
from tests.kafka.topics import admin_of, create, fill, read_by

pytestmark = pytest.mark.kafka

_RECORD: Final = b'{"request_id": "r", "recommendations": ["a"]}'
_RANDOM: Final = re.compile(r"(?<=[0-9a-f]{12})-[0-9a-f]{12}\b")
"""The end of the group's name without [state]."""


def _config(folder: Path, safe: Secured, topic: str, client: str, state: str) -> Path:
    text = f"""
metrics = ["ctr"]
web = {{ listen = "127.0.0.1:0" }}
{state}
[source]
type = "kafka"
topics = ["{topic}"]
group = "{topic}"
[source.kafka]
client = "{client}"
bootstrap_servers = "{safe.addresses["SASL_PLAINTEXT"]}"
security_protocol = "SASL_PLAINTEXT"
sasl_mechanism = "SCRAM-SHA-256"
sasl_plain_username = "{USER}"
sasl_plain_password = "{PASSWORD}"
"""
    return write_file(folder / "streameval.toml", text)


def _missing(sentence: str) -> str:
    """The standard error with one sentence."""
    return f"streameval: {sentence}\n"


class Case:
    """A topic with records, a group of its name, and what one user may do with them."""

    def __init__(self, folder: Path, safe: Secured) -> None:
        self._folder, self._safe = folder, safe
        self.topic = create(safe.broker)
        self.letters = f"{self.topic}.dlq"
        fill(safe.broker, self.topic, {0: [_RECORD]})

    def allow(
        self,
        *,
        read: Collection[str] = ("READ",),
        join: Collection[str] = ("READ",),
        write: Collection[str] = ("WRITE",),
    ) -> None:
        broker = self._safe.broker
        allow_only(broker, USER, ResourcePattern(ResourceType.TOPIC, self.topic), read)
        allow_only(broker, USER, ResourcePattern(ResourceType.GROUP, self.topic), join)
        allow_only(broker, USER, ResourcePattern(ResourceType.TOPIC, self.letters), write)

    def refuse_groups(self) -> None:
        """Of any name that begins with that of the topic."""
        kind, prefix = ResourceType.GROUP, ACLResourcePatternType.PREFIXED
        groups = ResourcePattern(kind, f"{self.topic}-", prefix)
        allow_only(self._safe.broker, "nobody", groups, ["READ"])

    def check(self, state: str = 'state = { path = "state" }') -> tuple[int, list[str], str]:
        """Status, rights and errors, which are equal with both clients."""
        answers = []
        for client in ("kafka-python", "confluent"):
            path = _config(self._folder, self._safe, self.topic, client, state)
            with read_by(client):
                done = run("check", path, "--connect")
            lines = _RANDOM.sub("-*", done.stdout).splitlines()
            allowed = [line for line in lines if line.startswith("allowed ")]
            answers.append((done.returncode, allowed, _RANDOM.sub("-*", done.stderr)))
        first, second = answers
        assert first == second
        return first


@pytest.fixture
def case(safe: Secured, tmp_path: Path) -> Case:
    return Case(tmp_path, safe)


@contextmanager
def _unchanged(broker: Broker) -> Iterator[None]:
    with admin_of(broker) as admin:
        before = admin.list_topics(), admin.list_groups()
        yield
        assert (admin.list_topics(), admin.list_groups()) == before


def test_each_right_that_the_user_has_is_a_line_and_nothing_is_written(
    case: Case, safe: Secured
) -> None:
    case.allow(write=["WRITE", "CREATE"])
    with _unchanged(safe.broker):
        status, allowed, errors = case.check()
    assert (status, errors) == (0, "")
    assert allowed == [
        f"allowed    to read topic '{case.topic}'",
        f"allowed    to join and commit to group '{case.topic}'",
        f"allowed    to write dead letters to topic '{case.letters}'",
        f"allowed    to create topic '{case.letters}'",
    ]


_READ: Final = "topic '{topic}': this user may not read it; allow Read on this topic."
_JOIN: Final = (
    "group '{topic}': this user may not join and commit to it; allow Read on the group '{topic}'."
)
_WRITE: Final = (
    "topic '{topic}.dlq': this user may not write dead letters to it; allow Write on this topic."
)
_CREATE: Final = (
    "topic '{topic}.dlq': this user may not create it; create the topic, or allow Create on it."
)


@pytest.mark.parametrize(
    ("read", "join", "write", "missing", "rights"),
    [
        (["READ"], ["READ"], ["DESCRIBE", "CREATE"], [_WRITE], 3),
        # Whether a topic exists that the user may not describe, Kafka does not tell.
        (["READ"], ["READ"], ["CREATE"], [_WRITE], 2),
        (["READ"], ["DESCRIBE"], ["WRITE", "CREATE"], [_JOIN], 3),
        (["READ"], ["DELETE"], ["WRITE", "CREATE"], [_JOIN], 3),
        (["DESCRIBE"], ["READ"], ["WRITE", "CREATE"], [_READ], 3),
        (["DESCRIBE"], ["DESCRIBE"], ["DESCRIBE", "CREATE"], [_READ, _JOIN, _WRITE], 1),
    ],
)
def test_each_right_that_the_user_lacks_is_named(
    case: Case,
    read: list[str],
    join: list[str],
    write: list[str],
    missing: list[str],
    rights: int,
) -> None:
    case.allow(read=read, join=join, write=write)
    status, allowed, errors = case.check()
    assert (status, len(allowed)) == (1, rights)
    assert errors == "".join(_missing(each.format(topic=case.topic)) for each in missing)


def test_a_topic_of_dead_letters_that_exists_needs_no_right_to_create_it(
    case: Case, safe: Secured
) -> None:
    create(safe.broker, name=case.letters)
    case.allow()
    status, allowed, errors = case.check()
    assert (status, len(allowed), errors) == (0, 3, "")
    case.allow(write=["DESCRIBE"])
    status, _, errors = case.check()
    assert (status, errors) == (1, _missing(_WRITE.format(topic=case.topic)))


def test_the_right_to_create_the_topic_of_dead_letters_is_named(case: Case, safe: Secured) -> None:
    cluster = ResourcePattern(ResourceType.CLUSTER, "kafka-cluster")
    allow_only(safe.broker, USER, cluster, ["DESCRIBE"])
    try:
        case.allow()
        status, _, errors = case.check()
    finally:
        allow_only(safe.broker, USER, cluster, [])
    assert (status, errors) == (1, _missing(_CREATE.format(topic=case.topic)))


def test_without_state_groups_of_its_prefix_are_tested_and_no_dead_letters(case: Case) -> None:
    case.allow(write=["DESCRIBE"])
    case.refuse_groups()
    status, allowed, errors = case.check(state="")
    assert status == 1
    assert allowed == [f"allowed    to read topic '{case.topic}'"]
    assert errors == _missing(
        f"group '{case.topic}-*': this user may not join and commit to it; allow Read "
        f"on groups with the prefix '{case.topic}-', or configure [state]."
    )
