"""`python -m tests.deploy.wheels DIST` checks the wheels of a release, and runs those it can.

Every compiled kernel is read: its machine, the libraries it loads, and its undefined symbols, which
are Python's stable ABI and a few functions of the C library. On this machine, under QEMU, or with
a Python that `STREAMEVAL_PYTHONS` names (`TAG=PATH`, several with commas), the kernel is stressed,
and counts the same as the one in Python. What was run and what was only read is said per wheel.

Needs the packages of the group `wheels`, and uv; for aarch64 also qemu-user-static and apt-get.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import lief
from abi3info import DATAS, FUNCTIONS
from abi3info.models import PyVersion
from packaging.tags import platform_tags

from tests.processes import finished

_STRESS: Final = Path(__file__).parents[1] / "kernel" / "stress.py"
_SEED, _BATCHES = "44", "300"
_PYTHON: Final = PyVersion(3, 11)
_LARGEST_GLIBC: Final = (2, 17)
_C_LIBRARY: Final = frozenset(
    {"bcmp", "bzero", "memchr", "memcmp", "memcpy", "memmove", "memset", "strcmp"}
    | {"__bzero", "dyld_stub_binder"}
)
"""Every C library has these functions, or calls them so for a compiler."""

_PLATFORMS: Final = {
    "manylinux2014_x86_64": "x86_64-manylinux2014",
    "manylinux2014_aarch64": "aarch64-manylinux2014",
    "musllinux_1_2_x86_64": "x86_64-unknown-linux-musl",
    "musllinux_1_2_aarch64": "aarch64-unknown-linux-musl",
    "macosx_11_0_x86_64": "x86_64-apple-darwin",
    "macosx_11_0_arm64": "aarch64-apple-darwin",
}
"""Last platform tag of a wheel -> what uv calls the platform."""

_COUNT: Final = """
import os, random, time
clock = time.process_time
start = clock()
import streameval
from streameval.statistics.kernel import COMPILED, match
imported = clock() - start
assert COMPILED == (os.environ.get("STREAMEVAL_PURE") != "1")
draw = random.Random(44)
lists = [[f"item-{number}" for number in draw.sample(range(10**6), 100)] for _ in range(2_000)]
interactions = [draw.sample(items, 3) for items in lists]
times = [(clock(), match(lists, interactions, "text"), clock()) for _ in range(3)]
names = ("ndcg@10", "recall@100", "mrr")
found = streameval.evaluate(lists, interactions, *names)
print(imported, min(end - start for start, _, end in times))
print(*(found[name].value.hex() for name in names))
"""


class WheelError(Exception):
    """A wheel is not what its name promises."""


def main(dist: str) -> int:
    lief.logging.disable()
    with tempfile.TemporaryDirectory() as folder:
        for at, wheel in enumerate(sorted(Path(dist).glob("*.whl"))):
            tag = wheel.stem.split("-")[-1].split(".")[-1]
            output = "no kernel" if tag == "any" else _checked(wheel, tag, Path(folder) / str(at))
            print(f"{wheel.name}: {wheel.stat().st_size / 1_000:.0f} kB, {output}", flush=True)
    return 0


def _checked(wheel: Path, tag: str, folder: Path) -> str:
    folder.mkdir()
    # By its name in the folder of a release: an installer for that platform chooses this wheel.
    site = folder / "site"
    options = ("--no-index", "--no-deps", "--find-links", str(wheel.parent))
    _install(site, tag, *options, "streameval")
    (kernel,) = site.rglob("_match.*")
    with zipfile.ZipFile(wheel) as archive:
        if archive.read(kernel.relative_to(site).as_posix()) != kernel.read_bytes():
            raise WheelError(f"{wheel.name}: an installer for {tag} takes another wheel")
    read = read_elf(kernel, tag) if "linux" in tag else read_macho(kernel, tag)
    python = next(iter(_pythons(tag, folder)), None)
    return f"{read}; {'only compiled' if python is None else _run(python, site, kernel, tag)}"


def _install(site: Path, tag: str, *arguments: str) -> None:
    version = ("--python-version", f"{_PYTHON.major}.{_PYTHON.minor}", "--only-binary", ":all:")
    where = ("--target", str(site), "--python-platform", _PLATFORMS[tag])
    _output(["uv", "pip", "install", "--quiet", *version, *where, *arguments])


def read_elf(kernel: Path, tag: str) -> str:
    """The C library that a kernel for Linux needs.

    Raises:
        WheelError: it needs more than the tag promises.
    """
    binary: Any = lief.parse(str(kernel))
    machine = binary.header.machine_type.name.lower()
    if not tag.endswith(machine):
        raise WheelError(f"{kernel}: {machine} for {tag}")
    library = "libc.so.6" if tag.startswith("many") else "libc.so"
    if {*binary.libraries} - {library}:
        raise WheelError(f"{kernel}: loads {binary.libraries}")
    _check_symbols(kernel, (symbol.name for symbol in binary.imported_symbols))
    versions = [
        tuple(map(int, version.name.removeprefix("GLIBC_").split(".")))
        for requirement in binary.symbols_version_requirement
        for version in requirement.get_auxiliary_symbols()
    ]
    if not tag.startswith("many"):
        return "musl"
    if max(versions) > _LARGEST_GLIBC:
        raise WheelError(f"{kernel}: needs glibc {max(versions)}")
    return f"glibc {'.'.join(map(str, max(versions)))}"


def read_macho(kernel: Path, tag: str) -> str:
    """The macOS that a kernel needs.

    Raises:
        WheelError: it needs more than the tag promises, or is not signed as arm64 demands.
    """
    binary: Any = lief.parse(str(kernel))
    machine = {"X86_64": "x86_64", "ARM64": "arm64"}[binary.header.cpu_type.name]
    least = tuple(binary.build_version.minos[:2])
    if not tag.endswith(machine) or tag.split("_")[1:3] != list(map(str, least)):
        raise WheelError(f"{kernel}: macOS {least} on {machine} for {tag}")
    # Its own name, and the one library of the system.
    libraries = [library.name for library in binary.libraries]
    if libraries != [kernel.name, "/usr/lib/libSystem.B.dylib"]:
        raise WheelError(f"{kernel}: loads {libraries}")
    _check_symbols(kernel, (symbol.name.removeprefix("_") for symbol in binary.imported_symbols))
    if machine != "arm64":
        return f"macOS {'.'.join(map(str, least))}"
    _check_signature(kernel, binary.code_signature.data_offset)
    return f"macOS {'.'.join(map(str, least))}, signed ad hoc"


def _check_symbols(kernel: Path, names: Iterable[str]) -> None:
    """Undefined symbols are those of the stable ABI or of every C library."""
    stable = {
        symbol.name
        for symbol, entry in (*FUNCTIONS.items(), *DATAS.items())
        if entry.added <= _PYTHON
    }
    more = {*names} - stable - _C_LIBRARY
    if more:
        raise WheelError(f"{kernel}: undefined symbols {sorted(more)}")


_SUPERBLOB, _DIRECTORY, _AD_HOC = 0xFADE0CC0, 0xFADE0C02, 2


def _check_signature(kernel: Path, start: int) -> None:
    """A signature of no one, as macOS on arm64 demands: the digest of each page, in a directory."""
    content = kernel.read_bytes()
    magic, _, count = struct.unpack_from(">3I", content, start)
    blobs = [struct.unpack_from(">2I", content, start + 12 + 8 * at)[1] for at in range(count)]
    at = start + next(
        blob for blob in blobs if struct.unpack_from(">I", content, start + blob) == (_DIRECTORY,)
    )
    flags, hashes = struct.unpack_from(">2I", content, at + 12)
    pages, limit = struct.unpack_from(">2I", content, at + 28)
    size, page = content[at + 36], 1 << content[at + 39]
    signed = [content[at + hashes + size * slot :][:size] for slot in range(pages)]
    result = [
        hashlib.sha256(content[begin : min(begin + page, limit)]).digest()
        for begin in range(0, limit, page)
    ]
    if magic != _SUPERBLOB or not flags & _AD_HOC or limit != start or signed != result:
        raise WheelError(f"{kernel}: its signature is not that of its pages")


class Python(NamedTuple):
    """An interpreter that runs a wheel."""

    command: Sequence[str]
    name: str


def _pythons(tag: str, folder: Path) -> Iterator[Python]:
    """The interpreters of a platform that are here."""
    named = dict(
        pair.split("=", 1) for pair in os.environ.get("STREAMEVAL_PYTHONS", "").split(",") if pair
    )
    if tag in named:
        yield Python([named[tag]], named[tag].rpartition("/")[2])
    if tag in platform_tags():
        yield Python([sys.executable], "this Python")
    emulator = shutil.which("qemu-aarch64-static")
    if tag == "manylinux2014_aarch64" and emulator is not None:
        root = _debian(folder / "debian", "arm64")
        if root is not None:
            python = str(root / "usr" / "bin" / "python3")
            yield Python([emulator, "-L", str(root), python], "Debian's Python in QEMU")


def _debian(folder: Path, architecture: str) -> Path | None:
    """Debian's Python of another architecture in a folder; None where apt-get has none."""
    lists, cache, root = folder / "lists", folder / "cache", folder / "root"
    for path in (lists / "partial", cache / "archives" / "partial", root):
        path.mkdir(parents=True)
    settings = {
        "APT::Architecture": architecture,
        "APT::Architectures": architecture,
        "APT::Sandbox::User": "root",
        "Dir::State::status": "/dev/null",
        "Dir::State::Lists": str(lists),
        "Dir::Cache": str(cache),
    }
    apt = ["apt-get", "-qq", *(f"-o{name}={value}" for name, value in settings.items())]
    install = ("install", "--download-only", "--yes", "--no-install-recommends")
    try:
        subprocess.run([*apt, "update"], check=False, capture_output=True)
        _output([*apt, *install, "python3", "libstdc++6"])
    except (OSError, WheelError):
        return None
    for package in (cache / "archives").glob("*.deb"):
        _output(["dpkg-deb", "-x", str(package), str(root)])
    return root


def _run(python: Python, site: Path, kernel: Path, tag: str) -> str:
    """Stress a kernel alone, then count with it and with the one in Python."""
    _output([*python.command, str(_STRESS), str(kernel), _SEED, _BATCHES])
    _install(site, tag, "numpy", "msgspec")
    compiled, pure = (
        # Away from the checkout, whose package would come first.
        _output([*python.command, "-c", _COUNT], site, STREAMEVAL_PURE=which).split()
        for which in ("0", "1")
    )
    if compiled[2:] != pure[2:]:
        raise WheelError(f"{kernel}: counts {compiled[2:]}, in Python {pure[2:]}")
    ratio = float(pure[1]) / float(compiled[1])
    return (
        f"run with {python.name}: {_BATCHES} batches as the twin has them, "
        f"{ratio:.1f} times as fast as the kernel in Python, import in {float(compiled[0]):.2f} s "
        f"(without kernel: {float(pure[0]):.2f} s)"
    )


def _output(command: Sequence[str], folder: Path | None = None, **environment: str) -> str:
    done = finished(command, cwd=folder, env={**os.environ, **environment})
    if done.returncode:
        raise WheelError(f"{' '.join(command)}: {(done.stdout + done.stderr).strip()[-2_000:]}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
