"""A state that somebody else may have written, with the parts and the header that they want."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from streameval.accumulator.codec import STATE_VERSION
from streameval.checkpoints.format import SEAL, CheckpointDraft, Header, Part, Place, digest_of
from streameval.checkpoints.store import folder_store
from streameval.config import Config
from streameval.config.config import schema
from streameval.config.pipeline import new_ingest
from streameval.events.records import Partition
from tests.batches import batch_of
from tests.stores.drafts import NOON

LOG = Partition("events", 0)
HOME = Place("events", "id", 0)

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
        "version": STATE_VERSION,
        "release": "1",
        "cluster": "c1",
        "group": "g1",
        "place": HOME,
        "offset": len(records),
        "counted": 0,
        "clock": ingest.clock,
        "settings": config.settings(),
        "written_at": NOON,
        "schema": schema(config),
    }
    store = folder_store(path)
    store.claim("c1", "g1")
    drafted = [
        Part(name=name, content=lambda content=content: iter([content]), settled="/" in name)  # type: ignore[misc]  # mypy knows no default of a lambda
        for name, content in sorted(parts(made).items())
    ]
    store.save(CheckpointDraft(header=Header(**(usual | header)), parts=drafted))
    return path


def forge(
    path: Path,
    *,
    first: Callable[[bytes], bytes] = lambda line: line,
    header: Callable[[bytes], bytes] = lambda line: line,
    table: Callable[[list[dict[str, Any]]], object] = lambda entries: entries,
) -> Path:
    """Change the only checkpoint of a store; its digest is right afterwards.

    `first`: changes its first line. `header`: its second. `table`: the table of parts.
    """
    (file,) = path.rglob("*.checkpoint")
    content = file.read_bytes()
    start = int(content[-SEAL - 21 : -SEAL - 1])
    opening, about, parts = content[:start].split(b"\n", 2)
    entries = json.loads(content[start : -SEAL - 21])
    head = first(opening) + b"\n" + header(about) + b"\n"
    moved = len(head) - (len(opening) + len(about) + 2)
    for entry in entries:
        entry["start"] += moved * ("blob" not in entry)
    body = head + parts
    changed = body + json.dumps(table(entries)).encode() + b"\n" + b"%020d " % len(body)
    file.write_bytes(changed + digest_of(changed).encode() + b"\n")
    return path
