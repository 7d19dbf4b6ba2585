from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any
from unittest.mock import call, create_autospec

import confluent_kafka
import pytest
from confluent_kafka import KafkaError, Message
from kafka import KafkaConsumer
from kafka.admin import MemberToRemove
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

from streameval.events.errors import ConfigError, RefusedMemberError, SourceError
from streameval.events.records import Assignment, Partition
from streameval.sources.kafka.client_settings import group_config
from streameval.sources.kafka.cluster import ClusterMonitor
from streameval.sources.kafka.confluent import ConfluentConsumer
from streameval.sources.kafka.kafka_python import KafkaPythonConsumer
from streameval.sources.kafka.member import GroupMember, Rebalance
from streameval.sources.kafka.source import KafkaSource, Stall
from streameval.sources.source import Positions
from streameval.testing.broker import Broker
from tests.effort import PATIENCE
from tests.kafka.members import Reading, RecordingOwner, reading, until
from tests.kafka.topics import (
    admin_of,
    create,
    drained,
    fill,
    filled,
    on_each_client,
    on_each_client_at_night,
    options,
    read_by,
)

pytestmark = pytest.mark.kafka

FOUR = {number: [b"%d" % number] * 3 for number in range(4)}


@on_each_client_at_night
def test_range_assignment_keeps_equal_partition_numbers_together(broker: Broker) -> None:
    left, right = filled(broker, FOUR), filled(broker, FOUR)
    settings = options(broker, left, right, group=left)
    with reading(settings) as a, reading(settings) as b:
        until(lambda: len(a.numbers) == len(b.numbers) == 4, a, b)
        for member in (a, b):
            numbers = {topic: set[int]() for topic in (left, right)}
            for partition in member.told.held:
                numbers[partition.topic].add(partition.number)
            assert numbers[left] == numbers[right]


@on_each_client
def test_a_partition_that_was_paused_before_a_rebalance_is_read_after_it(broker: Broker) -> None:
    topic = filled(broker, FOUR)
    with reading(options(broker, topic, group=topic)) as a:
        until(lambda: a.told.values == FOUR, a)
        a.source.pause(list(a.told.held))
        with reading(options(broker, topic, group=topic)) as b:
            until(lambda: len(a.numbers) == len(b.numbers) == 2, a, b)
            a.source.pause([])
            fill(broker, topic, {number: [b"more"] for number in FOUR})
            until(lambda: all(a.told.values[number][-1] == b"more" for number in a.numbers), a, b)
        assert a.source.status.recoveries == {"seek": 0, "rejoin": 0}


@on_each_client_at_night
def test_a_restart_of_a_static_member_moves_no_partition(broker: Broker) -> None:
    topic = filled(broker, FOUR)
    first = options(broker, topic, group=topic, heartbeat_interval_ms=3_000, member="first")
    second = options(broker, topic, group=topic, heartbeat_interval_ms=3_000, member="second")
    with reading(first) as a:
        with reading(second) as b:
            until(lambda: len(a.numbers) == len(b.numbers) == 2, a, b)
            # On a busy machine it may join twice.
            until(lambda: state(broker, topic) == "Stable", a, b)
            before, happened = b.numbers, list(a.told.happened)
        with reading(second) as again:
            until(lambda: again.numbers == before, a, again)
        assert a.told.happened == happened


def test_a_member_that_receives_two_rebalances_at_once_joins_the_next(
    broker: Broker,
) -> None:
    topic = filled(broker, FOUR)
    # This client joins in a thread of its own, and tells what happened when it is polled.
    with read_by("confluent"):
        settings = options(broker, topic, group=topic, heartbeat_interval_ms=100)
    with reading(settings) as a, reading(settings) as b:
        step_until(broker, topic, "Stable", a)
        step_until(broker, topic, "PreparingRebalance", b)
        assert a.told.happened == []
        until(lambda: len(a.numbers) == len(b.numbers) == 2, a, b, seconds=1.0)


def step_until(broker: Broker, group: str, wanted: str, member: Reading) -> None:
    """Poll until the group has this state and the client knows it."""
    while state(broker, group) != wanted:
        member.step(0.0)
        time.sleep(0.5)


def state(broker: Broker, group: str) -> str:
    with admin_of(broker) as admin:
        group_state: str = admin.describe_groups([group])[group]["group_state"]
    return group_state


@on_each_client_at_night
def test_a_second_process_with_the_same_name_fences_the_first(broker: Broker) -> None:
    topic = filled(broker, FOUR)
    settings = options(broker, topic, group=topic, member="same")
    with reading(settings) as a:
        until(lambda: a.told.values == FOUR, a)
        with reading(settings) as b:
            until(lambda: b.told.values == FOUR, b)
            # The heartbeat of one client may be refused before, which is fatal for all it does.
            answer = str(a.source.commit(a.told.positions))
            assert "FencedInstanceIdError" in answer or "Fatal error" in answer
            with pytest.raises(RefusedMemberError, match="give each process a unique `member`"):
                until(lambda: False, a)
            assert b.source.commit(b.told.positions) is None


@on_each_client
def test_a_second_process_with_the_same_name_fences_a_busy_first(
    broker: Broker, client: str
) -> None:
    topic = filled(broker, FOUR)
    settings = options(broker, topic, group=topic, member="same", heartbeat_interval_ms=100)
    with reading(settings) as a:
        until(lambda: a.told.values == FOUR, a)
        with reading(settings) as b:
            until(lambda: b.told.values == FOUR, b)
            if client == "confluent":
                time.sleep(1.0)  # its heartbeats have a thread of their own, and are refused
            with pytest.raises(RefusedMemberError, match="joined as the same `member`"):
                until(lambda: False, a)


def test_a_fenced_member_continues_after_the_other_has_left(broker: Broker) -> None:
    topic = filled(broker, FOUR)
    # A refused heartbeat is final for this client, whoever has the name by then.
    with read_by("confluent"):
        settings = options(broker, topic, group=topic, member="same", heartbeat_interval_ms=100)
    with reading(settings) as a:
        until(lambda: a.told.values == FOUR, a)
        with reading(settings) as b:
            until(lambda: b.told.values == FOUR, b)
            time.sleep(1.0)
        with admin_of(broker) as admin:
            admin.remove_group_members(topic, [MemberToRemove(group_instance_id="same")])
        fill(broker, topic, {0: [b"more"]})
        until(lambda: b"more" in a.told.values[0], a)
        assert a.told.happened[1:] == [("lost", (0, 1, 2, 3)), ("assigned", (0, 1, 2, 3))]
        assert a.source.commit(a.told.positions) is None


def test_a_fatal_error_during_a_rebalance_is_noticed(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    topic = filled(broker, FOUR)
    with read_by("confluent"):
        settings = options(broker, topic, group=topic, member="same")
    consumed = ConfluentConsumer._consume

    def fenced(self: ConfluentConsumer, *_: object) -> list[Any]:
        monkeypatch.setattr(ConfluentConsumer, "_consume", consumed)
        partitions = [confluent_kafka.TopicPartition(topic, n) for n in FOUR]
        self._give_up("lost", self._client, partitions)
        cause = KafkaError(KafkaError.FENCED_INSTANCE_ID).str()
        return [Message(error=KafkaError(KafkaError._FATAL, f"Fatal error: {cause}"))]

    with reading(settings) as a:
        until(lambda: a.told.values == FOUR, a)
        monkeypatch.setattr(ConfluentConsumer, "_consume", fenced)
        until(lambda: a.told.happened[1:] == [("lost", (0, 1, 2, 3))], a)
        fill(broker, topic, {0: [b"more"]})
        # It has the name itself: a heartbeat of before it joined anew was refused.
        until(lambda: b"more" in a.told.values[0], a)
        assert a.told.happened[2:] == [("assigned", (0, 1, 2, 3))]
    assert "joining the group again" in caplog.text


@on_each_client
def test_a_commit_in_the_background_is_accepted_once_the_group_has_it(broker: Broker) -> None:
    topic = filled(broker, FOUR)
    with reading(options(broker, topic, group=topic)) as a:
        until(lambda: a.told.values == FOUR, a)
        until(lambda: a.source.commit(a.told.positions, wait=False) is None, a)
        with admin_of(broker) as admin:
            (group_offsets,) = admin.list_group_offsets({topic: None}).values()
        committed = {
            Partition(*partition): group_offset.offset
            for partition, group_offset in group_offsets.items()
        }
        assert committed == a.told.positions


@on_each_client_at_night
def test_a_member_that_was_absent_too_long_rejoins(broker: Broker) -> None:
    topic = filled(broker, FOUR)
    slow = options(
        broker,
        topic,
        group=topic,
        session_timeout_ms=1500,
        max_poll_interval_ms=1500,
        heartbeat_interval_ms=200,
    )
    with reading(slow) as a, reading(options(broker, topic, group=topic)) as b:
        until(lambda: len(a.numbers) == len(b.numbers) == 2, a, b)
        until(lambda: len(b.numbers) == 4, b)
        until(lambda: a.source.commit(a.told.positions) is not None, b)
        # Accepted by nobody, so that counters never show what b counts too.
        assert a.source.commit(a.told.positions, wait=False) is not None
        until(lambda: len(a.numbers) == len(b.numbers) == 2, a, b)
        assert a.told.happened[-2][0] == "lost"
        positions = {partition: a.told.positions[partition] for partition in a.told.held}
        until(lambda: a.source.commit(positions) is None, a, b)


@on_each_client_at_night
def test_added_partitions_are_assigned(broker: Broker) -> None:
    topic = filled(broker, {0: [b"a"]})
    with reading(options(broker, topic, group=topic, start="latest")) as a:
        until(lambda: a.numbers == [0], a)
        with admin_of(broker) as admin:
            admin.create_partitions({topic: 3})
        fill(broker, topic, {2: [b"c"]})
        until(lambda: a.told.values == {2: [b"c"]}, a)
    assert a.told.seen[Partition(topic, 2)].partitions == 3


@on_each_client_at_night
def test_a_topic_created_later_is_assigned_even_with_short_polls(broker: Broker) -> None:
    there = filled(broker, {0: [b"a"]})
    late = f"{there}-late"
    with reading(options(broker, there, late, group=there)) as a:
        until(lambda: a.source.status.joined and bool(a.told.held), a, seconds=0.001)
        create(broker, name=late)
        until(lambda: len(a.told.held) == 2, a, seconds=0.001)


@on_each_client_at_night
def test_a_group_that_waits_for_another_member_is_trouble_and_not_the_broker(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streameval.sources.kafka.source._JOIN_SECONDS", 0.5)
    topic = filled(broker, FOUR)
    with reading(options(broker, topic, group=topic)) as a:
        until(lambda: bool(a.told.held), a)
        with reading(options(broker, topic, group=topic)) as b:
            until(lambda: f"join group {topic!r}" in (b.source.status.problem or ""), b)
            until(lambda: b.source.status.joined, a, b)
            assert b.source.status.problem is None


@on_each_client_at_night
def test_a_group_without_a_topic_counts_as_joined(broker: Broker) -> None:
    with reading(options(broker, "not-there", group="nothing")) as a:
        until(lambda: a.source.status.joined, a)
        assert "not-there" in (a.source.status.problem or "")
        assert a.told.happened == []


@on_each_client_at_night
@pytest.mark.nightly
def test_a_broker_that_restarts_loses_and_repeats_nothing(broker: Broker) -> None:
    topic = filled(broker, FOUR)
    with reading(options(broker, topic, group=topic)) as a:
        until(lambda: a.told.values == FOUR, a)
        broker.stop()
        until(lambda: a.source.status.problem is not None, a)
        answer = a.source.commit(a.told.positions)
        assert answer is None or str(answer).startswith("the commit to Kafka failed")
        broker.start()
        fill(broker, topic, {0: [b"new"]})
        until(lambda: a.told.values == {**FOUR, 0: [*FOUR[0], b"new"]}, a)
        until(lambda: a.source.status.problem is None, a)
        # A commit in the background is refused at the next one.
        positions = {p: a.told.positions[p] for p in a.told.held}
        until(lambda: a.source.commit(positions) is None, a)


@on_each_client_at_night
def test_a_stalled_partition_is_sought_and_then_rejoined(broker: Broker) -> None:
    topic = filled(broker, {0: [b"a"]})
    with reading(options(broker, topic, group=topic), stall_seconds=2.0) as a:
        until(lambda: a.told.values == {0: [b"a"]}, a)
        # As if the client had forgotten the partition, which it does not do by itself.
        assert a.source._member is not None
        a.source._member._consumer.pause([Partition(topic, 0)])
        fill(broker, topic, {0: [b"b"]})
        until(lambda: a.told.values == {0: [b"a", b"b"]}, a)
    assert a.source.status.recoveries == {"seek": 1, "rejoin": 1}
    assert [what for what, _ in a.told.happened] == ["assigned", "revoked", "assigned"]


def test_records_read_by_a_poll_that_rejoins_are_read_again(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = filled(broker, {0: [b"a"]})
    rejoined: list[bool] = []
    with reading(options(broker, topic, group=topic)) as a:
        until(lambda: a.told.values == {0: [b"a"]}, a)

        def check(positions: Mapping[Partition, int], *_: object, **__: object) -> Stall | None:
            if rejoined or positions == a.told.positions:
                return None
            rejoined.append(True)
            return Stall("rejoin", positions)

        monkeypatch.setattr(a.source._watchdog, "check", check)
        fill(broker, topic, {0: [b"b"]})
        until(lambda: a.told.values == {0: [b"a", b"b"]}, a)
    assert [what for what, _ in a.told.happened] == ["assigned", "revoked", "assigned"]


def test_the_name_of_a_member_may_come_from_the_environment() -> None:
    table = options("127.0.0.1:1", "topic", member="replica-${POD}")
    assert group_config(table, {"POD": "2"}, shared=True)["group_instance_id"] == "replica-2"


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"group": ""}, "source: group: found an empty text"),
        ({"member": "a b"}, "source: member: found 'a b'"),
        ({"member": ".."}, "source: member: found '..'"),
        ({"member": "${POD}"}, "source: member: the environment variable POD is not set"),
        ({"member": "${SPACED}"}, "source: member: found 'a b'"),
        ({"group_instance_id": "x"}, "`member` in"),
    ],
)
def test_invalid_names_are_rejected(table: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError) as raised:
        KafkaSource(options("127.0.0.1:1", "topic", **table), {"SPACED": "a b"}, shared=True)
    assert says in str(raised.value)


@on_each_client_at_night
def test_a_group_with_another_assignment_strategy_is_an_error(broker: Broker) -> None:
    topic = filled(broker, FOUR)
    other = KafkaConsumer(
        topic,
        bootstrap_servers=broker.bootstrap_servers,
        group_id=topic,
        auto_offset_reset="earliest",
        partition_assignment_strategy=(RoundRobinPartitionAssignor,),
    )
    with closing(other):
        deadline = time.monotonic() + PATIENCE
        while not other.assignment():
            assert time.monotonic() < deadline, "it never joined"
            # On a busy machine a shorter poll gives up before it has joined, each time anew.
            other.poll(timeout_ms=5_000)
        with (
            reading(options(broker, topic, group=topic)) as a,
            pytest.raises(SourceError, match="choose another `group`"),
        ):
            until(lambda: False, a)


@on_each_client
def test_an_owner_that_starts_over_first_moves_the_groups_commit_back(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = filled(broker, {0: [b"%d" % number for number in range(60)]})
    settings, partition = options(broker, topic, group=topic), Partition(topic, 0)
    answers: list[object] = []
    with reading(settings) as a:
        until(lambda: a.told.positions.get(partition) == 60, a)
        assert a.source.commit({partition: 50}) is None
    with reading(settings) as a:

        def starts_over(given: Sequence[Assignment]) -> Mapping[Partition, int]:
            answers.append(a.source.commit({partition: 0}))
            # A process that is killed now must find it: nothing is left to be answered.
            assert a.source._member is not None
            answers.append(getattr(a.source._member._consumer, "_sent", None) or None)
            return RecordingOwner.assigned(a.told, given)

        monkeypatch.setattr(a.told, "assigned", starts_over)
        until(lambda: a.told.positions.get(partition) == 60, a)
        assert a.told.seen[partition].committed == 50
    with reading(settings) as a:
        until(lambda: partition in a.told.seen, a)
        assert a.told.seen[partition].committed == 0
    assert answers == [None, None]


def test_assigned_partitions_are_not_read_from_the_groups_commit_before_they_are_held(
    broker: Broker,
) -> None:
    topic = filled(broker, {0: [b"%d" % number for number in range(60)]})
    table, partition = options(broker, topic, group=f"group-{topic}"), Partition(topic, 0)
    with closing(KafkaSource(table, {}, shared=True)) as source:
        source.open(Positions())
        drained(source, 60)
        assert source.commit({partition: 50}) is None
    member, monitor = create_autospec(GroupMember), ClusterMonitor([topic], {})
    config = group_config(table, {}, shared=True)
    with closing(KafkaPythonConsumer(config, [topic], member, monitor)) as consumer:
        deadline = time.monotonic() + PATIENCE
        # The group may first assign nothing, before the client knows the topic.
        while call(Rebalance("assigned", (partition,))) not in member.enqueue.mock_calls:
            assert time.monotonic() < deadline
            assert consumer.poll(0.1, {}) == []
        for _ in range(5):
            assert consumer.poll(0.1, {partition: 0}) == [], "neither records nor a jump to 50"
