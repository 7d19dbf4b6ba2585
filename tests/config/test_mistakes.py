"""Each slip in a configuration file, and the exact sentence it is answered with."""

from __future__ import annotations

from pathlib import Path

import pytest

from streameval.catalogue import parse
from streameval.config import load
from streameval.errors import ConfigError, MetricError
from tests.effort import every_case

_SOURCE = '[source]\ntype = "simulator"\n'
_KEYS = (
    "metrics, source, metric, labels, segments, label_cap, label_values, max_series, labels_idle, "
    "windows, dedup, max_ahead, catalog, popularity, similarity, depth, max_items, intervals, "
    "experiment, event, registry, "
    "attribution, state, dead_letters, log_level, web"
)
_KAFKA = '[source]\ntype = "kafka"\ntopics = ["t"]\n'

MISTAKES = {
    "misspelt key": (
        'metrics = ["ctr"]\nlabls = ["variant"]\n' + _SOURCE,
        f"labls: unknown key. Did you mean 'labels' or 'labels_idle'? Allowed here: {_KEYS}.",
    ),
    "key in the wrong table": (
        'metrics = ["ctr"]\nlisten = "127.0.0.1:1"\n' + _SOURCE,
        f"listen: unknown key. Did you mean [web] listen? Allowed here: {_KEYS}.",
    ),
    "misspelt key of a source": (
        'metrics = ["ctr"]\n' + _KAFKA + 'strat = "latest"\n',
        (
            "source.strat: unknown key. Did you mean 'start'? "
            "Allowed here: type, topics, group, member, start, stall_timeout, kafka."
        ),
    ),
    "unknown key without a likeness": (
        'metrics = ["ctr"]\n' + _SOURCE + "[web]\nzzz = 1\n",
        (
            "web.zzz: unknown key. Allowed here: listen, config_file, route_prefix, "
            "allowed_hosts, health_without_auth, scopes, max_connections, first_exposure."
        ),
    ),
    "no metrics": (
        _SOURCE,
        'metrics: no metric is configured; add some, for example metrics = ["ndcg@10"].',
    ),
    "no source": (
        'metrics = ["ctr"]\n',
        (
            'source: this key is missing; for example [source] with type = "kafka", "files" or '
            '"simulator".'
        ),
    ),
    "no type": (
        'metrics = ["ctr"]\n[source]\ntopics = ["a"]\n',
        'source.type: this key is missing; for example type = "kafka".',
    ),
    "no topics": (
        'metrics = ["ctr"]\n[source]\ntype = "kafka"\n',
        'source.topics: this key is missing; for example topics = ["recommendation-events"].',
    ),
    "empty list": (
        'metrics = ["ctr"]\n[source]\ntype = "files"\npaths = []\n',
        "source.paths: found []; give a list of at least 1.",
    ),
    "text for a list": (
        'metrics = "ctr"\n' + _SOURCE,
        'metrics: found "ctr"; give a list.',
    ),
    "number in a list of texts": (
        'metrics = ["ctr", 10]\n' + _SOURCE,
        "metrics[1]: found 10; give text in quotes.",
    ),
    "number as the path of a label": (
        'metrics = ["ctr"]\nlabels = ["a"]\n' + _SOURCE + "[event.labels]\na = 1\n",
        "event.labels.a: found 1; give text in quotes.",
    ),
    "catalogue of nothing": (
        'metrics = ["ctr"]\ncatalog = 0\n' + _SOURCE,
        "catalog: found 0; give a whole number of at least 1.",
    ),
    "catalogue of another kind": (
        'metrics = ["ctr"]\ncatalog = 1.5\n' + _SOURCE,
        "catalog: found 1.5; give a whole number or text in quotes.",
    ),
    "pace of nothing": (
        'metrics = ["ctr"]\n' + _SOURCE + "events_per_second = 0\n",
        "source.events_per_second: found 0; give a number above 0.",
    ),
    "longest list of nothing": (
        'metrics = ["ctr"]\n' + _SOURCE + "[event]\nmax_recommendations = 0\n",
        "event.max_recommendations: found 0; give a whole number of at least 1.",
    ),
    "date without quotes": (
        'metrics = ["ctr"]\n' + _KAFKA + "start = 2026-01-31T00:00:00Z\n",
        'source.start: found "2026-01-31T00:00:00Z"; give text in quotes.',
    ),
    "misspelt type of source": (
        'metrics = ["ctr"]\n[source]\ntype = "kafak"\n',
        (
            "source.type: found \"kafak\"; allowed are 'kafka', 'files', 'simulator'. "
            "Did you mean 'kafka'?"
        ),
    ),
    "unknown unit of time": (
        'metrics = ["ctr"]\n' + _SOURCE + '[event]\ntime = "ts"\ntime_unit = "minutes"\n',
        "event.time_unit: found \"minutes\"; allowed are 's', 'ms', 'us', 'iso8601'.",
    ),
    "time without unit": (
        'metrics = ["ctr"]\n' + _SOURCE + '[event]\ntime = "ts"\n',
        "event.time_unit: missing; time = 'ts' needs it: give 's', 'ms', 'us' or 'iso8601'.",
    ),
    "unit without time": (
        'metrics = ["ctr"]\n' + _SOURCE + '[event]\ntime_unit = "ms"\n',
        "event.time: missing; time_unit = 'ms' needs it: name the field.",
    ),
    "start at no time": (
        'metrics = ["ctr"]\n' + _KAFKA + 'start = "earlyest"\n',
        (
            "source.start: found 'earlyest'; give 'earliest', 'latest', or a time with offset "
            "like '2026-01-31T00:00:00Z'. Did you mean 'earliest'?"
        ),
    ),
    "start without offset": (
        'metrics = ["ctr"]\n' + _KAFKA + 'start = "2026-01-31T00:00:00"\n',
        (
            "source.start: found '2026-01-31T00:00:00'; give 'earliest', 'latest', or a time "
            "with offset like '2026-01-31T00:00:00Z'."
        ),
    ),
    "metric twice": (
        'metrics = ["ctr", "ndcg@10", "ndcg@10"]\n' + _SOURCE,
        "metrics[2]: 'ndcg@10' repeats metrics[1]; remove one.",
    ),
    "cut-off beyond the depth": (
        'metrics = ["ctr@5", "ndcg@10"]\ndepth = 5\n' + _SOURCE,
        (
            "metrics[1]: 'ndcg@10' needs rank 10, but depth = 5 keeps fewer ranks; raise it, or "
            "leave it out."
        ),
    ),
    "whole lists beyond the depth": (
        'metrics = ["ctr"]\ndepth = 5\n' + _SOURCE,
        (
            "metrics[0]: 'ctr' needs the whole list, but depth = 5 keeps fewer ranks; raise it, "
            "or leave it out."
        ),
    ),
    "coverage without a catalogue": (
        'metrics = ["ctr", "item_coverage@10"]\n' + _SOURCE,
        (
            "metrics[1]: 'item_coverage@10' needs a catalogue; add catalog = the number of "
            "items, or a file of their ids."
        ),
    ),
    "label twice": (
        'metrics = ["ctr"]\nlabels = ["a", "b", "a"]\n' + _SOURCE,
        "labels[2]: 'a' repeats labels[0]; remove one.",
    ),
    "label that Prometheus refuses": (
        'metrics = ["ctr"]\nlabels = ["a-b"]\n' + _SOURCE,
        (
            "labels[0]: 'a-b' is not a label name (letters, digits and _, not beginning with a "
            "digit); choose another name and map it under [event.labels]."
        ),
    ),
    "label with two underscores": (
        'metrics = ["ctr"]\nlabels = ["__a"]\n' + _SOURCE,
        (
            "labels[0]: '__a' begins with __, which Prometheus reserves; choose another "
            "name and map it under [event.labels]."
        ),
    ),
    "label that series have already": (
        'metrics = ["ctr"]\nlabels = ["a", "k"]\n' + _SOURCE,
        (
            "labels[1]: 'k' is reserved: streameval or Prometheus sets this label; choose "
            "another name and map it under [event.labels]."
        ),
    ),
    "label named like a parameter": (
        'metrics = ["ctr"]\nlabels = ["gain"]\n' + _SOURCE,
        (
            "labels[0]: 'gain' is a parameter of the metric 'dcg', written as a label; choose "
            "another name and map it under [event.labels]."
        ),
    ),
    "path of no label": (
        'metrics = ["ctr"]\nlabels = ["variant"]\n' + _SOURCE + '[event.labels]\nvarant = "v"\n',
        "event.labels.varant: not among `labels` ('variant'). Did you mean 'variant'?",
    ),
    "path that is none": (
        'metrics = ["ctr"]\n' + _SOURCE + '[event]\nuser = "a..b"\n',
        "event.user: 'a..b' is not a path; write it like 'items', 'payload.items' or 'items[].id'",
    ),
    "address without a port": (
        'metrics = ["ctr"]\n' + _SOURCE + '[web]\nlisten = "localhost"\n',
        (
            "web.listen: found 'localhost'; write HOST:PORT, for example '127.0.0.1:9877' or "
            "'[::1]:9877'."
        ),
    ),
    "port beyond all ports": (
        'metrics = ["ctr"]\n' + _SOURCE + '[web]\nlisten = "127.0.0.1:70000"\n',
        (
            "web.listen: found '127.0.0.1:70000'; write HOST:PORT, for example '127.0.0.1:9877' "
            "or '[::1]:9877'."
        ),
    ),
    "IPv6 without brackets": (
        'metrics = ["ctr"]\n' + _SOURCE + '[web]\nlisten = "::1:9877"\n',
        (
            "web.listen: found '::1:9877'; write HOST:PORT, for example '127.0.0.1:9877' or "
            "'[::1]:9877'."
        ),
    ),
    "text without quotes": (
        'metrics = ["ctr"]\n[source]\ntype = kafka\n',
        "line 3, column 8: this is not TOML: invalid value; put text in quotes.",
    ),
    "unfinished file": (
        'metrics = ["ctr",\n',
        "line 2, column 1: this is not TOML: invalid value; put text in quotes.",
    ),
    "Avro without a registry": (
        'metrics = ["ctr"]\n' + _KAFKA + '[event]\nformat = "avro"\n',
        "registry: missing; event.format = 'avro' needs it: give its url.",
    ),
    "Avro in files": (
        'metrics = ["ctr"]\n' + _SOURCE + '[event]\nformat = "avro"\n',
        "event.format: found 'avro'; only Kafka records can have this format; remove it.",
    ),
    "unknown format": (
        'metrics = ["ctr"]\n' + _KAFKA + '[event]\nformat = "thrift"\n',
        ("event.format: found \"thrift\"; allowed are 'json', 'avro', 'protobuf', 'json-schema'."),
    ),
    "registry for nothing": (
        'metrics = ["ctr"]\n' + _KAFKA + '[registry]\nurl = "http://registry:8081"\n',
        "registry: no stream has schemas; give event.format, for example 'avro', or leave it out.",
    ),
    "registry without its address": (
        'metrics = ["ctr"]\n' + _KAFKA + '[event]\nformat = "avro"\n[registry]\nuser = "u"\n',
        'registry.url: this key is missing; for example url = "http://registry:8081".',
    ),
    "registry without its scheme": (
        'metrics = ["ctr"]\n' + _KAFKA + '[event]\nformat = "avro"\n[registry]\nurl = "r:8081"\n',
        "registry.url: found 'r:8081'; it begins with http:// or https://.",
    ),
    "user of a registry without a password": (
        'metrics = ["ctr"]\n'
        + _KAFKA
        + '[event]\nformat = "avro"\n[registry]\nurl = "http://r"\nuser = "u"\n',
        "registry: give user and password together, or neither.",
    ),
    "table without its bracket": (
        'metrics = ["ctr"]\n[source\ntype = "files"\n',
        "line 2, column 8: this is not TOML: expected ']' at the end of a table declaration.",
    ),
}


_BEGIN = 'metrics = ["ctr"]\nlabels = ["variant"]\nsegments = ["country"]\n'
_TIME = '[event]\ntime = "ts"\ntime_unit = "s"\n'
_HOW = "give a whole number and s, m, h or d, for example '90s', '5m', '1h' or '7d'."

_BEHIND_THE_BEGINNING = {
    "duration with a word": (
        'max_ahead = "5 min"\n',
        f"max_ahead: found '5 min'; {_HOW} Did you mean '5m'?",
    ),
    "duration of nothing": (
        'labels_idle = "0s"\n',
        "labels_idle: found '0s'; at least 1s is needed.",
    ),
    "duration without end": (
        'labels_idle = "999999d"\n',
        "labels_idle: found '999999d'; that is more than a hundred years.",
    ),
    "number for a duration": (
        "labels_idle = 90\n",
        "labels_idle: found 90; give text in quotes.",
    ),
    "window that is no duration": (
        f'{_SOURCE}{_TIME}[windows]\nspans = ["5m", "one hour"]\n',
        f"windows.spans[1]: found 'one hour'; {_HOW}",
    ),
    "window twice": (
        f'{_SOURCE}{_TIME}[windows]\nspans = ["60m", "1h"]\n',
        "windows.spans[1]: '1h' repeats windows.spans[0]; remove one.",
    ),
    "window between panes": (
        f'{_SOURCE}{_TIME}[windows]\nspans = ["90s"]\n',
        "windows.spans[0]: '90s' is not a multiple of the pane, '1m'.",
    ),
    "long window between hours": (
        f'{_SOURCE}{_TIME}[windows]\nspans = ["2h", "150m"]\n',
        "windows.spans[1]: '150m': above 2h, where hours are kept, give a multiple of 1h.",
    ),
    "pane that does not divide an hour": (
        f'{_SOURCE}{_TIME}[windows]\nspans = ["7m"]\npane = "7m"\n',
        (
            "windows.pane: found '7m'; it must divide an hour, like '10s', '1m', '5m', '15m' or "
            "'1h'."
        ),
    ),
    "windows of a stream without time": (
        f'{_SOURCE}[windows]\nspans = ["5m"]\n',
        "windows: windows need event time; name its field in event.time.",
    ),
    "no spans": (
        f"{_SOURCE}{_TIME}[windows]\n",
        'windows.spans: this key is missing; for example spans = ["5m", "1h", "24h"].',
    ),
    "misspelt key of windows": (
        f'{_SOURCE}{_TIME}[windows]\nspans = ["5m"]\nlatenes = "1m"\n',
        (
            "windows.latenes: unknown key. Did you mean 'lateness'? Allowed here: spans, "
            "lateness, pane."
        ),
    ),
    "duplicates without identity": (
        f'dedup = "10m"\n{_SOURCE}{_TIME}',
        "event.event_id: missing; dedup = '10m' needs it: name the field of the event's identity.",
    ),
    "duplicates without time": (
        f'dedup = "10m"\n{_SOURCE}[event]\nevent_id = "id"\n',
        "event.time: missing; dedup = '10m' needs it: name the field of event time.",
    ),
    "segment that is a label": (
        'metrics = ["ctr"]\nlabels = ["variant"]\nsegments = ["variant"]\n',
        "segments[0]: 'variant' repeats labels[0]; remove one.",
    ),
    "segment called labels": (
        'metrics = ["ctr"]\nsegments = ["labels"]\n',
        (
            "segments[0]: 'labels' is reserved for the series without a segment; choose "
            "another name and map it under [event.labels]."
        ),
    ),
    "values of no dimension": (
        'label_values = { contry = ["nl"] }\n',
        (
            "label_values.contry: not among `labels` and `segments` ('variant', 'country'). "
            "Did you mean 'country'?"
        ),
    ),
    "cap of nothing": ("label_cap = 0\n", "label_cap: found 0; give a whole number of at least 1."),
    "metric in both places": (
        f'{_SOURCE}[[metric]]\nname = "ctr"\n',
        "metric[0].name: 'ctr' repeats metrics[0]; remove one.",
    ),
    "metric without a name": (
        f"{_SOURCE}[[metric]]\nlabels = []\n",
        'metric[0].name: this key is missing; for example name = "item_coverage@10".',
    ),
    "misspelt key of a metric": (
        f'{_SOURCE}[[metric]]\nname = "mrr"\nlables = []\n',
        (
            "metric[0].lables: unknown key. Did you mean 'labels'? Allowed here: name, labels, "
            "windows, segments."
        ),
    ),
    "metric by an unknown label": (
        f'{_SOURCE}[[metric]]\nname = "mrr"\nlabels = ["varant"]\n',
        (
            "metric[0].labels[0]: 'varant' is not among `labels` ('variant'). Did you mean "
            "'variant'?"
        ),
    ),
    "metric by an unknown segment": (
        f'{_SOURCE}[[metric]]\nname = "mrr"\nsegments = ["x"]\n',
        "metric[0].segments[0]: 'x' is not among `segments` ('country').",
    ),
    "metric in an unknown window": (
        f'{_SOURCE}{_TIME}[windows]\nspans = ["5m"]\n[[metric]]\nname = "mrr"\nwindows = ["1h"]\n',
        "metric[0].windows[0]: '1h' is not among [windows] spans ('5m').",
    ),
    "state without a path": (
        f"{_SOURCE}[state]\n",
        'state.path: this key is missing; for example path = "state".',
    ),
    "policy that is none": (
        f'{_SOURCE}[state]\npath = "state"\non_retention = "skp"\n',
        "state.on_retention: found \"skp\"; allowed are 'fail', 'skip'. Did you mean 'skip'?",
    ),
    "state in something else": (
        f'{_SOURCE}[state]\npath = "https://bucket/prefix"\n',
        (
            "state.path: found 'https://bucket/prefix'; https:// is not known: give a folder, or "
            "s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or az://CONTAINER/PREFIX."
        ),
    ),
    "state without a bucket": (
        f'{_SOURCE}[state]\npath = "s3:///prefix"\n',
        (
            "state.path: found 's3:///prefix'; that is no bucket and prefix: give a folder, or "
            "s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or az://CONTAINER/PREFIX."
        ),
    ),
    "state below a prefix that is none": (
        f'{_SOURCE}[state]\npath = "s3://bucket/a//b"\n',
        (
            "state.path: found 's3://bucket/a//b'; its prefix has an empty part, '.' or '..': give "
            "a folder, or s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or az://CONTAINER/PREFIX."
        ),
    ),
    "endpoint of a folder": (
        f'{_SOURCE}[state]\npath = "state"\nendpoint = "https://minio:9000"\n',
        "state.endpoint: only object storage has one, and path is the folder 'state'.",
    ),
    "region of Google": (
        f'{_SOURCE}[state]\npath = "gs://bucket"\nregion = "eu-west-1"\n',
        "state.region: only s3:// has one, and path is 'gs://bucket'.",
    ),
    "endpoint without TLS": (
        f'{_SOURCE}[state]\npath = "s3://bucket"\nendpoint = "http://minio:9000"\n',
        "state.endpoint: http:// has no TLS; give https://, or set allow_http = true.",
    ),
    "endpoint that is none": (
        f'{_SOURCE}[state]\npath = "s3://bucket"\nendpoint = "minio:9000"\n',
        "state.endpoint: found 'minio:9000'; give a URL, https://HOST:PORT.",
    ),
    "dead letters in a bucket": (
        f'{_SOURCE}[dead_letters]\npath = "s3://bucket/letters"\n',
        "dead_letters.path: found 's3://bucket/letters'; give a file here, or a topic.",
    ),
    "dead letters nowhere": (
        f"{_SOURCE}[dead_letters]\n",
        "dead_letters: the source is not a Kafka cluster; give path = a file.",
    ),
    "dead letters in two places": (
        f'{_SOURCE}[dead_letters]\ntopic = "t"\npath = "p"\n',
        "dead_letters: give either topic or path, not both.",
    ),
    "dead letters without a cluster": (
        f'{_SOURCE}[dead_letters]\ntopic = "t"\n',
        "dead_letters.topic: the source is not a Kafka cluster; give path = a file.",
    ),
    "dead letters where they came from": (
        '[source]\ntype = "kafka"\ntopics = ["t"]\n[dead_letters]\ntopic = "t"\n',
        "dead_letters.topic: 't' is a topic of [source]; give another.",
    ),
    "unknown key of popularity": (
        f'{_SOURCE}[popularity]\npath = "p"\nuser = 1\n',
        "popularity.user: unknown key. Did you mean 'users'? Allowed here: path, users.",
    ),
}


def _completed(text: str) -> str:
    """With what every configuration has."""
    begin = "" if text.startswith("metrics") else _BEGIN
    return begin + text + ("" if "[source]" in text else _SOURCE)


MISTAKES |= {
    slip: (_completed(text), sentence) for slip, (text, sentence) in _BEHIND_THE_BEGINNING.items()
}


@every_case("slip", MISTAKES)
def test_a_slip_is_answered_with_one_sentence(slip: str, tmp_path: Path) -> None:
    text, sentence = MISTAKES[slip]
    file = tmp_path / "streameval.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load(file)
    assert str(caught.value) == f"{file}: {sentence}"
    assert caught.value.path == str(file)


@every_case("text", ["ndcg@0", "ndcg@-1", "@10", "ndcg(gain=square)@10", "un:ctr"])
def test_a_metric_that_cannot_be_is_answered_as_everywhere(tmp_path: Path, text: str) -> None:
    file = tmp_path / "streameval.toml"
    file.write_text(f'metrics = ["ctr", "{text}"]\n{_SOURCE}', encoding="utf-8")
    with pytest.raises(MetricError) as elsewhere:
        parse(text)
    with pytest.raises(ConfigError) as caught:
        load(file)
    assert str(caught.value) == f"{file}: metrics[1]: {elsewhere.value}"


def test_an_unknown_metric_comes_with_the_nearest_names(tmp_path: Path) -> None:
    file = tmp_path / "streameval.toml"
    file.write_text('metrics = ["ctr", "ndgc@10"]\n' + _SOURCE, encoding="utf-8")
    with pytest.raises(ConfigError, match=r"Did you mean 'ndcg'") as caught:
        load(file)
    assert caught.value.key == "metrics[1]"


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"absent\.toml: no such file or directory; check"):
        load(tmp_path / "absent.toml")


def test_a_folder_is_no_configuration(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is a directory"):
        load(tmp_path)


def test_text_in_another_encoding_is_refused_at_its_byte(tmp_path: Path) -> None:
    file = tmp_path / "streameval.toml"
    file.write_bytes(b"# caf\xe9\n")
    with pytest.raises(ConfigError, match="byte 5 is not UTF-8"):
        load(file)
