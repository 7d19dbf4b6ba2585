"""Another configuration for a daemon that runs: what was counted stays, by way of saved state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from streameval.accumulator import Accumulator
from streameval.aggregation.spec import FamilySpec
from streameval.config import Config
from streameval.config.counting import counting, fitted
from streameval.daemon.assembly import Assembly, limits, pictures, terms
from streameval.durability.keeper import Keeper
from streameval.durability.transient import Transient
from streameval.errors import ConfigError
from streameval.pipeline.evidence import Evidence
from streameval.pipeline.ingest import Ingest

_FIXED: Final = ("source", "state", "dead_letters", "web")
"""What a process is bound to from its start."""


def replaced(parts: Assembly, new: Config) -> Assembly:
    """The parts of a daemon that goes on under another configuration.

    Goes the way of a restart: what is held is saved, and read back under the new configuration.
    Where that fails, the parts given go on as they are.

    Args:
        parts: of the daemon that runs.
        new: the other configuration.

    Raises:
        ConfigError: something differs that only a restart can change.
        StreamevalError: a metric cannot be understood, the state cannot go on, ...
    """
    old = parts.config
    _refuse_fixed(old, new)
    new = fitted(new, old.settings())
    ingest = counting(new, keep_letters=parts.letters is not None, limits=limits(new))
    owner: Keeper | Transient = parts.owner
    if isinstance(owner, Transient):
        _refuse_unlike(old.settings(), new.settings())
        for partition, state in parts.ingest.partitions.items():
            at = {log: each.position for log, each in state.progress().items()}
            ingest.restore(partition, at, _held(state.sections()))
        owner = owner.replaced(ingest)
    elif new.state is not None:
        agreed = terms(new, new.state, parts.source)
        owner = owner.replaced(ingest, Evidence(ingest), agreed, _renumbered(parts, ingest))
    for home, state in ingest.partitions.items():
        state.carry(parts.ingest.partitions[home])
    ingest.tally = parts.ingest.tally
    return msgspec.structs.replace(
        parts,
        config=new,
        ingest=ingest,
        owner=owner,
        snapshots=pictures(
            new,
            parts.source,
            ingest,
            parts.snapshots.started_at,
            parts.snapshots.version,
        ),
    )


def _refuse_fixed(old: Config, new: Config) -> None:
    for name in _FIXED:
        if getattr(old, name) != getattr(new, name):
            problem = "differs from what this process was started with; restart it to change that"
            raise ConfigError("the new configuration", f"[{name}]", problem)


def _refuse_unlike(old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    for name in sorted(old):
        if old[name] != new[name]:
            problem = f"is {new[name]!r}, and what was counted needs {old[name]!r}; restart instead"
            raise ConfigError("the new configuration", name, problem)


def _held(sections: Any) -> dict[str, bytes]:
    return {each.name: b"".join(each.content()()) for each in sections}


def _renumbered(parts: Assembly, ingest: Ingest[Accumulator]) -> Mapping[int, int]:
    """Places of families before -> after; those that are divided otherwise are not in it."""
    after = {_identity(spec): index for index, spec in enumerate(ingest.layout.families)}
    before = enumerate(map(_identity, parts.ingest.layout.families))
    return {index: after[identity] for index, identity in before if identity in after}


def _identity(spec: FamilySpec[Accumulator]) -> tuple[str, tuple[str, ...]]:
    return spec.name, spec.dimensions
