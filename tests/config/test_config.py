"""Valid configurations; any other is rejected in one sentence."""

from __future__ import annotations

import json
import math
import operator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streameval import ChangeSettings
from streameval.checkpoints.settings import BucketOptions
from streameval.config import Config, load
from streameval.config.config import configuration
from streameval.config.tables import (
    DeadLetterOptions,
    MetricOptions,
    StateOptions,
    WebOptions,
    WindowsOptions,
    host_and_port,
)
from streameval.decoding.fields import EventFields
from streameval.events.errors import ConfigError
from streameval.join.attribution import InteractionOptions
from streameval.sources.schemas.registry import RegistryOptions
from streameval.sources.settings import FilesOptions, KafkaOptions, SimulatorOptions
from tests.effort import many_examples

_SHORTEST = 'metrics = ["ctr"]\n[source]\ntype = "simulator"\n'
_KAFKA = 'metrics = ["ctr"]\n[source]\ntype = "kafka"\ntopics = ["t"]\n'


def _loaded(folder: Path, text: str) -> Config:
    file = folder / "streameval.toml"
    file.write_text(text, encoding="utf-8")
    return load(file)


def test_a_minimal_configuration_has_three_lines(tmp_path: Path) -> None:
    config = _loaded(tmp_path, _SHORTEST)
    assert config == configuration()(metrics=["ctr"], source=SimulatorOptions())


def test_paths_are_relative_to_the_configuration_and_urls_stay(tmp_path: Path) -> None:
    text = 'metrics = ["ctr"]\nstate.path = "state"\nweb.config_file = "web.yml"\n'
    text += '[source]\ntype = "files"\npaths = ["a.ndjson", "/b.ndjson", "-"]\n'
    config = _loaded(tmp_path, text)
    assert config.source == FilesOptions(paths=[f"{tmp_path}/a.ndjson", "/b.ndjson", "-"])
    assert config.web.config_file == f"{tmp_path}/web.yml"
    assert config.state == StateOptions(path=f"{tmp_path}/state")
    text = 'metrics = ["ctr"]\nevent.format = "avro"\n[source]\ntype = "kafka"\ntopics = ["a"]\n'
    text += '[registry]\nurl = "https://registry"\nca_file = "ca.pem"\n'
    registry = RegistryOptions(url="https://registry", ca_file=f"{tmp_path}/ca.pem")
    assert _loaded(tmp_path, text).registry == registry
    state = 'path = "s3://bucket/prefix"\nregion = "eu-west-1"\ntimeout = "5s"\n'
    bucket = _loaded(tmp_path, f"{_SHORTEST}[state]\n{state}").state
    assert bucket == StateOptions(path="s3://bucket/prefix", region="eu-west-1", timeout="5s")
    assert bucket.bucket == BucketOptions(region="eu-west-1", timeout=5.0)


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


def test_settings_of_the_client_pass_through_untouched(tmp_path: Path) -> None:
    table = '[source.kafka]\nsecurity.protocol = "SSL"\nfetch_min_bytes = 65536\n'
    source = _loaded(tmp_path, _KAFKA + table).source
    assert isinstance(source, KafkaOptions)
    assert source.kafka == {"security": {"protocol": "SSL"}, "fetch_min_bytes": 65536}


@pytest.mark.parametrize("start", ["latest", "2026-01-31T00:00:00Z", "2026-01-31T01:00:00+01:00"])
def test_reading_may_start_at_a_time(tmp_path: Path, start: str) -> None:
    source = _loaded(tmp_path, f'{_KAFKA}start = "{start}"\n').source
    assert isinstance(source, KafkaOptions)
    assert source.start == start


@pytest.mark.parametrize(
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


def test_popularity_is_read_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "popularity.csv").write_text("item,users\na,4\nb,1\n")
    table = '[popularity]\npath = "popularity.csv"\nusers = 4\n'
    accumulator = _loaded(tmp_path, _SHORTEST.replace("ctr", "novelty@2") + table).accumulator()
    accumulator.update(["a", "b"], [])
    assert accumulator.read("novelty@2").value == 1.0


@pytest.mark.parametrize(
    ("key", "content", "diversity"),
    [("vectors", "a,1,0\nb,0,1\n", 1.0), ("pairs", "a,b,0.25\n", 0.75)],
)
def test_similarity_comes_as_vectors_or_as_pairs(
    tmp_path: Path, key: str, content: str, diversity: float
) -> None:
    (tmp_path / "similarity.csv").write_text(content)
    table = f'[similarity]\n{key} = "similarity.csv"\n'
    accumulator = _loaded(
        tmp_path, _SHORTEST.replace("ctr", "list_diversity") + table
    ).accumulator()
    accumulator.update(["b", "a"], [])
    assert accumulator.read("list_diversity").value == diversity


def test_a_server_has_one_address_or_several() -> None:
    several = ["127.0.0.1:1", "[::1]:1", "a:0", "a:0"]
    assert WebOptions().addresses == ["127.0.0.1:9877"]
    assert WebOptions(listen="[::1]:1").addresses == ["[::1]:1"]
    assert WebOptions(listen=several).addresses == several


@pytest.mark.parametrize(
    ("route", "prefix"), [("/", ""), ("/eval", "/eval"), ("/eval/", "/eval"), ("/a/b", "/a/b")]
)
def test_a_prefix_has_no_slash_at_its_end(route: str, prefix: str) -> None:
    assert WebOptions(route_prefix=route).prefix == prefix


_TABLES_OF = (WindowsOptions, MetricOptions, StateOptions, DeadLetterOptions)
_STRUCTS = (Config, EventFields, KafkaOptions, FilesOptions, SimulatorOptions, *_TABLES_OF)
_KEYS = st.sampled_from(sorted({name for struct in _STRUCTS for name in struct.__struct_fields__}))
_WORDS = st.sampled_from(
    ["ctr", "ndcg@10", "kafka", "files", "simulator", "ts", "ms", "a", "a.b", "5m"]
)
_SCALARS = st.booleans() | st.integers(-2, 99) | st.floats() | _WORDS | st.text(max_size=5)
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS | st.text(), inner),
    max_leaves=6,
)
_SOURCES = st.fixed_dictionaries(
    {"type": st.sampled_from(["kafka", "files", "simulator"])}, optional={"kafka": _VALUES}
)
_KNOWN = st.fixed_dictionaries(
    {"metrics": st.just(["ctr"]) | _VALUES, "source": _SOURCES | _VALUES},
    optional={
        "event": st.dictionaries(_KEYS, _VALUES),
        "labels": st.lists(_WORDS),
        "windows": st.dictionaries(_KEYS, _VALUES | st.lists(_WORDS)),
        "metric": st.lists(st.dictionaries(_KEYS, _VALUES | _WORDS), max_size=2),
        "state": st.dictionaries(_KEYS, _VALUES | _WORDS),
    },
)
_TABLES = st.builds(operator.or_, st.dictionaries(_KEYS, _VALUES, max_size=3), _KNOWN)


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_toml(key)} = {_toml(entry)}' for key, entry in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return str(value) if isinstance(value, float) else json.dumps(value, ensure_ascii=False)


def _answer(file: Path) -> Config | ConfigError:
    try:
        return load(file)
    except ConfigError as error:
        return error


@many_examples()
@given(table=_TABLES)
def test_any_table_loads_or_is_rejected_in_one_sentence(table: Any) -> None:
    with TemporaryDirectory() as folder:
        _answered(Path(folder) / "streameval.toml", table)


def _answered(file: Path, table: Any) -> None:
    lines = [f"{_toml(key)} = {_toml(value)}\n" for key, value in table.items()]
    file.write_text("".join(lines), encoding="utf-8", errors="replace")
    answer = _answer(file)
    if isinstance(answer, ConfigError):
        assert str(answer).startswith(f"{file}: ")
        assert answer.problem
    else:
        assert answer.accumulator().metrics


_SOURCE: dict[str, Any] = {"source": SimulatorOptions()}


@pytest.mark.parametrize(
    ("kind", "values", "key", "problem"),
    [
        (
            EventFields,
            {"time_unit": "seconds"},
            "time_unit",
            "found \"seconds\"; allowed are 's', 'ms', 'us', 'iso8601'.",
        ),
        (Config, _SOURCE | {"metrics": "ctr"}, "metrics", 'found "ctr"; give a list.'),
        (
            Config,
            _SOURCE | {"label_cap": 0},
            "label_cap",
            "found 0; give a whole number of at least 1.",
        ),
        (WebOptions, {"route_prefix": False}, "route_prefix", "found false; give text in quotes."),
        (
            Config,
            _SOURCE | {"windows": {"spans": ["5m"]}},
            "windows",
            "found {'spans': ['5m']}; give WindowsOptions(...).",
        ),
        (
            Config,
            _SOURCE | {"catalog": Path("items")},
            "catalog",
            f"found {Path('items')!r}; give text, numbers, lists or tables.",
        ),
        (
            EventFields,
            {"types": {}},
            "types",
            "no type is named, so nothing would count; name some, or remove it.",
        ),
        (
            EventFields,
            {"types": {"buy": math.inf}},
            "types.buy",
            "found inf; a gain is a number up to 2^1000.",
        ),
        (
            InteractionOptions,
            {"source": "clicks", "types": {"click": 1.0, "buy": math.nan}},
            "types.buy",
            "found nan; a gain is a number up to 2^1000.",
        ),
        (ChangeSettings, {"metrics": "ctr"}, "metrics", 'found "ctr"; give a list.'),
        (
            ChangeSettings,
            {"accepted": ["2026-03-01"]},
            "accepted",
            "found ['2026-03-01']; give date(...).",
        ),
    ],
)
def test_a_table_made_in_python_is_checked_as_one_from_a_file(
    kind: type[Any], values: dict[str, Any], key: str, problem: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        kind(**values)
    assert (refused.value.key, refused.value.problem) == (key, problem)
