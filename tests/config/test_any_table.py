"""Loading any file gives a configuration or one sentence."""

from __future__ import annotations

import json
import operator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from streameval.config import Config, load
from streameval.config.options import DeadLetterOptions, MetricOptions, StateOptions, WindowsOptions
from streameval.decoding.fields import EventFields
from streameval.errors import ConfigError
from streameval.sources.options import FilesOptions, KafkaOptions, SimulatorOptions
from tests.effort import rare

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
        return f"{{{', '.join(f'{_toml(key)} = {_toml(each)}' for key, each in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return str(value) if isinstance(value, float) else json.dumps(value, ensure_ascii=False)


def _answer(file: Path) -> Config | ConfigError:
    try:
        return load(file)
    except ConfigError as error:
        return error


@rare()
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
