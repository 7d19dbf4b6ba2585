"""Checkpoints that are not what was written, by accident or on purpose: loaded, or refused."""

from __future__ import annotations

import json
import math
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec
from hypothesis import strategies as st

from streameval.checkpoints.format import (
    SEAL,
    CheckpointDraft,
    Header,
    Part,
    Shard,
    digest_of,
    to_json,
)
from streameval.checkpoints.store import Store, folder_store
from streameval.cli import check
from streameval.config import Config
from streameval.config.config import schema
from streameval.config.pipeline import new_ingest
from streameval.config.states import StoredCheckpoint, restore
from streameval.config.store_reader import StoreReader
from streameval.config.tables import StateOptions
from streameval.engine.capture import ingest_snapshot
from streameval.engine.ingest import Ingest
from streameval.evaluation.shell.reading_tables import tables
from streameval.evaluation.shell.terminal import draw_text
from streameval.events.errors import StreamevalError
from streameval.events.records import Partition, RecordBatch
from tests.batches import batch_of
from tests.cli.program import run
from tests.crashes.simulated_disk import SimulatedDisk
from tests.decoding.records import anything
from tests.fuzz import configurations
from tests.stores.drafts import header

Edit: TypeAlias = tuple[int, int, bytes]
"""Where, how many bytes are cut out, and what is put there."""

Change: TypeAlias = tuple[
    Literal["bytes", "sealed", "directory", "record", "part", "value"],
    int,
    Sequence[Edit],
    int,
    Any,
]
"""What is changed, which of them, and how: bytes, or a value inside.

All but "bytes" keep the digests right, as whoever forges a state does.
"""

_STORE = Path("/disk/state")
_RECORDS = 10


def changes() -> st.SearchStrategy[Change]:
    """Of bytes of a file, with and without its digest; of values in its directory and its parts."""
    edit = st.tuples(st.integers(0, 2**24), st.integers(0, 8), st.binary(max_size=8))
    kinds = st.sampled_from(["bytes", "sealed", "directory", "record", "part", "value", "value"])
    odd = anything | st.sampled_from(
        [-1, 2**31, -(2**62), 2**63, 2**64 - 1, 1e300, math.nan, b"", b"\xff" * 8, [], {}, "", "x"]
    )
    return st.tuples(
        kinds, st.integers(0, 999), st.lists(edit, min_size=1, max_size=3), st.integers(0), odd
    )


class _Saved(NamedTuple):
    """What a pipeline had counted, and the disk with its checkpoints."""

    config: Config
    home: Partition
    shard: Shard
    offsets: Mapping[Partition, int]
    parts: Mapping[str, bytes]
    files: Mapping[Path, bytes]
    disk: SimulatedDisk
    header: Header


@contextmanager
def checkpoints() -> Iterator[Callable[[Change], None]]:
    """Reads stores, goes on from states, and lets commands read them."""
    with tempfile.TemporaryDirectory() as folder:
        configs = [*configurations.plain(Path(folder)), *configurations.joined(Path(folder))]
        saved = [_save(config) for config in configs]
        yield lambda change: _tried(saved[change[1] % len(saved)], change, Path(folder))


def _tried(saved: _Saved, change: Change, folder: Path) -> None:
    kind, number, edits, where, value = change
    if kind in {"part", "value"}:
        name = sorted(saved.parts)[number // 7 % len(saved.parts)]
        content = saved.parts[name]
        changed = _edited(content, edits) if kind == "part" else _replaced(content, where, value)
        parts = {**saved.parts, name: changed}
        _resumed(saved, parts)
        _commanded(saved, _stored(saved, parts), folder, number)
        return
    path = sorted(saved.files)[number // 7 % len(saved.files)]
    if kind in {"directory", "record"}:
        path = max(path for path in saved.files if path.suffix == ".round")
    content = saved.files[path]
    if kind == "bytes":
        changed = _edited(content, edits)
    elif kind == "sealed":
        start = max(content.rfind(b'{"version":4'), 0)
        end = _edited(content[start:-SEAL], edits)
        changed = content[:start] + end + digest_of(end).encode() + b"\n"
    else:
        changed = _forged(content, kind == "record", where, value)
    saved.disk.overwrite(path, changed)
    _read(saved)
    _commanded(saved, saved.disk, folder, number)
    saved.disk.overwrite(path, content)


def _stored(saved: _Saved, parts: Mapping[str, bytes]) -> SimulatedDisk:
    """A disk with a store of these parts, with the right digests."""
    disk = SimulatedDisk(_STORE.parent)
    store = folder_store(_STORE, disk)
    store.claim("c", "g")
    content = {name: partial(iter, [of_part]) for name, of_part in parts.items()}
    drafted = [Part(name=name, content=of_part) for name, of_part in sorted(content.items())]
    store.save([CheckpointDraft(header=saved.header, parts=drafted)])
    return disk


def _commanded(saved: _Saved, disk: SimulatedDisk, folder: Path, number: int) -> None:
    """Let one of the commands that read states read this one: it ends with a status."""
    path, into = folder / "state", folder / "merged"
    for old in (path, into):
        shutil.rmtree(old, ignore_errors=True)
    for file in disk.files():
        copy = path / file.relative_to(_STORE)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(disk.read(file, 0, disk.size(file)))
    reads: list[Callable[[], object]] = [
        lambda: _run("state", "show", path),
        lambda: _run("state", "show", path, "--format", "json"),
        lambda: _run("state", "verify", path),
        lambda: _run("state", "export", path, "--format", "table"),
        lambda: _run("state", "merge", path, path, "--into", into),
        lambda: _run("compare", path),
        lambda: _run("changes", path),
        lambda: _checked(saved.config, path),
        lambda: _served(saved.config, path),
    ]
    with suppress(StreamevalError):
        reads[number % len(reads)]()


def _run(*arguments: str | Path) -> None:
    done = run(*arguments)
    assert done.returncode in {0, 1, 2}, done
    assert "Traceback" not in done.stderr, done.stderr


def _checked(config: Config, path: Path) -> None:
    """What `check --connect` reads."""
    options = StateOptions(path=str(path))
    check._check_state(config, options, "g")


def _served(config: Config, path: Path) -> None:
    """What `serve` reads."""
    reader = StoreReader(folder_store(path), config)
    reader.refresh()
    reader.copied()
    reader.stored({})


def _resumed(saved: _Saved, parts: Mapping[str, bytes]) -> None:
    ingest = new_ingest(saved.config)
    with suppress(StreamevalError):
        ingest.restore(saved.home, saved.offsets, parts)
        _shown(saved.config, ingest)


def _shown(config: Config, ingest: Ingest) -> None:
    """All that is read of a restored state: values, verdicts, and what is saved again."""
    snapshot = ingest_snapshot(ingest, labels=config.series_labels(), now=0.0)
    draw_text(*tables(snapshot))
    for partition in ingest.partitions:
        for section in ingest.sections(partition):
            b"".join(section.content()())


def _read(saved: _Saved) -> None:
    """All that a start and `streameval state` read of a store."""
    store = folder_store(_STORE, saved.disk)
    reads: list[Callable[[], object]] = [
        store.shards,
        store.last,
        partial(store.claim, "c", "g"),
        partial(_problem, store, saved),
        partial(_exported, store),
    ]
    for read in reads:
        with suppress(StreamevalError):
            read()


def _problem(store: Store, saved: _Saved) -> None:
    checkpoint = store.newest(saved.shard).saved
    if checkpoint is not None:
        _resumed(saved, {name: checkpoint.read(name) for name in sorted(checkpoint.digests)})


def _exported(store: Store) -> None:
    """What `state show` and `state export` read, by the schema of the state itself."""
    claim = store.identity()
    checkpoints = []
    for shard in store.shards():
        newest = store.newest(shard).saved
        if newest is not None:
            checkpoints.append(StoredCheckpoint(store.path, shard, newest))
    assert claim.cluster
    if checkpoints:
        config, ingest = restore(checkpoints, None, lambda _: None)
        _shown(config, ingest)


def _forged(content: bytes, in_record: bool, where: int, value: Any) -> bytes:  # noqa: FBT001  which of two
    """A round with another value in its directory or record, and the right digests."""
    start = int(content[-SEAL - 21 : -SEAL - 1])
    line, body = content[start : -SEAL - 21], content[:start]
    if in_record:
        output = json.loads(line)
        (region,) = output["places"]
        at = region["start"] + region["size"] - region["record"]
        record = _replaced(content[at:start], where, value, msgspec.json)
        region |= {"record": len(record), "digest": digest_of(record)}
        region["size"] = at + len(record) - region["start"]
        body, line = content[:at] + record, to_json(output)
    else:
        line = _replaced(line, where, value, msgspec.json)
    end = line + b"\n" + b"%020d " % len(body)
    return body + end + digest_of(end).encode() + b"\n"


def _edited(content: bytes, edits: Sequence[Edit]) -> bytes:
    for where, cut, put in edits:
        start = where % (len(content) + 1)
        content = content[:start] + put + content[start + cut :]
    return content


def _replaced(content: bytes, where: int, value: Any, codec: Any = msgspec.msgpack) -> bytes:
    """The bytes with another value instead of one inside, or without it."""
    try:
        total = [codec.decode(content)]
    except msgspec.DecodeError:
        return content[: where % (len(content) + 1)]
    entries = list(_entries(total))
    container, key = entries[where % len(entries)]
    if where % 5 or container is total:
        container[key] = value
    else:
        del container[key]
    try:
        return bytes(codec.encode(total[0]))
    except (msgspec.MsgspecError, OverflowError, TypeError, UnicodeEncodeError):
        return b""


def _entries(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every container inside, with each of its keys."""
    if isinstance(value, dict | list):
        for key in [*value] if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from _entries(value[key])


def _save(config: Config) -> _Saved:
    """A store with two checkpoints of a pipeline."""
    topics = config.source.logs[:1]
    if config.attribution is not None:
        topics = [topic for stream in config.attribution.streams for topic in stream]
    logs = [Partition(topic, 0) for topic in topics]
    ingest, home = new_ingest(config), logs[0]
    ingest.begin(home, dict.fromkeys(logs, 0))
    disk = SimulatedDisk(_STORE.parent)
    store = folder_store(_STORE, disk)
    store.claim("c", "g")
    shard = Shard(home.topic, "id", 0)
    for start in (0, _RECORDS):
        for log in logs:
            ingest.apply(_batch(log, start))
        store.save([_draft(config, ingest.positions, shard, ingest.sections(home))])
    parts = {section.name: b"".join(section.content()()) for section in ingest.sections(home)}
    files = {path: disk.read(path, 0, disk.size(path)) for path in disk.files()}
    saved = store.newest(shard).saved
    assert saved is not None
    return _Saved(config, home, shard, ingest.positions, parts, files, disk, saved.header)


def _draft(
    config: Config, positions: Mapping[Partition, int], shard: Shard, sections: Sequence[Any]
) -> CheckpointDraft:
    offset = sum(positions.values())
    offsets = {str(log): position for log, position in positions.items()}
    parts = [Part(name=section.name, content=section.content()) for section in sections]
    names: dict[str, Any] = {"cluster": "c", "group": "g", "offsets": offsets}
    names |= {"settings": config.settings(), "schema": schema(config)}
    return CheckpointDraft(
        header=header(shard, offset, written_at=float(offset), **names), parts=parts
    )


def _batch(log: Partition, start: int) -> RecordBatch:
    numbers = range(start, start + _RECORDS)
    return batch_of(log, [json.dumps(_record(number)).encode() for number in numbers], start)


def _record(number: int) -> dict[str, Any]:
    """One for every configuration: an event, a list, and something done with a list."""
    items = [f"{(number + rank) % 5}" for rank in range(3)]
    moment = f"2026-01-01T00:{number // 10:02}:{number % 10:02}Z"
    return {
        "ts": 1_767_225_600 + 40 * number,
        "at": moment,
        "request_id": f"r{number // 2}",
        "user": f"u{number % 4}",
        "variant": "abcd"[number % 4],
        "campaign": "xy"[number % 2],
        "recommendations": [{"id": item, "score": 1 / (1 + number)} for item in items],
        "interactions": [{"id": items[number % 3], "gain": number % 3, "type": "purchase"}],
        "payload": {"items": [{"id": item} for item in items], "clicks": items[:1]},
        "item": items[0],
        "event_id": f"e{number}",
        "gain": 1.5,
        "type": "click",
    }
