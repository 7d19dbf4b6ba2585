"""Runs Python as if the package were installed with some of its extras only."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from importlib.metadata import PackageNotFoundError, packages_distributions, requires

from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name

from tests.house.checkout import ROOT
from tests.processes import finished

HIDE = """
import json, sys

class Absent:
    names = frozenset(json.loads(sys.argv.pop(1)))

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
"""
"""Code that hides the modules in its first argument, a list in JSON."""


def run_with_extras(
    *extras: str, code: str, arguments: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    """Run code in a process that can import the package, and of the rest what these extras need."""
    return finished(
        [sys.executable, "-c", HIDE + code, json.dumps(_absent(extras)), *arguments],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )


@cache
def _absent(extras: tuple[str, ...]) -> list[str]:
    """The modules of this environment that an installation with these extras does not have."""
    installed = _with_dependencies("streameval", *extras)
    return [
        module
        for module, owners in packages_distributions().items()
        if installed.isdisjoint(map(canonicalize_name, owners))
    ]


def _with_dependencies(name: str, *extras: str) -> set[NormalizedName]:
    """A distribution with these extras, and everything that it requires."""
    seen: set[tuple[NormalizedName, str]] = set()
    waiting = [(canonicalize_name(name), extra) for extra in ("", *extras)]
    while waiting:
        following = waiting.pop()
        if following not in seen:
            seen.add(following)
            waiting += _required(*following)
    return {distribution for distribution, _ in seen}


def _required(name: str, extra: str) -> Iterator[tuple[NormalizedName, str]]:
    try:
        texts = requires(name) or []
    except PackageNotFoundError:
        return
    for requirement in map(Requirement, texts):
        if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
            for inner in ("", *requirement.extras):
                yield canonicalize_name(requirement.name), inner
