"""Checkpoints of format 3, as the release before wrote them."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from streameval.checkpoints.format import Header, Place, digest_of, encode_name, to_json
from streameval.checkpoints.storage import Storage
from tests.stores.drafts import PLACE, contents, draft


def save(storage: Storage, offset: int, place: Place = PLACE) -> str:
    """Save the usual parts, those with a slash in a blob; returns the key of the checkpoint."""
    parts = {name: b"".join(pieces) for name, pieces in contents(place, offset).items()}
    return save_parts(storage, draft(offset, place).header, parts)


def save_parts(storage: Storage, header: Header, parts: Mapping[str, bytes]) -> str:
    """Save a checkpoint with these parts; returns its key."""
    place = header.place
    folder = f"{encode_name(place.topic)}/{encode_name(place.identity)}/{place.number}"
    settled = {name: content for name, content in parts.items() if "/" in name}
    blob = digest_of(*settled.values())
    if settled:
        storage.put_new(f"{folder}/blobs/{blob}", settled.values())
    fields = msgspec.to_builtins(header) | {"version": 3}
    fields.pop("generation")
    head = b"streameval checkpoint 3\n" + to_json(fields) + b"\n"
    entries, starts = [], {True: 0, False: len(head)}
    for name, content in sorted(parts.items()):
        entry = {"name": name, "size": len(content), "digest": digest_of(content)}
        entry |= {"start": starts[name in settled]}
        entry |= {"blob": blob} if name in settled else {}
        starts[name in settled] += len(content)
        entries.append(entry)
    inline = [content for name, content in sorted(parts.items()) if name not in settled]
    pieces = [head, *inline, to_json(entries) + b"\n", b"%020d " % starts[False]]
    key = f"{folder}/{header.offset:020d}.checkpoint"
    storage.put_new(key, [*pieces, digest_of(*pieces).encode() + b"\n"])
    return key
