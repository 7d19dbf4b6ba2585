"""Slips about windows, labels, segments, state and dead letters, each with its sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from streameval.config import load
from streameval.errors import ConfigError

_BEGIN = 'metrics = ["ctr"]\nlabels = ["variant"]\nsegments = ["country"]\n'
_SOURCE = '[source]\ntype = "simulator"\n'
_TIME = '[event]\ntime = "ts"\ntime_unit = "s"\n'
_HOW = "give a whole number and s, m, h or d, for example '90s', '5m', '1h' or '7d'."

MISTAKES = {
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
        "windows.spans[1]: '1h' is windows.spans[0] again; remove one.",
    ),
    "window between panes": (
        f'{_SOURCE}{_TIME}[windows]\nspans = ["90s"]\n',
        "windows.spans[0]: '90s' is no multiple of the pane, '1m'.",
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
        "windows: windows are of event time, and no field holds it; name it in event.time.",
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
        "event.event_id: missing beside dedup = '10m'; name the field of the event's identity.",
    ),
    "duplicates without time": (
        f'dedup = "10m"\n{_SOURCE}[event]\nevent_id = "id"\n',
        "event.time: missing beside dedup = '10m'; name the field of event time.",
    ),
    "segment that is a label": (
        'metrics = ["ctr"]\nlabels = ["variant"]\nsegments = ["variant"]\n',
        "segments[0]: 'variant' is labels[0] again; remove one.",
    ),
    "segment called labels": (
        'metrics = ["ctr"]\nsegments = ["labels"]\n',
        (
            "segments[0]: 'labels' is what streameval calls the series without a segment; choose "
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
        "metric[0].name: 'ctr' is metrics[0] again; remove one.",
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
    "dead letters nowhere": (
        f"{_SOURCE}[dead_letters]\n",
        "dead_letters: the source is no Kafka cluster; give path = a file.",
    ),
    "dead letters in two places": (
        f'{_SOURCE}[dead_letters]\ntopic = "t"\npath = "p"\n',
        "dead_letters: give either topic or path, not both.",
    ),
    "dead letters without a cluster": (
        f'{_SOURCE}[dead_letters]\ntopic = "t"\n',
        "dead_letters.topic: the source is no Kafka cluster; give path = a file.",
    ),
    "dead letters where they came from": (
        '[source]\ntype = "kafka"\ntopics = ["t"]\n[dead_letters]\ntopic = "t"\n',
        "dead_letters.topic: 't' is read by [source] itself; give another.",
    ),
    "unknown key of popularity": (
        f'{_SOURCE}[popularity]\npath = "p"\nuser = 1\n',
        "popularity.user: unknown key. Did you mean 'users'? Allowed here: path, users.",
    ),
}


@pytest.mark.parametrize("slip", MISTAKES)
def test_a_slip_is_answered_with_one_sentence(slip: str, tmp_path: Path) -> None:
    text, sentence = MISTAKES[slip]
    begin = "" if text.startswith("metrics") else _BEGIN
    source = "" if "[source]" in text else _SOURCE
    file = tmp_path / "streameval.toml"
    file.write_text(begin + text + source, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load(file)
    assert str(caught.value) == f"{file}: {sentence}"
