"""`python -m tests.fuzz [TARGET...] --minutes 10` tries made-up input until something breaks."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import Any, NamedTuple

from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from tests.fuzz.checkpoints import changes, checkpoints
from tests.fuzz.kernels import cases as kernel_cases
from tests.fuzz.kernels import kernel
from tests.fuzz.records import (
    cases,
    decoder,
    events,
    join,
    scanned,
    scanner,
    schemas,
    streams,
)
from tests.fuzz.requests import requests, server

_ROUND = 200
"""Examples after which the clock is looked at; each round has a seed of its own."""


class Target(NamedTuple):
    """What is tried.

    Attributes:
        inputs: what it is given.
        opened: gives what takes them; raises where one breaks it.
    """

    inputs: st.SearchStrategy[Any]
    opened: Callable[[], AbstractContextManager[Callable[[Any], None]]]


TARGETS: Mapping[str, Target] = MappingProxyType(
    {
        "decoder": Target(events(), decoder),
        "scanner": Target(scanned(), scanner),
        "schemas": Target(cases(), schemas),
        "join": Target(streams(), join),
        "checkpoints": Target(changes(), checkpoints),
        "kernel": Target(kernel_cases(), kernel),
        "server": Target(requests(), server),
    }
)


def fuzz(name: str, first: int, *, seconds: float = 0.0, examples: int = _ROUND) -> int:
    """Rounds of examples, one at least, until the time is up; returns how many rounds.

    Args:
        name: of the target.
        first: seed of the first round; the next one has the next.
        seconds: after which no round begins.
        examples: of a round.
    """
    target, rounds = TARGETS[name], 0
    until = time.monotonic() + seconds
    with target.opened() as check:

        @settings(
            max_examples=examples,
            derandomize=False,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(target.inputs)
        def checked(drawn: Any) -> None:
            check(drawn)

        while not rounds or time.monotonic() < until:
            seed(first + rounds)(checked)()
            rounds += 1
    return rounds


def main(arguments: Sequence[str]) -> int:
    """Fuzz targets one after the other; ends at the first that breaks, with its example."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    target_names = ", ".join(TARGETS)
    parser.add_argument(
        "target", nargs="*", metavar="TARGET", help=f"by default all of {target_names}"
    )
    parser.add_argument("--minutes", type=float, default=10.0, help="for each target")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the first round")
    asked = parser.parse_args(arguments)
    if unknown := set(asked.target) - set(TARGETS):
        parser.error(f"no target {', '.join(sorted(unknown))}; there are {target_names}")
    for name in asked.target or TARGETS:
        print(f"{name:<12} seed {asked.seed} ...", end=" ", flush=True)
        rounds = fuzz(name, asked.seed, seconds=60 * asked.minutes)
        print(f"nothing broke ({rounds * _ROUND:,} examples)", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
