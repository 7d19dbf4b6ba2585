"""The real daemon, as a process, on files and simulated traffic."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.program import json_lines, run, spawn, write_file
from tests.daemon.running import Running, exact, readings, running
from tests.ports import free_port

SIMULATOR = """
metrics = ["ctr", "hit_rate@10", "ndcg@10", "item_coverage@10"]
labels = ["variant"]
catalog = 1200
[source]
type = "simulator"
events = 3000
seed = 5
[web]
listen = "127.0.0.1:0"
"""
FILE = """
metrics = ["ctr", "hit_rate@10", "ndcg@10", "mrr", "map", "item_coverage@10"]
labels = ["variant", "campaign"]
catalog = 80
[source]
type = "files"
paths = ["{path}"]
[event]
time = "ts"
time_unit = "iso8601"
[web]
listen = "127.0.0.1:0"
"""
KAFKA = """
metrics = ["ctr"]
[source]
type = "kafka"
topics = ["anything"]
[source.kafka]
bootstrap_servers = "127.0.0.1:{port}"
security_protocol = "SASL_PLAINTEXT"
sasl_mechanism = "PLAIN"
sasl_plain_username = "me"
sasl_plain_password = "${{PASSWORD}}"
[web]
listen = "127.0.0.1:0"
"""
STATE = """
[event]
time = "ts"
time_unit = "iso8601"
[state]
path = "state"
interval = "1s"
"""
SECRET = "correct-horse"


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A daemon that has read all 3,000 simulated events."""
    with running(SIMULATOR, tmp_path_factory.mktemp("simulated")) as daemon:
        daemon.consumed(3000)
        yield daemon


def test_everything_is_served(simulated: Running) -> None:
    assert simulated.get("/-/healthy").status_code == 200
    assert simulated.get("/-/ready").status_code == 200
    assert "hit_rate@10" in simulated.get("/").text
    assert simulated.sum_of("events_consumed_total") == 3_000
    variants = {reading["labels"]["variant"] for reading in simulated.document()["metrics"]}
    assert variants == {"control", "placebo", "treatment"}


def test_the_first_log_line_has_version_and_address(simulated: Running) -> None:
    (line,) = simulated.logged("started")
    assert "address=http://127.0.0.1:" in line
    assert "no [state] in the configuration: metrics reset on restart" in line
    assert "nothing is committed to Kafka" in line
    assert len(line) < 400
    assert not simulated.logged("configuration")


def test_the_configuration_is_logged_at_debug_level(tmp_path: Path) -> None:
    with running(f'{SIMULATOR}\n[log]\nlevel = "debug"', tmp_path) as daemon:
        (line,) = daemon.logged("configuration")
        assert "item_coverage@10" in line


def test_served_values_equal_evaluate_bit_for_bit(simulated: Running, tmp_path: Path) -> None:
    events, config = tmp_path / "simulated.ndjson", tmp_path / "streameval.toml"
    events.write_text(run("simulate", "--events", "3000", "--seed", "5").stdout)
    config.write_text(SIMULATOR)
    offline = run("evaluate", events, "--config", config, "--format", "json")
    assert exact(readings(simulated.document())) == exact(json.loads(offline.stdout))


def test_an_address_in_use_is_a_usage_error(simulated: Running, tmp_path: Path) -> None:
    busy = simulated.address.removeprefix("http://")
    second = write_file(tmp_path / "second.toml", SIMULATOR.replace("127.0.0.1:0", busy))
    for call in (["run", second], ["demo", "--listen", busy, "--seconds", "1"]):
        done = spawn(*call)
        assert done.returncode == 2
        assert f"cannot listen on {busy}: address already in use" in done.stderr
        assert done.stderr.count("\n") == 1


def test_after_the_end_of_files_it_serves_on_and_has_logged_invalid_records(tmp_path: Path) -> None:
    path = tmp_path / "events.ndjson"
    event = {"recommendations": ["a"], "ts": "2026-01-01T00:00:00Z"}
    good, bad = (event | {"interactions": [item]} for item in ("a", True))
    json_lines(path, [good, *[bad] * 10])
    with running(FILE.format(path=path), tmp_path) as daemon:
        first = daemon.consumed(11)
        later = daemon.until(lambda: _newer(daemon, first["version"]))
        assert readings(later) == readings(first) != []
        assert daemon.stop() == 0
        told = daemon.logged("invalid_record")
        assert [f"offset={index} " in line for index, line in enumerate(told, 1)] == [True] * 3
        assert f"partition={path}[0] " in told[0]
        (summary,) = daemon.logged("invalid_records")
        assert "more=7 " in summary


def _newer(daemon: Running, version: int) -> dict[str, object]:
    document = daemon.document()
    return document if document["version"] > version else {}


def test_times_in_another_unit_are_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "events.ndjson"
    json_lines(path, [{"recommendations": ["a"], "interactions": ["a"], "ts": 1_767_225_600}])
    with running(FILE.format(path=path).replace("iso8601", "ms"), tmp_path) as daemon:
        daemon.consumed(1)
        message = "Warning: the newest event is of 1970-01-21: is 'ms' the unit of ts?"
        assert daemon.get("/-/ready").text.startswith(message)


@pytest.mark.parametrize(
    ("state", "next_start"),
    [("", '"starts from zero, without [state]"'), ('[state]\npath = "state"\n', '"resumes here"')],
)
def test_an_interrupt_is_a_graceful_stop_that_says_what_the_next_start_does(
    tmp_path: Path, state: str, next_start: str
) -> None:
    endless = SIMULATOR.replace("events = 3000", "events_per_second = 2000")
    with running(endless + state, tmp_path) as daemon:
        daemon.consumed(1)
        assert daemon.stop(signal.SIGINT) == 0
        (line,) = daemon.logged("stopped")
        assert line.endswith(f"signal=SIGINT next_start={next_start}\n")
        events = [re.search(r" event=(\S+)", line) for line in daemon.log]
        told = [match[1] for match in events if match and match[1] != "state_saved"]
        assert told == ["started", "partitions_assigned", "stopped"]


def test_a_failed_last_checkpoint_is_an_error(tmp_path: Path) -> None:
    config = f'{SIMULATOR}[state]\npath = "{tmp_path / "state"}"\ninterval = "1h"\n'
    with running(config, tmp_path) as daemon:
        daemon.consumed(3000)
        (tmp_path / "state").rename(tmp_path / "elsewhere")
        assert daemon.stop() == 1
        assert "was not written" in daemon.logged("failed")[0]
        assert daemon.logged("stopped") == []


def test_an_unreachable_broker_is_reported_and_waited_for(tmp_path: Path) -> None:
    port = free_port()
    with running(KAFKA.format(port=port), tmp_path, PASSWORD=SECRET) as daemon:
        refused = daemon.until(lambda: "refused" in daemon.get("/-/ready").text)
        assert refused
        answer = daemon.get("/-/ready")
        assert answer.status_code == 503
        assert f"cannot reach Kafka at 127.0.0.1:{port}" in answer.text
        assert daemon.get("/-/healthy").status_code == 200
        daemon.until(lambda: "still trying" in "".join(daemon.logged("source_trouble")))
        assert SECRET not in "".join(daemon.log)
        assert daemon.stop() == 0


def test_a_missing_file_ends_the_daemon_with_one_sentence(tmp_path: Path) -> None:
    config = write_file(tmp_path / "streameval.toml", FILE.format(path=tmp_path / "none.ndjson"))
    done = spawn("run", config)
    assert done.returncode == 1
    assert "none.ndjson: no such file" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_after_a_restart_a_new_metric_has_the_history_that_statistics_hold(tmp_path: Path) -> None:
    endless = SIMULATOR.replace("events = 3000", "events_per_second = 500")
    before = endless.replace(', "item_coverage@10"', "") + STATE
    after = before.replace("[", '["hit_rate@5", "distinct_items@10", ', 1)
    with running(before, tmp_path) as daemon:
        counted = daemon.consumed(200)["health"]["consumed"]
        assert daemon.stop() == 0
    with running(after, tmp_path) as daemon:
        document = daemon.consumed(counted + 200)
        assert daemon.stop() == 0
    lifetime = {
        reading["metric"]: reading
        for reading in document["metrics"]
        if reading["window"] == "lifetime" and reading["labels"] == {"variant": "control"}
    }
    assert lifetime["hit_rate@5"]["since"] is None
    assert lifetime["hit_rate@5"]["lists"] == lifetime["ctr"]["lists"]
    assert lifetime["distinct_items@10"]["since"] > 1_700_000_000
    assert lifetime["distinct_items@10"]["lists"] < lifetime["ctr"]["lists"]
