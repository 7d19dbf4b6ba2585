"""A state that somebody else may have written, with the parts and the header that they want."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from streameval.checkpoints.format import (
    SEAL,
    CheckpointDraft,
    Part,
    Shard,
    digest_of,
    to_json,
)
from streameval.checkpoints.store import folder_store
from streameval.config import Config
from streameval.config.config import schema
from streameval.config.pipeline import new_ingest
from streameval.events.records import Partition
from tests.batches import batch_of
from tests.stores.drafts import NOON, header_of

LOG = Partition("events", 0)
HOME = Shard("events", "id", 0)

Parts = Mapping[str, bytes]


def events(count: int = 400, days: int = 4) -> list[dict[str, Any]]:
    """Lists of two variants over some days, with hits."""
    return [
        {
            "ts": 1_767_225_600 + number * days * 86_400 // count,
            "user": f"u{number % 97}",
            "variant": ("control", "new")[number % 97 % 2],
            "country": ("AT", "CH")[number % 2],
            "recommendations": [f"i{number % 5}", f"i{number % 7}x", "z"],
            "interactions": [f"i{number % 5}"] if number % 3 else [],
        }
        for number in range(count)
    ]


def write_state(
    path: Path,
    config: Config,
    records: Sequence[Mapping[str, Any]],
    *,
    parts: Callable[[dict[str, bytes]], Parts] = lambda parts: parts,
    **header: Any,
) -> Path:
    """A store whose digests are right, with what `config` counted of the records.

    `parts`: changes the parts. `header`: fields of the header that differ.
    """
    ingest = new_ingest(config)
    ingest.begin(LOG, {LOG: 0})
    ingest.apply(batch_of(LOG, [json.dumps(record).encode() for record in records], 0))
    made = {section.name: b"".join(section.content()()) for section in ingest.sections(LOG)}
    usual: dict[str, Any] = {
        "release": "1",
        "cluster": "c1",
        "group": "g1",
        "shard": HOME,
        "offset": len(records),
        "clock": ingest.clock,
        "settings": config.settings(),
        "written_at": NOON,
        "schema": schema(config),
    }
    store = folder_store(path)
    store.claim("c1", "g1")
    drafted = [
        Part(name=name, content=lambda content=content: iter([content]))  # type: ignore[misc]  # mypy knows no default of a lambda
        for name, content in sorted(parts(made).items())
    ]
    store.save([CheckpointDraft(header=header_of(usual | header), parts=drafted)])
    return path


def forge(
    path: Path,
    *,
    directory: Callable[[bytes], bytes] = lambda line: line,
    record: Callable[[bytes], bytes] = lambda record: record,
    parts: Callable[[list[dict[str, Any]]], object] = lambda parts: parts,
) -> Path:
    """Change the only round of a store, which has one place; its digests are right afterwards.

    `directory`: changes the line at its end. `record`: that of the shard. `parts`: the parts in it.
    """
    (file,) = path.rglob("*.round")
    content = file.read_bytes()
    start = int(content[-SEAL - 21 : -SEAL - 1])
    said = json.loads(content[start : -SEAL - 21])
    (region,) = said["places"]
    at = region["start"] + region["size"] - region["record"]
    before = json.loads(content[at:start])
    new = record(to_json(before | {"parts": parts(before["parts"])}))
    region |= {"record": len(new), "digest": digest_of(new)}
    region["size"] = at + len(new) - region["start"]
    body = content[:at] + new
    end = directory(to_json(said)) + b"\n" + b"%020d " % len(body)
    file.write_bytes(body + end + digest_of(end).encode() + b"\n")
    return path
