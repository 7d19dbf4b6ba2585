"""The whole log of a first hour and of a night: the events, in files."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
from contextlib import suppress
from functools import partial
from html import escape
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from streameval.testing.broker import Broker
from tests.cli.program import run, write_file
from tests.daemon.running import Running, kafka_source, running
from tests.kafka.topics import create, fill, filled

_LOGS: Final = Path(__file__).with_name("nights")


def told(daemon: Running, folder: Path) -> list[str]:
    """The lines of the log without times and folder, and without examples of invalid records."""
    lines = (line for line in daemon.log if "event=invalid_record" not in line)
    return [re.sub(rf"^ts=\S+ |{folder}/|\n", "", line) for line in lines]


def expected(name: str) -> list[str]:
    """The lines of a file: events and fields, and `...` for words that do not matter."""
    return (_LOGS / name).read_text(encoding="utf-8").splitlines()


def match(lines: list[str], patterns: list[str]) -> None:
    """Fail at the first line that is unlike its pattern."""
    for line, pattern in zip_longest(lines, patterns, fillvalue=""):
        words = ".*".join(map(re.escape, pattern.split("...")))
        assert re.fullmatch(words, line), (line, pattern)


LINE: Final = b'{"recommendations": ["a", "b"], "interactions": ["a"]}'
WEB: Final = 'web = { listen = "127.0.0.1:0" }\n'
LISTS: Final = [
    {"recommendations": ["a", "b"], "interactions": ["a"], "variant": "control", "user": f"u{at}"}
    for at in range(200)
]
SHOWN: Final = [
    {"recommendations": ["a", "b"], "user": f"u{at}", "ts": 1_000 * at} for at in range(300)
]
CLICKS: Final = [
    {"item": "a", "user": f"u{at}" if at % 3 else f"customer-{at}", "ts": 1_000 * at + 1}
    | {"type": "click" if at % 4 else "clik"}
    for at in range(300)
]
ENVELOPED: Final = [{"payload": {"after": event}} for event in LISTS]
UUIDS: Final = [event | {"variant": f"uuid-{at}"} for at, event in enumerate(LISTS)]


class FirstHour(NamedTuple):
    """A configuration and the lines of its file; `twice`: a field that is repeated in each."""

    config: str
    files: dict[str, list[dict[str, Any]]]
    twice: str = ""


FIRST_HOURS: Final = {
    "login": FirstHour(
        """
metrics = ["ctr"]
event = { time = "ts", time_unit = "ms" }
source = { type = "files", paths = ["shown.ndjson", "clicks.ndjson"] }
[attribution]
impressions = "shown.ndjson"
interactions = [{ source = "clicks.ndjson", types = { click = 1 } }]
key = "user_item"
""",
        {"shown.ndjson": SHOWN, "clicks.ndjson": CLICKS},
        twice='"item": "b", ',
    ),
    "envelope": FirstHour(
        'metrics = ["ctr"]\nsource = { type = "files", paths = ["events.ndjson"] }\n',
        {"events.ndjson": ENVELOPED[:30]},
    ),
    "folded": FirstHour(
        """
metrics = ["ctr"]
labels = ["variant"]
intervals = {}
experiment = {}
source = { type = "files", paths = ["events.ndjson"] }
""",
        {"events.ndjson": [*UUIDS, *LISTS]},
    ),
}


@pytest.mark.parametrize("name", FIRST_HOURS)
def test_the_log_of_a_first_hour_says_what_is_wrong(tmp_path: Path, name: str) -> None:
    case = FIRST_HOURS[name]
    for file, records in case.files.items():
        twice = case.twice if file == "clicks.ndjson" else ""
        lines = [json.dumps(record).replace("{", f"{{{twice}", 1) for record in records]
        (tmp_path / file).write_text("\n".join([*lines, ""]), encoding="utf-8")
    with running(WEB + case.config, tmp_path) as daemon:
        (advice,) = daemon.until(lambda: daemon.logged("advice"))
        answer, page = daemon.get("/-/ready"), daemon.get("/").text
        metrics = daemon.get("/metrics").text
        assert daemon.stop() == 0
    match(told(daemon, tmp_path), expected(f"{name}.log"))
    sentence = json.loads(advice.partition("advice=")[2])
    assert answer.status_code == 200
    assert sentence in answer.text
    assert escape(sentence) in page
    unnamed = re.search(r'join_unnamed_types\{stream=\S+clicks.ndjson"} [1-9]', metrics)
    assert (unnamed is not None) is (name == "login")
    # The control is never folded.
    is_folded = 'streameval_compared_label_folded{label="variant"} 1.0' in metrics
    assert is_folded is ('variant="control"' in metrics) is (name == "folded")


COVERAGE: Final = 'metrics = ["item_coverage@300"]\ncatalog = 1_000_000\n'
FILES: Final = '[source]\ntype = "files"\npaths = ["events.ndjson"]\n'


def test_a_first_start_with_a_wrong_configuration_does_not_punish_the_second(
    tmp_path: Path,
) -> None:
    events = [{"items": event["recommendations"], "interactions": ["a"]} for event in LISTS]
    (tmp_path / "events.ndjson").write_text("\n".join([*map(json.dumps, events), ""]))
    common = f'metrics = ["ctr"]\nstate = {{ path = "state", interval = "60s" }}\n{WEB}{FILES}'
    with running(common, tmp_path) as first:
        first.until(lambda: first.logged("advice"))
        assert first.stop() == 0
    right = f'{common}[event]\nrecommendations = "items"\n'
    with running(right, tmp_path) as second:
        assert second.consumed(len(events))["health"]["valid"] == len(events)
        assert second.stop() == 0
    match(told(second, tmp_path), expected("second_start.log"))
    refused = run("run", write_file(tmp_path / "third.toml", common))
    assert refused.returncode == 2
    assert 'event.recommendations: \\"items\\" → \\"recommendations\\"' in refused.stderr


def assigned(daemon: Running, times: int) -> bool:
    return len(daemon.logged("partitions_assigned")) == times


def limit_memory(daemon: Running, more: int) -> None:
    """Let the process take only so many bytes more, and as many as it has already."""
    status = Path(f"/proc/{daemon.process.pid}/status").read_text(encoding="ascii")
    taken = 1024 * int(re.findall(r"VmSize:\s+(\d+)", status)[0])
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.prlimit(daemon.process.pid, resource.RLIMIT_AS, (taken + more, hard))


def many_items(lists: int) -> list[bytes]:
    """Lists of 300 items that no other list has."""
    shown = ([f"item-{300 * row + rank}" for rank in range(300)] for row in range(lists))
    events = ({"recommendations": items, "interactions": []} for items in shown)
    return [json.dumps(event).encode() for event in events]


def write_end(pipe: Path) -> int | None:
    """A descriptor to write to a pipe; None before somebody reads it."""
    with suppress(OSError):
        descriptor = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        os.set_blocking(descriptor, True)
        return descriptor
    return None


def test_the_last_line_says_that_no_memory_is_left(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "events.ndjson")
    with running(COVERAGE + WEB + FILES, tmp_path) as daemon:
        limit_memory(daemon, 16 << 20)
        descriptor = daemon.until(partial(write_end, tmp_path / "events.ndjson"))
        with suppress(BrokenPipeError), os.fdopen(descriptor, "wb") as pipe:
            pipe.writelines(line + b"\n" for line in many_items(3_000))
        assert daemon.ended() == 1
    # Python itself may write about threads that end for want of memory, even in the last line.
    first, *_, last = told(daemon, tmp_path)
    match([first, last], expected("memory.log"))


@pytest.mark.nightly
@pytest.mark.kafka
def test_it_does_so_whatever_the_client_of_kafka_was_doing(broker: Broker, tmp_path: Path) -> None:
    topic = create(broker)
    with running(COVERAGE + WEB + kafka_source(broker, topic), tmp_path) as daemon:
        daemon.until(lambda: assigned(daemon, 1))
        limit_memory(daemon, 16 << 20)
        fill(broker, topic, {0: many_items(1_500)})
        assert daemon.ended() == 1
    match(told(daemon, tmp_path)[-1:], expected("memory.log")[-1:])


REPLICA: Final = """
metrics = ["ctr"]
state = { path = "state", interval = "1s" }
web = { listen = "127.0.0.1:0" }
"""


@pytest.mark.kafka
def test_the_log_of_a_frozen_replica_names_what_it_lost_and_got_back(
    broker: Broker, tmp_path: Path
) -> None:
    topic = filled(broker, {0: [LINE], 1: [LINE]})
    limits = {"session_timeout_ms": 6_000, "heartbeat_interval_ms": 500}
    sources = [kafka_source(broker, topic, kafka=limits, member=name) for name in ("one", "two")]
    with running(REPLICA + sources[0], tmp_path) as one:
        one.until(lambda: assigned(one, 1))
        with running(REPLICA + sources[1], tmp_path) as two:
            two.until(lambda: assigned(two, 1))
            one.until(lambda: assigned(one, 2))
            one.process.send_signal(signal.SIGSTOP)
            two.until(lambda: assigned(two, 2))
            one.process.send_signal(signal.SIGCONT)
            one.until(lambda: one.logged("partitions_rejoined") or assigned(one, 3))
            assert one.stop() == 0
    # A replica that is without partitions for long enough shows the values of the checkpoints.
    lines = (line for line in told(one, tmp_path) if "event=stored_values_shown" not in line)
    log = "\n".join(lines).replace(topic, "topic")
    match(log.replace(broker.bootstrap_servers, "broker").splitlines(), expected("frozen.log"))
