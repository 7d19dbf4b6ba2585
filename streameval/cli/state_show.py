"""The work of `streameval state show`."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from rich.table import Table
from typer import Exit

from streameval.cli.ending import FAILED, output, tell
from streameval.cli.screen import printed
from streameval.cli.state_stores import age_text, clock_text, moment, store_at
from streameval.durability.checkpoint import Place
from streameval.errors import StateVersionError
from streameval.stores.claim import claim_of
from streameval.stores.folder import FolderStore
from streameval.stores.layout import Entry
from streameval.stores.reading import FolderSaved
from streameval.stores.trouble import told_of

_COLUMNS: Mapping[str, str] = {
    "place": "left",
    "offset": "right",
    "counted": "right",
    "clock": "left",
    "written": "left",
    "age": "right",
    "bytes": "right",
    "parts": "right",
    "kept": "right",
}


def shown(paths: Sequence[Path], written_as: str) -> None:
    """Write what stores hold; status 1 where a newest file is not sound.

    Raises:
        WrongCallError: a path is no store.
        StoreError: one cannot be read.
    """
    stores = [_store(store_at(path)) for path in paths]
    with output():
        if written_as == "json":
            sys.stdout.write(json.dumps(stores, indent=2) + "\n")
        else:
            sys.stdout.writelines(map(_text, stores))
    faults = [fault for store in stores for place in store["places"] for fault in place["faults"]]
    for fault in faults:
        tell(fault)
    if faults:
        raise Exit(FAILED)


def _store(store: FolderStore) -> dict[str, Any]:
    with told_of(store.path):
        claim = claim_of(store.disk, store.path)
    return {
        "path": str(store.path),
        "cluster": claim.cluster,
        "group": claim.group,
        "places": [_place(store, place) for place in store.places()],
    }


def _place(store: FolderStore, place: Place) -> dict[str, Any]:
    about = {
        "topic": place.topic,
        "identity": place.identity,
        "partition": place.number,
        "kept": store.offsets(place),
    }
    try:
        found = store.newest(place)
    except StateVersionError as error:
        return {**about, "checkpoint": None, "faults": [str(error)]}
    saved = found.saved
    checkpoint = _checkpoint(saved) if isinstance(saved, FolderSaved) else None
    return {**about, "checkpoint": checkpoint, "faults": list(found.passed_over)}


def _checkpoint(saved: FolderSaved) -> dict[str, Any]:
    return {
        "path": str(saved.path),
        **msgspec.to_builtins(saved.header),
        "age_seconds": round(time.time() - saved.header.written_at, 3),
        "bytes": sum(each.size for each in saved.entries),
        "parts": [_part(each) for each in saved.entries],
    }


def _part(entry: Entry) -> dict[str, Any]:
    return {
        "name": entry.name,
        "bytes": entry.size,
        "digest": entry.digest,
        "blob": entry.start is None,
    }


def _text(store: Mapping[str, Any]) -> str:
    title = f"{store['path']}: cluster {store['cluster']}, group {store['group']}"
    table = Table(title=title, title_justify="left", header_style="bold")
    for name, side in _COLUMNS.items():
        table.add_column(name, justify="right" if side == "right" else "left", overflow="fold")
    for place in store["places"]:
        table.add_row(*_row(place))
    lines = [f"  {name} = {value}\n" for name, value in _settings(store)]
    return printed(table) + (f"settings\n{''.join(lines)}" if lines else "")


def _row(place: Mapping[str, Any]) -> Iterator[str]:
    yield f"{place['topic']}[{place['partition']}]"
    found = place["checkpoint"]
    if found is None:
        yield from ["none sound", *[""] * (len(_COLUMNS) - 3)]
    else:
        yield f"{found['offset']:,}"
        yield f"{found['counted']:,}"
        yield clock_text(found["clock"])
        yield moment(found["written_at"])
        yield age_text(found["age_seconds"])
        yield f"{found['bytes']:,}"
        yield f"{len(found['parts']):,}"
    yield f"{len(place['kept']):,}"


def _settings(store: Mapping[str, Any]) -> Sequence[tuple[str, str]]:
    """Each once: those of all places are the same but while they change."""
    found = [place["checkpoint"]["settings"] for place in store["places"] if place["checkpoint"]]
    return sorted({(key, json.dumps(value)) for each in found for key, value in each.items()})
