"""The work of `streameval explain`: the story of a request, from the newest checkpoints."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import typer
from typer import Exit

from streameval.attribution.state import JoinedState
from streameval.attribution.stories import RecordStory, ShownStory, Story, story
from streameval.cli.ending import FAILED, WrongCallError, tell
from streameval.cli.state_reading import counted, held_in
from streameval.config import Config, load
from streameval.events import Id
from streameval.records import Partition

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def explained(key: str, path: Path, *, as_json: bool) -> None:
    """Find the story of a request or a user, and write it.

    Raises:
        WrongCallError: the configuration joins nothing, or keeps no state.
        ConfigError: the configuration cannot be used.
        StoreError: the state cannot be read.
    """
    config = load(path)
    if config.attribution is None:
        raise WrongCallError(f"{path} has no [attribution]: every record is an event of its own.")
    if config.state is None:
        raise WrongCallError(f"{path} has no [state]: nothing is kept that could be told of.")
    stories = dict(_stories(key, config, path))
    if not stories:
        window = config.attribution.remember
        tell(
            f"nothing is known of {key!r}: it has not been read and saved yet, or it ended more "
            f"than {window} of event time ago (remember in [attribution])."
        )
        raise Exit(FAILED)
    if as_json:
        plain = {str(home): msgspec.to_builtins(each) for home, each in stories.items()}
        typer.echo(msgspec.json.format(msgspec.json.encode(plain), indent=1).decode())
        return
    for home, found in stories.items():
        typer.echo("\n".join(_lines(home, found, config.dimensions())))


def _stories(key: str, config: Config, path: Path) -> Iterator[tuple[Partition, Story]]:
    held = held_in([Path(config.state.path)] if config.state else [])
    if not held:
        return
    _, ingest = counted(held, path)
    for home, state in sorted(ingest.partitions.items()):
        found = story(state, key) if isinstance(state, JoinedState) else None
        if found is not None:
            yield Partition(home.topic.partition(":")[2], home.number), found


def _lines(home: Partition, found: Story, names: list[str]) -> Iterator[str]:
    for each in found.lists:
        yield from _list(home, each, names)
    if not found.lists:
        yield f"{home}: no list of it is known."
    for record in found.records:
        yield _record(record)


def _list(home: Partition, each: ShownStory, names: list[str]) -> Iterator[str]:
    labels = ", ".join(f"{name}={value}" for name, value in zip(names, each.labels, strict=True))
    yield f"{home}: shown {_moment(each.time)}{f' ({labels})' if labels else ''}"
    yield f"  items   {', '.join(map(str, each.items)) or 'none'}"
    if each.fate == "counted":
        yield "  counted its window is over"
    else:
        yield f"  open    until every log has passed {_moment(each.complete_at)}"


def _record(each: RecordStory) -> str:
    what = "list" if each.item is None else _what(each.item, each.type)
    where = f"{each.log} offset {each.offset}"
    return f"  {_moment(each.time)} {what}: {each.fate}. {each.why} ({where})"


def _what(item: Id, kind: str | None) -> str:
    return f"{kind} {item}" if kind else str(item)


def _moment(time: int) -> str:
    return (_EPOCH + timedelta(microseconds=time)).isoformat().replace("+00:00", "Z")
