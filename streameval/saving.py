"""What was counted as bytes, statistic by statistic, each under its name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, partial
from typing import NamedTuple, TypeAlias

import msgspec

from streameval.context import Context
from streameval.errors import DamagedStateError, StateVersionError, UnlikeStateError
from streameval.evidence import Evidence
from streameval.formulas import needed_inputs
from streameval.ids import IdKind
from streameval.plan import name_of
from streameval.statistics.packing import Count, array_of, map_of, packed

VERSION = 2
_WHAT = "accumulator"
Inputs: TypeAlias = Mapping[str, int | str | None]


class Part(NamedTuple):
    """One statistic as it is saved: what its values were made with, and the way there and back."""

    inputs: tuple[str, ...]
    dump: Callable[[], Iterator[bytes]]
    adopt: Callable[[msgspec.Raw], None]


class _Entry(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    inputs: dict[str, int | str | None]
    content: msgspec.Raw


def parts_of(evidence: Evidence) -> dict[str, Part]:
    """Every statistic kept, by its name, in the order of the names."""
    found = {
        name_of(options): Part((), each.dump, each.adopt)
        for options, each in evidence.statistics.items()
    }
    for kind, kept in (("graded", evidence.graded), ("values", evidence.values)):
        found |= {f"{kind}:{name}": Part((), d.dump, d.adopt) for name, d in kept.items()}
    for metric in evidence.plan.events:
        name, events = metric.per_list, evidence.events
        dump, adopt = partial(events.dump, name), partial(events.adopt, name)
        found[f"events:{name}"] = Part(tuple(needed_inputs(metric)), dump, adopt)
    return dict(sorted(found.items()))


def pieces(evidence: Evidence, context: Context, ids: IdKind | None, lists: int) -> Iterator[bytes]:
    """The whole content as one msgpack value, in pieces; equal content gives equal bytes."""
    for hits in evidence.hits:
        # What is pending there is on its way to the values of lists, too.
        hits.fold()
    parts = parts_of(evidence)
    yield array_of(4) + packed(VERSION) + packed(lists) + packed(ids)
    yield map_of(len(parts))
    for name, part in parts.items():
        yield packed(name) + array_of(2) + packed(_made_with(part, context))
        yield from part.dump()


def load(
    evidence: Evidence, context: Context, data: bytes
) -> tuple[int, IdKind | None, frozenset[str]]:
    """Fill empty evidence with what it has use for of what `pieces` gave.

    Returns:
        How many lists were counted, the kind of their ids, and the names of the statistics that
        were not there.

    Raises:
        StateVersionError: this release does not know the version.
        UnlikeStateError: the values of a statistic were made with other inputs.
        DamagedStateError: it is not what `pieces` gave.
    """
    try:
        return _loaded(evidence, context, data)
    except (ValueError, TypeError, OverflowError, RecursionError, msgspec.DecodeError) as error:
        raise DamagedStateError(_WHAT, f"{type(error).__name__}: {error}") from error


def _loaded(
    evidence: Evidence, context: Context, data: bytes
) -> tuple[int, IdKind | None, frozenset[str]]:
    version, *rest = msgspec.msgpack.decode(data, type=list[msgspec.Raw])
    found = msgspec.msgpack.decode(version)
    if found != VERSION:
        raise StateVersionError(_WHAT, found, VERSION)
    lists, ids, saved = rest
    entries = msgspec.msgpack.decode(saved, type=dict[str, msgspec.Raw])
    missing = set()
    for name, part in parts_of(evidence).items():
        if name not in entries:
            missing.add(name)
            continue
        entry = msgspec.msgpack.decode(entries[name], type=_Entry)
        made_with = _made_with(part, context)
        if entry.inputs != made_with:
            raise UnlikeStateError(f"inputs of {name}", made_with, entry.inputs)
        part.adopt(entry.content)
    kind = msgspec.msgpack.decode(ids, type=IdKind | None)
    return msgspec.msgpack.decode(lists, type=Count), kind, frozenset(missing)


def _made_with(part: Part, context: Context) -> Inputs:
    return {name: _identity(context)[name] for name in sorted(part.inputs)}


@lru_cache(maxsize=4)
def _identity(context: Context) -> Inputs:
    # A digest of a whole catalogue, asked for with every slice that is saved.
    return context.identity
