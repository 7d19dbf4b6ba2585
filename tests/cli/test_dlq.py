"""`streameval dlq` with files and with a real broker."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from streameval.engine.dead_letters import ORIGINAL, DeadLetter
from streameval.testing.broker import Broker
from tests.cli.program import from_json, printed, run
from tests.dead_letters.samples import deliver, destination, make_dead_letter, records_in
from tests.kafka.topics import create, options


def _kafka(folder: Path, at: Broker | str, topic: str, more: str = "") -> Path:
    address = at if isinstance(at, str) else at.bootstrap_servers
    path = folder / "streameval.toml"
    path.write_text(
        f'metrics = ["ctr"]\n[source]\ntype = "kafka"\ntopics = ["{topic}"]\n'
        f'[source.kafka]\nbootstrap_servers = "{address}"\nbootstrap_timeout_ms = 1000\n{more}'
    )
    return path


def _dead_topic(broker: Broker, *dead_letters: DeadLetter) -> None:
    (topic,) = {dead_letter.partition.topic for dead_letter in dead_letters}
    deliver(destination(options(broker, topic)), *dead_letters)


@pytest.mark.kafka
def test_show_prints_reasons_times_and_the_last_records(broker: Broker, tmp_path: Path) -> None:
    topic = create(broker)
    of = partial(make_dead_letter, topic=topic)
    odd = of(40, value=b"\x1b[31m\xff")
    _dead_topic(broker, of(1), of(1), *map(of, range(10, 14)), odd)
    text = printed("dlq", _kafka(tmp_path, broker, topic))
    assert text.splitlines()[0] == f"6 records in topic {topic}.dlq"
    row = next(line for line in text.splitlines() if "2023-11-14T22:13:20Z" in line)
    assert [cell.strip() for cell in row.split(row[0])[1:4]] == ["not_json", "decode", "6"]
    assert f"{topic}/0/11" not in text
    assert f"{topic}/0/12  2023-11-14T22:13:20Z  found 12 at the beginning" in text
    assert "\\x1b[31m\\xff" in text


@pytest.mark.kafka
def test_show_prints_the_same_as_json(broker: Broker, tmp_path: Path) -> None:
    topic = create(broker)
    _dead_topic(broker, *(make_dead_letter(offset, topic=topic) for offset in (1, 2, 2)))
    config = _kafka(tmp_path, broker, topic)
    document = from_json("dlq", config)
    (group,) = document["reasons"]
    assert document["records"] == group["count"] == 2
    assert (group["first_ms"], group["last_ms"]) == (1_700_000_000_001, 1_700_000_000_002)
    assert group["samples"][-1] == {
        "record": f"{topic}/0/2",
        "timestamp_ms": 1_700_000_000_002,
        "message": "found 2 at the beginning",
        "preview": "not json",
        "size": 8,
        "truncated": False,
    }
    assert group["truncated"] == 0


@pytest.mark.kafka
def test_show_says_which_letters_are_truncated(broker: Broker, tmp_path: Path) -> None:
    topic = create(broker)
    _dead_topic(
        broker, make_dead_letter(1, topic=topic), make_dead_letter(2, topic=topic, size=3_000_000)
    )
    config = _kafka(tmp_path, broker, topic)
    done = run("dlq", config)
    assert "found 2 at the beginning (truncated: 8 of 3,000,000 bytes)" in done.stdout
    assert done.stdout.count("truncated") == 1
    assert "truncated: 1 letter; their logs have the records." in done.stderr
    document = from_json("dlq", config)
    (group,) = document["reasons"]
    assert group["truncated"] == 1
    assert [(sample["size"], sample["truncated"]) for sample in group["samples"]] == [
        (8, False),
        (3_000_000, True),
    ]


def test_an_unreachable_broker_is_a_failure_in_one_line(tmp_path: Path) -> None:
    config = _kafka(tmp_path, "127.0.0.1:1", "events")
    for command in ("show", "replay"):
        done = run("dlq", command, config)
        assert (done.returncode, done.stdout) == (1, "")
        assert "topic events.dlq: cannot reach Kafka at 127.0.0.1:1" in done.stderr
        assert done.stderr.count("\n") == 1


@pytest.mark.kafka
def test_an_empty_topic_has_no_letters_and_a_missing_one_is_an_error(
    broker: Broker, tmp_path: Path
) -> None:
    topic = create(broker)
    config = _kafka(tmp_path, broker, topic)
    done = run("dlq", config)
    assert done.stdout == f"no dead letters yet in topic {topic}.dlq.\n"
    done = run("dlq", "replay", config)
    assert done.stdout == f"0 records of topic {topic}.dlq were replayed.\n"
    done = run("dlq", _kafka(tmp_path, broker, "nowhere"))
    assert done.returncode == 1
    assert "topic 'nowhere': not found on this cluster" in done.stderr


@pytest.mark.kafka
def test_replay_republishes_records_unchanged_to_their_partitions(
    broker: Broker, tmp_path: Path
) -> None:
    topic = create(broker, partitions=3)
    first = make_dead_letter(7, topic=topic, number=2, value=b"\xff", key=b"\x00")
    second = make_dead_letter(8, topic=topic, number=1, key=None, headers=())
    _dead_topic(broker, first, second, first)
    config = _kafka(tmp_path, broker, topic)
    for reason, count in {"missing_field": 0, "not_json": 2}.items():
        done = run("dlq", "replay", config, "--dry-run", "--reason", reason)
        assert done.stdout == f"{count} records of topic {topic}.dlq would be replayed.\n"
    assert records_in(broker, topic) == []
    done = run("dlq", "replay", config)
    assert done.stdout == f"2 records of topic {topic}.dlq were replayed.\n"
    assert [
        (record.partition, record.key, record.value, record.headers)
        for record in records_in(broker, topic)
    ] == [
        (1, None, b"not json", [(ORIGINAL, f"{topic}/1/8".encode())]),
        (2, b"\x00", b"\xff", [("trace", b"7"), (ORIGINAL, f"{topic}/2/7".encode())]),
    ]


@pytest.mark.kafka
def test_a_record_rejected_again_after_a_replay_is_replayed_once(
    broker: Broker, tmp_path: Path
) -> None:
    topic = create(broker)
    again = ((ORIGINAL, f"{topic}/0/1".encode()),)
    _dead_topic(
        broker,
        make_dead_letter(1, topic=topic),
        make_dead_letter(5, topic=topic, headers=again),
        make_dead_letter(6, topic=topic),
    )
    done = run("dlq", "replay", _kafka(tmp_path, broker, topic))
    assert done.stdout == f"2 records of topic {topic}.dlq were replayed.\n"
    names = [record.headers[-1][1].decode() for record in records_in(broker, topic)]
    assert names == [f"{topic}/0/1", f"{topic}/0/6"]


@pytest.mark.kafka
def test_replay_skips_letters_of_topics_that_are_not_configured(
    broker: Broker, tmp_path: Path
) -> None:
    topic, dead = create(broker), create(broker)
    for name, offset in ((topic, 3), ("another", 4)):
        deliver(
            destination(options(broker, name), topic=dead), make_dead_letter(offset, topic=name)
        )
    config = _kafka(tmp_path, broker, topic, f'[dead_letters]\ntopic = "{dead}"\n')
    done = run("dlq", "replay", config)
    assert done.stdout == f"1 record of topic {dead} was replayed.\n"
    assert "letters of another were skipped" in done.stderr
    assert [record.value for record in records_in(broker, topic)] == [b"not json"]


@pytest.mark.kafka
def test_a_truncated_letter_is_replayed_only_if_another_one_or_the_log_has_the_record(
    broker: Broker, tmp_path: Path
) -> None:
    topic = create(broker)
    cut = [make_dead_letter(offset, topic=topic, value=b"not", size=8) for offset in (7, 2)]
    _dead_topic(broker, *cut, make_dead_letter(2, topic=topic), make_dead_letter(3, topic=topic))
    config = _kafka(tmp_path, broker, topic)
    for dry_run in (["--dry-run"], []):
        done = run("dlq", "replay", config, *dry_run)
        assert done.stdout.startswith(f"2 records of topic {topic}.dlq ")
        assert f"have deleted the records: 1 letter ({topic}/0/7); publish" in done.stderr
    assert [record.value for record in records_in(broker, topic)] == [b"not json"] * 2


@pytest.mark.kafka
def test_a_missing_partition_is_a_clear_failure(broker: Broker, tmp_path: Path) -> None:
    topic = create(broker)
    _dead_topic(broker, make_dead_letter(3, topic=topic, number=5))
    done = run("dlq", "replay", _kafka(tmp_path, broker, topic))
    assert done.returncode == 1
    assert "after 0 records: it no longer has partition 5; these were written" in done.stderr
