"""A reload of the real daemon: check the new configuration, checkpoint, and start again."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from streameval.checkpoints.store import folder_store
from streameval.config import Config
from streameval.config.options import DeadLetterOptions, StateOptions
from streameval.daemon.assembly import assemble
from streameval.daemon.reload import check_start
from streameval.errors import ConfigError, RefusedStateError
from streameval.sources.options import FilesOptions, KafkaOptions
from streameval.testing.broker import Broker
from tests.daemon.hands import Countdown, Hands, loop_of
from tests.daemon.running import Running, kafka_source, running
from tests.kafka.topics import create, fill
from tests.ports import WEB, free_port

CONFIG = """
metrics = [{metrics}]
labels = ["variant"]
{more}
event = {{ time = "ts", time_unit = "iso8601" }}
windows = {{ spans = ["5m"] }}
web = {{ listen = "127.0.0.1:{port}", first_exposure = "0s" }}
"""
SIMULATED = """
[source]
type = "simulator"
seed = 3
events_per_second = 500
"""
STATE = '[state]\npath = "state"\ninterval = "1s"\n'


def lifetime(daemon: Running) -> dict[str, Any]:
    return {
        each["metric"]: each
        for each in daemon.document().get("metrics", [])
        if each["window"] == "lifetime" and each["labels"] == {"variant": "control"}
    }


def written(
    port: int, *metrics: str, more: str = "", source: str = SIMULATED, state: str = STATE
) -> str:
    names = ", ".join(f'"{each}"' for each in metrics or ("ctr@10",))
    return CONFIG.format(metrics=names, more=more, port=port) + source + state


def _listening() -> socket.socket:
    return socket.create_server(("127.0.0.1", 0))


def test_a_reload_rejects_what_cannot_start_and_a_new_metric_reads_old_counts(
    tmp_path: Path,
) -> None:
    port = free_port()
    folder_store(tmp_path / "foreign").claim("c9", "g9")
    with running(written(port), tmp_path) as daemon, _listening() as taken:
        daemon.consumed(250)
        for refused, problem in (
            (written(port, "no_such_metric"), "unknown metric"),
            (written(port, more='segments = ["country"]'), "segments"),
            (written(port, more="max_items = 7"), "max_items"),
            (written(port, more='log_level = "loud"'), "log_level"),
            (written(port, more='dead_letters = { path = "none/x" }'), "its folder does not exist"),
            (written(port, state='[state]\npath = "streameval.toml"'), "a file is in the way"),
            (written(port, state='[state]\npath = "foreign"'), "belongs to group 'g9'"),
            (written(taken.getsockname()[1]), "in use"),
        ):
            assert problem in daemon.reload(refused, "reload_refused")
        daemon.consumed(daemon.document()["health"]["consumed"] + 250)
        # A snapshot that had begun before may be shown first.
        daemon.until(lambda: daemon.sum_of("streameval_config_last_reload_successful") == 0)
        assert set(lifetime(daemon)) == {"ctr@10"}
        assert len(daemon.said("started")) == 1
        assert WEB.post(f"{daemon.address}/-/reload").status_code == 404

        lists, pid = lifetime(daemon)["ctr@10"]["lists"], daemon.process.pid
        daemon.reload(written(port, "ctr@10", "hit_rate@10", "distinct_items@10"))
        daemon.until(lambda: "distinct_items@10" in lifetime(daemon))
        found = lifetime(daemon)
        assert daemon.process.pid == pid
        assert found["hit_rate@10"]["since"] is None
        assert found["hit_rate@10"]["lists"] == found["ctr@10"]["lists"] >= lists
        assert found["distinct_items@10"]["since"] > 1_700_000_000
        assert found["distinct_items@10"]["lists"] < found["ctr@10"]["lists"]
        assert daemon.sum_of("streameval_config_last_reload_successful") == 1
        assert daemon.stop() == 0
    assert daemon.said("failed") == []


def test_post_reloads_if_enabled_and_without_state_counts_start_over(tmp_path: Path) -> None:
    port, file = free_port(), tmp_path / "streameval.toml"
    plain = {"source": SIMULATED.replace("events_per_second = 500", "events = 300"), "state": ""}
    with running(written(port, **plain), tmp_path, "--web.enable-lifecycle") as daemon:
        daemon.consumed(300)
        file.write_text(written(port, "no_such_metric", **plain))
        refused = WEB.post(f"{daemon.address}/-/reload")
        assert refused.status_code == 500
        assert "unknown metric" in refused.text
        file.write_text(written(port, "mrr@10", more='segments = ["country"]', **plain))
        accepted = WEB.post(f"{daemon.address}/-/reload")
        assert (accepted.status_code, accepted.text) == (200, "Reloading.\n")
        daemon.until(lambda: len(daemon.said("started")) == 2)
        assert daemon.consumed(300)["health"]["consumed"] == 300
        assert set(lifetime(daemon)) == {"mrr@10"}
        assert daemon.stop() == 0


@pytest.mark.kafka
def test_a_reload_rejoins_the_group_and_counts_each_record_once(
    broker: Broker, tmp_path: Path
) -> None:
    port = free_port()
    topic = create(broker, partitions=2)
    record = b'{"recommendations": ["a"], "interactions": ["a"], "ts": "2026-01-01T00:00:00Z"}'
    source = kafka_source(broker, topic)

    def config(*metrics: str) -> str:
        return written(port, *metrics, source=source).replace('labels = ["variant"]\n', "")

    fill(broker, topic, {0: [record] * 20, 1: [record] * 10})
    with running(config(), tmp_path) as daemon:
        daemon.consumed(30)
        daemon.until(lambda: daemon.sum_of("streameval_ctr_count{") == 30)
        daemon.reload(config("ctr@10", "mrr@10"))
        fill(broker, topic, {0: [record], 1: [record] * 2})
        daemon.until(lambda: daemon.sum_of("streameval_ctr_count{") == 3)
        shown = daemon.document()["metrics"]
        assert {each["lists"] for each in shown if each["window"] == "lifetime"} == {33}
        assert daemon.stop() == 0


def test_letters_that_would_go_to_a_topic_that_is_read_are_refused() -> None:
    source = KafkaOptions(topics=["events", "events.dlq"])
    config = Config(metrics=["ctr"], source=source, dead_letters=DeadLetterOptions())
    with pytest.raises(ConfigError, match=r"'events\.dlq' is also read"):
        check_start(config, config, {})


def test_an_empty_store_for_a_group_that_has_committed_is_refused(tmp_path: Path) -> None:
    source = KafkaOptions(topics=["events"], kafka={"bootstrap_servers": "127.0.0.1:1"})
    state = StateOptions(path=str(tmp_path / "before"))
    running = Config(metrics=["ctr"], source=source, state=state)
    moved = StateOptions(path=str(tmp_path / "after"))
    with pytest.raises(RefusedStateError, match='on_foreign_progress = "rebuild"'):
        check_start(replace(running, state=moved), running, {})
    check_start(replace(running, state=replace(moved, on_foreign_progress="rebuild")), running, {})
    other = replace(source, group="other")
    check_start(replace(running, state=moved, source=other), running, {})
    folder_store(tmp_path / "after").claim("c", "streameval")
    check_start(replace(running, state=moved), running, {})


def test_state_that_a_start_does_not_load_refuses_no_reload(tmp_path: Path) -> None:
    hands = Hands()
    state = StateOptions(path=str(tmp_path / "state"), on_recreated="restart")
    # Another file, and another file of the same name, each with one label less.
    for number, name in enumerate("abb"):
        (tmp_path / name).write_bytes(b'{"recommendations": ["%d"]}\n' % number)
        source = FilesOptions(paths=[str(tmp_path / name)])
        labels = ["arm", "tenure", "country"][number:]
        config = Config(metrics=["ctr"], labels=labels, source=source, state=state)
        loop_of(assemble(config, {}, hands.clock), hands).run(Countdown(5))
        check_start(config, config, {})
