"""Records that no daemon counts: one that ends it and is skipped, and those lost to retention."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from pwd import getpwuid
from time import monotonic
from typing import Any, Literal

import pytest

from streameval.checkpoints.checkpoint import Place
from streameval.checkpoints.store import folder_store
from streameval.config import Config, load
from streameval.config.options import StateOptions
from streameval.config.pipeline import new_ingest
from streameval.daemon import ProcessClock
from streameval.daemon.assembly import Assembly, assemble
from streameval.daemon.loop import Loop
from streameval.decoding.columns import Decoded
from streameval.decoding.decode import Decoder
from streameval.engine.ingest import Ingest
from streameval.engine.partition import PartitionState
from streameval.engine.snapshot import Snapshot
from streameval.errors import RefusedStateError, StreamevalError, UncountableRecordError
from streameval.events.ragged import CodedBatch
from streameval.events.records import Partition, RecordBatch
from streameval.join.interactions import InteractionDecoder
from streameval.testing.broker import Broker
from tests.cli.program import ran
from tests.daemon.running import kafka_source
from tests.dead_letters.places import records_in
from tests.effort import PATIENCE
from tests.kafka.topics import create, fill, options, shortened

pytestmark = pytest.mark.kafka

POISON = b'{"recommendations": ["a", "b"], "interactions": ["b"], "note": "poison"}'
AT = 40
HASTY = {"fetch_max_wait_ms": 50}


def _event(number: int) -> bytes:
    return b'{"recommendations": ["a", "b"], "interactions": ["%d"]}' % (number % 3)


LOG = [*map(_event, range(AT)), POISON, *map(_event, range(25))]


@pytest.fixture
def poisoned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Decoders with a bug: one record makes them raise."""
    for kind in (Decoder, InteractionDecoder):
        monkeypatch.setattr(kind, "decode_many", _mistaken(kind.decode_many))


def _mistaken(decode_many: Callable[..., Any]) -> Callable[..., Any]:
    def mistaken(self: object, values: Sequence[bytes | None]) -> Any:
        if any(value is not None and b"poison" in value for value in values):
            raise KeyError("note")
        return decode_many(self, values)

    return mistaken


def _written(folder: Path, broker: Broker, topic: str) -> Path:
    path = folder / "streameval.toml"
    config = (
        'metrics = ["hit_rate@1", "item_coverage@2"]\ncatalog = 10\nstate = { path = "state" }\n'
    )
    path.write_text(config + kafka_source(broker, topic, kafka=HASTY))
    return path


def _run(config: Config, until: Callable[[Snapshot], bool]) -> Snapshot:
    """Run a daemon until a snapshot meets a condition; returns the last snapshot."""
    shown: list[Snapshot] = []
    loop = Loop(assemble(config, {}, ProcessClock()), shown.append, ProcessClock(), lambda: None)
    loop.run(lambda: bool(shown) and until(shown[-1]))
    return shown[-1]


def _stopped(config: Config) -> UncountableRecordError:
    with pytest.raises(UncountableRecordError) as caught:
        _run(config, lambda _: False)
    return caught.value


def _reads(count: int) -> Callable[[Snapshot], bool]:
    return lambda shown: shown.health.consumed >= count


def _parts(path: Path, topic: str) -> tuple[int, dict[str, bytes]]:
    store = folder_store(path / "state")
    (place,) = [each for each in store.places() if each.topic == topic]
    saved = store.newest(place).saved
    assert saved is not None
    return saved.header.offset, {name: saved.read(name) for name in saved.digests}


def _without_the_record(config: Config, logs: dict[str, list[bytes]], where: str) -> Ingest:
    """The topics, the first of which has the state, without the one record of one topic."""
    calm = new_ingest(config)
    calm.begin(Partition(next(iter(logs)), 0), {Partition(each, 0): 0 for each in logs})
    for topic, log in logs.items():
        gap = AT if topic == where else len(log)
        for start, stop in ((0, gap), (gap + 1, len(log))):
            if values := log[start:stop]:
                at, offsets = Partition(topic, 0), range(start, stop)
                calm.apply(
                    RecordBatch(partition=at, values=values, offsets=offsets, next_offset=stop)
                )
    return calm


def _content(ingest: Ingest, topic: str) -> dict[str, bytes]:
    sections = ingest.sections(Partition(topic, 0))
    return {each.name: b"".join(each.content()()) for each in sections}


def _skip(path: Path, topic: str, offset: int, *more: str) -> tuple[int, str]:
    where = ("--topic", topic, "--partition", "0", "--offset", str(offset))
    done = ran("skip", path, *where, *more)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.usefixtures("poisoned")
def test_a_record_that_ends_the_daemon_is_named_skipped_and_kept_as_a_dead_letter(
    broker: Broker, tmp_path: Path
) -> None:
    topic = create(broker)
    path = _written(tmp_path, broker, topic)
    config = load(path)
    fill(broker, topic, {0: LOG})
    command = f"streameval skip CONFIG --topic {topic} --partition 0 --offset {AT}"
    for _ in range(2):
        stopped = str(_stopped(config))
        assert f"{topic}[0] offset {AT}: the record cannot be counted (KeyError: 'note'" in stopped
        assert command in stopped
    status, said = _skip(path, topic, AT + 1)
    assert (status, f"stopped at offset {AT}" in said) == (2, True)
    assert _skip(path, topic, AT, "--by", "ada")[0] == 0
    status, said = _skip(path, topic, AT, "--by", "bob")
    assert (status, "was skipped before" in said) == (0, True)

    last = _run(config, _reads(len(LOG)))
    assert last.health.invalid["skipped"] == last.health.dead_lettered == 1
    offset, parts = _parts(tmp_path, topic)
    assert offset == len(LOG)
    assert parts == _content(_without_the_record(config, {topic: LOG}, topic), topic)
    (letter,) = records_in(broker, f"{topic}.dlq")
    headers = {name: value.decode() for name, value in letter.headers}
    said = headers.pop("streameval.dlq.message")
    assert letter.value == POISON
    assert (headers["streameval.dlq.offset"], headers["streameval.dlq.reason"]) == (
        str(AT),
        "skipped",
    )
    assert said.startswith("skipped by ada at ")
    assert "KeyError: 'note'" in said

    status, said = _skip(path, topic, AT)
    assert (status, "has been counted since" in said) == (2, True)
    fill(broker, topic, {0: [POISON]})
    assert f"--offset {len(LOG)}" in str(_stopped(config))


JOIN = """
metrics = ["hit_rate@1", "ndcg@2"]
windows = {{ spans = ["5m"] }}
event = {{ time = "ts", time_unit = "s" }}
state = {{ path = "state" }}
[attribution]
impressions = "{shown}"
window = "5s"
lateness = "1s"
interactions = [{{ source = "{clicked}" }}]
"""


def _configured_join(folder: Path, broker: Broker, topics: dict[str, str]) -> tuple[Path, Config]:
    path = folder / "streameval.toml"
    source = kafka_source(broker, topics["shown"], topics["clicked"], kafka=HASTY)
    path.write_text(JOIN.format(**topics) + source)
    return path, load(path)


def _streams(poisoned: str) -> dict[str, list[bytes]]:
    """Lists and clicks; one record of one stream makes the daemon stop."""
    shown = [{"ts": n, "request_id": n, "recommendations": ["a", "b"]} for n in range(100)]
    clicked = [{"ts": n + 2, "request_id": n, "item": "ab"[n % 2]} for n in range(100)]
    found = {"shown": shown, "clicked": clicked}
    found[poisoned][AT] = {**found[poisoned][AT], "note": "poison"}
    return {name: [json.dumps(each).encode() for each in log] for name, log in found.items()}


@pytest.mark.usefixtures("poisoned")
@pytest.mark.parametrize("stream", ["shown", "clicked"])
def test_a_record_of_either_joined_stream_is_skipped_as_if_it_had_never_been(
    broker: Broker, tmp_path: Path, stream: str
) -> None:
    logs = _streams(stream)
    topics = {name: create(broker) for name in logs}
    path, config = _configured_join(tmp_path, broker, topics)
    topic = topics[stream]
    for name, log in logs.items():
        fill(broker, topics[name], {0: log})
    assert f"--topic {topic} --partition 0 --offset {AT}" in str(_stopped(config))
    assert _skip(path, topic, AT, "--by", "ada")[0] == 0

    _ends_as_if_it_had_never_been(broker, config, topics, logs, stream)


def _ends_as_if_it_had_never_been(
    broker: Broker,
    config: Config,
    topics: dict[str, str],
    logs: dict[str, list[bytes]],
    where: str,
    but: frozenset[str] = frozenset(),
) -> None:
    """Check that the state lacks the record, and that the record is a dead letter.

    `but`: sections that may differ.
    """
    by_topic = {topics[name]: log for name, log in logs.items()}
    calm = _without_the_record(config, by_topic, topics[where])
    wanted = dict(calm.positions)
    last = _run(
        config,
        lambda now: wanted == {each.partition: each.position for each in now.health.partitions},
    )
    assert last.health.invalid["skipped"] == last.health.dead_lettered == 1
    assert config.state is not None
    _, parts = _parts(Path(config.state.path).parent, topics["shown"])
    expected = _content(calm, topics["shown"])
    assert parts.keys() == expected.keys()
    assert [name for name in parts if parts[name] != expected[name] and name not in but] == []
    (letter,) = records_in(broker, f"{topics[where]}.dlq")
    said = dict(letter.headers)["streameval.dlq.message"].decode()
    assert letter.value == logs[where][AT]
    assert said.startswith("skipped by ada at ")


@pytest.fixture
def poisoned_counting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counting with a bug: an event with one item makes it raise."""
    count = PartitionState.count

    def mistaken(self: PartitionState, decoded: Decoded) -> None:
        coded = decoded.batch
        assert isinstance(coded, CodedBatch)
        assert coded.ids is not None
        if "poison" in map(coded.ids.__getitem__, coded.recommendations.values.tolist()):
            raise ZeroDivisionError("poison")
        count(self, decoded)

    monkeypatch.setattr(PartitionState, "count", mistaken)


@pytest.mark.usefixtures("poisoned_counting")
def test_a_list_that_fails_when_its_window_is_over_is_named_and_taken_out(
    broker: Broker, tmp_path: Path
) -> None:
    logs = _streams("shown")
    logs["shown"][AT] = json.dumps(
        {"ts": AT, "request_id": AT, "recommendations": ["a", "poison"]}
    ).encode()
    topics = {name: create(broker) for name in logs}
    path, config = _configured_join(tmp_path, broker, topics)
    for name, log in logs.items():
        fill(broker, topics[name], {0: log[: AT + 3]})
    _run(config, _reads(2 * (AT + 3)))
    for name, log in logs.items():
        fill(broker, topics[name], {0: log[AT + 3 :]})
    for _ in range(2):
        stopped = str(_stopped(config))
        assert f"{topics['shown']}[0] offset {AT}: " in stopped
        assert "ZeroDivisionError: poison" in stopped
    status, said = _skip(path, topics["shown"], AT, "--by", "ada")
    assert status == 0, said
    # Before it failed, the list had its vote in the clock of its log.
    clocks = frozenset({"~join"})
    _ends_as_if_it_had_never_been(broker, config, topics, logs, "shown", clocks)
    status, said = _skip(path, topics["shown"], AT)
    assert (status, "has been counted since" in said) == (2, True), said


def test_nothing_is_skipped_where_no_daemon_stopped_or_nothing_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As in a container under a number without a name; that is no obstacle.
    monkeypatch.setattr("streameval.cli.skip.getuser", partial(getpwuid, 2**31))
    path = tmp_path / "streameval.toml"
    source = '[source]\ntype = "files"\npaths = ["events.ndjson"]\n'
    state, letters = '[state]\npath = "state"\n', '[dead_letters]\npath = "dead.ndjson"\n'
    for content, problem in (
        (source, "no [state]"),
        (source + state, "has no dead letters"),
        (source + state + letters, "not a store of checkpoints"),
    ):
        path.write_text(f'metrics = ["ctr"]\n{content}')
        status, said = _skip(path, "events.ndjson", 0)
        assert (status, problem in said) == (2, True), said
    folder_store(tmp_path / "state").claim("c", "g")
    status, said = _skip(path, "events.ndjson", 0)
    assert (status, "no daemon has stopped at a record of this" in said) == (2, True), said


def test_an_order_that_is_damaged_is_not_passed_over(tmp_path: Path) -> None:
    store = folder_store(tmp_path)
    place = Place("events", "id", 0)
    folder = tmp_path / "events" / "id" / "0" / "skips"
    folder.mkdir(parents=True)
    (folder / "events%2F0%2F14.skip").write_text(json.dumps({"by": "ada"}))
    with pytest.raises(StreamevalError, match="damaged"):
        store.skips(place)


EVENT = b'{"recommendations": ["a", "b"], "interactions": ["b"]}'


@contextmanager
def _counting(config: Config) -> Iterator[Assembly]:
    parts = assemble(config, {}, ProcessClock())
    try:
        parts.source.open(parts.owner)
        yield parts
    finally:
        parts.close()


def _turn_until(parts: Assembly, condition: Callable[[], bool]) -> None:
    deadline = monotonic() + PATIENCE
    while not condition():
        assert monotonic() < deadline, parts.source.trouble
        for batch in parts.source.poll(0.1):
            parts.owner.apply(batch)


def _position(parts: Assembly, topic: str) -> int | None:
    state = parts.ingest.partitions.get(Partition(topic, 0))
    return None if state is None else state.position


def _lose_two(broker: Broker, topic: str) -> None:
    fill(broker, topic, {0: [EVENT] * 3})
    shortened(broker, topic, 6)


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("policy", ["skip", "fail"])
def test_retention_that_overtakes_follows_the_policy_running_and_restarted(
    broker: Broker, tmp_path: Path, policy: Literal["skip", "fail"], *, restarted: bool
) -> None:
    topic = create(broker)
    config = Config(
        metrics=["hit_rate@1"],
        source=options(broker, topic, group=topic, fetch_max_wait_ms=50),
        state=StateOptions(path=str(tmp_path / "state"), on_retention=policy),
    )
    fill(broker, topic, {0: [EVENT] * 4})
    with _counting(config) as parts:
        _turn_until(parts, lambda: _position(parts, topic) == 4)
        if restarted:
            parts.owner.finish()
        else:
            _overtake(parts, broker, topic)
            _see(parts, topic, policy, counted=5)
    if restarted:
        _lose_two(broker, topic)
        with _counting(config) as parts:
            _see(parts, topic, policy, counted=1)


def _overtake(parts: Assembly, broker: Broker, topic: str) -> None:
    """Delete the next records while reading is paused."""
    parts.source.pause([Partition(topic, 0)])
    for _ in range(10):
        assert not parts.source.poll(0.1)
    _lose_two(broker, topic)
    parts.source.pause([])


def _see(parts: Assembly, topic: str, policy: str, *, counted: int) -> None:
    if policy == "fail":
        with pytest.raises(RefusedStateError, match="2 offsets were never counted"):
            _turn_until(parts, lambda: False)
        return
    _turn_until(parts, lambda: _position(parts, topic) == 7)
    assert parts.owner.health is not None
    assert parts.owner.health.skipped == 2
    told = [each.event for each in parts.owner.take_log_events()]
    assert told.count("records were lost before they were counted") == 1
    parts.owner.finish()
    assert parts.owner.counted is not None
    assert [lists for _, lists in parts.owner.counted.values()] == [counted]
