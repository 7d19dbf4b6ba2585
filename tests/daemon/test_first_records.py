"""A configuration that names what no record has: the daemon and `check` say so."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from streameval.config import Config, load
from streameval.config.field_check import FieldCheck, streams_of
from streameval.decoding.invalid import InvalidEvent
from streameval.engine.first_records import FIRST, REFUSED, FirstRecords
from streameval.events.records import Partition, RecordBatch
from tests.batches import batch_of
from tests.cli.program import json_lines, printed, run, write_file
from tests.daemon.running import running

EVENTS = [
    {
        "recommendations": ["a", "b"],
        "interactions": ["a"] if number % 3 else [],
        "variant": "control" if number % 2 else "treatment",
        "user_id": f"u{number}",
        "device": {"country": "de"},
    }
    for number in range(400)
]
CONFIG = """
metrics = ["ctr"]
labels = ["{label}"]
segments = ["country"]
intervals = {{ confidence = 0.95 }}
experiment = {{ label = "{label}", control = "{control}" }}
event = {{ user = "{user}", labels = {{ country = "device.country" }} }}
source = {{ type = "files", paths = ["events.ndjson"] }}
web = {{ listen = "127.0.0.1:0" }}
"""
LABEL = (
    "labels.varient: none of the first 100 valid records has the field 'varient'. "
    "Did you mean 'variant'? They have "
)
USER = "event.user: none of the first 100 valid records has the field 'user'. "
CONTROL = (
    "experiment.control: none of the first 100 valid records has variant = 'contrl'. "
    "Did you mean 'control'? Their values are control (50), treatment (50)."
)


def _config(folder: Path, *, label: str, control: str, user: str = "user_id") -> Path:
    json_lines(folder / "events.ndjson", EVENTS)
    text = CONFIG.format(label=label, control=control, user=user)
    return write_file(folder / "streameval.toml", text)


@pytest.mark.parametrize(
    ("names", "sentences", "keys"),
    [
        (
            {"label": "varient", "control": "control", "user": "user"},
            (LABEL, USER),
            {"labels.varient", "event.user"},
        ),
        ({"label": "variant", "control": "contrl"}, (CONTROL,), {"experiment.control"}),
    ],
)
def test_the_daemon_names_what_no_record_has(
    tmp_path: Path, names: dict[str, str], sentences: tuple[str, ...], keys: set[str]
) -> None:
    config = _config(tmp_path, **names)
    with running(config, tmp_path) as daemon:
        daemon.consumed(len(EVENTS))
        (line,) = daemon.until(lambda: daemon.logged("advice"))
        answer = daemon.get("/-/ready")
        assert answer.status_code == 200
        assert set(daemon.document()["health"]["unmatched"]) == keys
        experiment = daemon.document()["experiment"]
        page, metrics = daemon.get("/").text, daemon.get("/metrics").text
    for sentence in sentences:
        assert sentence in line
        assert sentence in answer.text
        assert sentence.split(".")[1].split(":")[0] in page
    # A misspelt control is no sample-ratio mismatch.
    problems = experiment["checks"]["trouble"] if experiment else []
    assert not any("not split as planned" in problem for problem in problems)
    for key in keys:
        assert f'streameval_config_unmatched{{key="{key}"}} 1.0' in metrics
    checked = run("check", config, "--connect")
    assert checked.returncode == 1
    assert {line.split(": ")[1] for line in checked.stderr.splitlines()} == keys


def test_check_prints_every_field_with_an_example(tmp_path: Path) -> None:
    config = _config(tmp_path, label="variant", control="control")
    text = printed("check", config)
    assert (
        'found      event.recommendations: recommendations in 100 of 100, for example ["a", ...]'
        in text
    )
    assert "labels.variant: variant in 100 of 100, control (50), treatment (50)" in text
    assert "segments.country" not in text
    assert "event.labels.country: device.country in 100 of 100, de (100)" in text
    assert "experiment.control: variant = control in 50 of 100" in text
    assert "advice" not in text


def test_check_reads_no_pipe(tmp_path: Path) -> None:
    config = _config(tmp_path, label="variant", control="control")
    (tmp_path / "events.ndjson").unlink()
    os.mkfifo(tmp_path / "events.ndjson")
    reader = os.open(tmp_path / "events.ndjson", os.O_RDONLY | os.O_NONBLOCK)
    with (tmp_path / "events.ndjson").open("wb") as writer:
        writer.write(b"{}")
        writer.flush()
        assert "found" not in printed("check", config)
        assert os.read(reader, 10) == b"{}"
    os.close(reader)


def _batch(*events: object) -> RecordBatch:
    values = [json.dumps(event).encode() for event in events]
    return RecordBatch(
        partition=Partition("t", 0), values=values, offsets=range(len(values)), next_offset=0
    )


def _check(folder: Path) -> tuple[FieldCheck, FirstRecords]:
    config: Config = load(_config(folder, label="variant", control="control"))
    return FieldCheck(config), FirstRecords(streams_of(config))


def test_a_name_that_comes_later_ends_the_advice(tmp_path: Path) -> None:
    check, first = _check(tmp_path)
    anonymous = {key: value for key, value in EVENTS[0].items() if key != "user_id"}
    both = [anonymous, anonymous | {"variant": "control"}]
    first.add(_batch(*both * (FIRST // 2 - 1)), [])
    assert not check.observe(first, 0)
    first.add(_batch(*both), [])
    assert [entry.key for entry in check.observe(first, 0)] == ["event.user"]
    first.add(_batch(EVENTS[0]), [])
    assert not check.observe(first, 0)
    first.add(_batch(*EVENTS), [])
    assert not first.take()[0].valid


def test_a_name_that_no_record_of_a_later_hour_has_is_reported(tmp_path: Path) -> None:
    check, first = _check(tmp_path)
    first.add(_batch(*EVENTS), [])
    told = [check.observe(first, 0)]
    treated = {key: value for key, value in EVENTS[0].items() if key != "user_id"}
    for second in range(1, 3_602):
        first.add(_batch(treated, treated), [])
        told.append(check.observe(first, second))
    assert not any(told[:-2])
    absent = told[-1]
    assert {entry.key for entry in absent} == {"event.user", "experiment.control"}
    assert absent[0].text.startswith("event.user: none of 119 valid records of an hour has")
    first.add(_batch(*EVENTS[1:2]), [])
    assert not check.observe(first, 3_602)


@pytest.mark.parametrize(
    ("wrapped", "hint"),
    [
        (lambda event: event, "They have 'payload.recommendations'."),
        (json.dumps, "Their field 'payload' is text that holds JSON; write it as an object."),
    ],
)
def test_fields_in_an_envelope_are_found(
    tmp_path: Path, wrapped: Callable[[object], object], hint: str
) -> None:
    check, first = _check(tmp_path)
    batch = _batch(*({"payload": wrapped(event)} for event in EVENTS[:20]))
    first.add(batch, [(row, InvalidEvent("missing_field", "")) for row in range(20)])
    texts = [entry.text for entry in check.observe(first, 0)]
    assert texts[0].startswith("event.recommendations: none of the first 20 records, which are")
    assert texts[0].endswith(hint)


def test_check_names_the_fields_of_a_join_and_the_keys_on_both_sides(tmp_path: Path) -> None:
    shown = [event | {"request_id": f"r{at}", "ts": 10**12 + at} for at, event in enumerate(EVENTS)]
    clicks = [
        {"rid": f"r{at}", "item": "a", "ts": 10**12 + at, "type": kind}
        for at, kind in enumerate(["click", "order", "view"] * 10)
    ]
    json_lines(tmp_path / "shown.ndjson", shown)
    json_lines(tmp_path / "clicks.ndjson", clicks)
    config = """
metrics = ["ctr"]
event = { time = "ts", time_unit = "ms" }
source = { type = "files", paths = ["shown.ndjson", "clicks.ndjson"] }
web = { listen = "127.0.0.1:0" }
[attribution]
impressions = "shown.ndjson"
[[attribution.interactions]]
source = "clicks.ndjson"
request_id = "%s"
types = { clik = 1, order = 10 }
ignore = ["view"]
"""
    key = "attribution.interactions[0].request_id"
    right = write_file(tmp_path / "right.toml", config % "rid")
    checked = printed("check", right)
    assert f"{key}: 30 of 30 are in the sample of impressions" in checked
    assert "interactions[0].type: not in types, so not counted: 'click'\n" in checked
    wrong = run("check", write_file(tmp_path / "wrong.toml", config % "request_id"), "--connect")
    assert wrong.returncode == 1
    absent = f"{key}: none of 20 invalid records has the field 'request_id'."
    assert f"{absent} They have item, rid, ts, type." in wrong.stderr


def test_of_a_stream_that_has_only_invalid_records_the_first_are_collected() -> None:
    records, values = FirstRecords({}), [b"{}"] * REFUSED
    invalid = [(row, InvalidEvent("missing_field", "user")) for row in range(REFUSED)]
    for start in range(0, 10 * REFUSED, REFUSED):
        records.add(batch_of(Partition("events", 0), values, start), invalid)
    (taken,) = records.take()
    assert (taken.refused, taken.valid) == (values, [])
