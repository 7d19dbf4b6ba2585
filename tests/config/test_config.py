"""Configurations that say what can be done."""

from __future__ import annotations

from pathlib import Path

import pytest

from streameval.checkpoints.settings import BucketOptions
from streameval.config import Config, load
from streameval.errors import ConfigError
from streameval.exporters.address import host_and_port
from streameval.sources.options import FilesOptions, KafkaOptions, SimulatorOptions
from tests.effort import every_case

EXAMPLE = """\
metrics = ["ctr", "hit_rate@10", "ndcg@10", "item_coverage@10"]
labels = ["variant", "campaign"]
catalog = 80

[source]
type = "kafka"
topics = ["recommendation-events"]
group = "streameval"
start = "earliest"
[source.kafka]
bootstrap_servers = "127.0.0.1:9092"

[event]
time = "ts"
time_unit = "iso8601"

[web]
listen = "127.0.0.1:9877"
"""
_SHORTEST = 'metrics = ["ctr"]\n[source]\ntype = "simulator"\n'


def _loaded(folder: Path, text: str) -> Config:
    file = folder / "streameval.toml"
    file.write_text(text, encoding="utf-8")
    return load(file)


def test_the_example_loads_as_written(tmp_path: Path) -> None:
    config = _loaded(tmp_path, EXAMPLE)
    assert config.metrics == ["ctr", "hit_rate@10", "ndcg@10", "item_coverage@10"]
    assert config.labels == ["variant", "campaign"]
    assert config.catalog == 80
    assert config.source == KafkaOptions(
        topics=["recommendation-events"],
        group="streameval",
        start="earliest",
        kafka={"bootstrap_servers": "127.0.0.1:9092"},
    )
    assert (config.event.time, config.event.time_unit) == ("ts", "iso8601")
    assert config.web.listen == "127.0.0.1:9877"


def test_three_lines_are_enough(tmp_path: Path) -> None:
    config = _loaded(tmp_path, _SHORTEST)
    assert config == Config(metrics=["ctr"], source=SimulatorOptions())


def test_the_accumulator_reads_what_is_configured(tmp_path: Path) -> None:
    accumulator = _loaded(tmp_path, EXAMPLE).accumulator()
    accumulator.update(["a", "b"], ["b"])
    assert accumulator.read("item_coverage@10").value == 2 / 80
    assert accumulator.read("ctr").value == 0.5


def test_a_bucket_is_where_its_url_says(tmp_path: Path) -> None:
    path = tmp_path / "streameval.toml"
    state = 'path = "s3://bucket/prefix"\nregion = "eu-west-1"\ntimeout = "5s"'
    path.write_text(
        f'metrics = ["mrr"]\n[source]\ntype = "files"\npaths = ["e.ndjson"]\n[state]\n{state}\n'
    )
    found = load(path).state
    assert found is not None
    assert found.path == "s3://bucket/prefix"
    assert found.bucket == BucketOptions(region="eu-west-1", timeout=5.0)


def test_files_are_looked_for_beside_the_configuration(tmp_path: Path) -> None:
    text = 'metrics = ["ctr"]\n[source]\ntype = "files"\npaths = ["a.ndjson", "/b.ndjson", "-"]\n'
    source = _loaded(tmp_path, text).source
    assert source == FilesOptions(paths=[f"{tmp_path}/a.ndjson", "/b.ndjson", "-"])


def test_a_catalogue_of_ids_leaves_other_items_out(tmp_path: Path) -> None:
    (tmp_path / "items.txt").write_text("a\nb\n\nc\r\nd", encoding="utf-8")
    text = 'metrics = ["item_coverage"]\ncatalog = "items.txt"\n[source]\ntype = "simulator"\n'
    config = _loaded(tmp_path, text)
    assert config.items() == frozenset({"a", "b", "c", "d"})
    accumulator = config.accumulator()
    accumulator.update(["a", "stranger"], [])
    assert accumulator.read("item_coverage").value == 0.25


def test_a_catalogue_of_integers_is_read_as_integers(tmp_path: Path) -> None:
    (tmp_path / "items.txt").write_text("1\n2\n", encoding="utf-8")
    text = f'catalog = "items.txt"\n{_SHORTEST}[event]\nids = "integer"\n'
    assert _loaded(tmp_path, text).items() == frozenset({1, 2})


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "items.txt has no ids; give one id a line."),
        (b"caf\xe9\n", "give one id a line."),
        (None, "items.txt: no such file or directory; check the path and its permissions."),
    ],
)
def test_a_catalogue_that_is_none_is_refused(
    tmp_path: Path, content: bytes | None, sentence: str
) -> None:
    if content is not None:
        (tmp_path / "items.txt").write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        _loaded(tmp_path, f'catalog = "items.txt"\n{_SHORTEST}')
    assert caught.value.key == "catalog"
    assert caught.value.problem.endswith(sentence)


def test_settings_of_the_client_pass_through_untouched(tmp_path: Path) -> None:
    table = '[source.kafka]\nsecurity.protocol = "SSL"\nfetch_min_bytes = 65536\n'
    text = 'metrics = ["ctr"]\n[source]\ntype = "kafka"\ntopics = ["t"]\n' + table
    source = _loaded(tmp_path, text).source
    assert isinstance(source, KafkaOptions)
    assert source.kafka == {"security": {"protocol": "SSL"}, "fetch_min_bytes": 65536}


@pytest.mark.parametrize("start", ["latest", "2026-01-31T00:00:00Z", "2026-01-31T01:00:00+01:00"])
def test_reading_may_start_at_a_time(tmp_path: Path, start: str) -> None:
    text = f'metrics = ["ctr"]\n[source]\ntype = "kafka"\ntopics = ["t"]\nstart = "{start}"\n'
    source = _loaded(tmp_path, text).source
    assert isinstance(source, KafkaOptions)
    assert source.start == start


@every_case(
    ("listen", "meant"),
    [
        ("127.0.0.1:9877", ("127.0.0.1", 9877)),
        ("localhost:0", ("localhost", 0)),
        ("0.0.0.0:80", ("0.0.0.0", 80)),
        ("[::1]:9877", ("::1", 9877)),
    ],
)
def test_an_address_is_a_host_and_a_port(listen: str, meant: tuple[str, int]) -> None:
    assert host_and_port(listen) == meant
