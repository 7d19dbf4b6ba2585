"""What a user installs is the wheel, so it is the wheel that is built, opened and used."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.house.checkout import PACKAGE, ROOT, files

_USE = """
import streameval
accumulator = streameval.Accumulator("ndcg@10", "hit_rate@1")
accumulator.update(["a", "b"], ["a"])
print(streameval.__file__, accumulator.read("hit_rate@1").value)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out)]
    result = subprocess.run([*build, str(ROOT)], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and nothing else of this project in it."""
    target = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*pip, "--target", str(target), str(wheel)], check=True)
    return target


def _names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def _python(installed: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Python outside of the checkout, where the wheel comes before everything else."""
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=installed,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_wheel_holds_every_file_of_the_package(wheel: Path) -> None:
    tracked = {str(path.relative_to(ROOT)) for path in files() if path.is_relative_to(PACKAGE)}
    assert {"streameval/py.typed", "streameval/metrics/ndcg.py"} <= tracked
    assert tracked <= _names(wheel)


def test_the_wheel_holds_the_package_and_its_metadata_only(wheel: Path) -> None:
    tops = {name.partition("/")[0] for name in _names(wheel)}
    assert tops == {"streameval", f"{wheel.name.split('-py3')[0]}.dist-info"}


def test_the_wheel_brings_its_licence(wheel: Path) -> None:
    assert [name for name in _names(wheel) if name.endswith("licenses/LICENSE")]


def test_the_installed_wheel_computes(installed: Path) -> None:
    result = _python(installed, "-c", _USE)
    assert result.stdout.split() == [str(installed / "streameval" / "__init__.py"), "1.0"]


def test_the_installed_wheel_answers_its_version(installed: Path) -> None:
    result = _python(installed, "-m", "streameval", "--version")
    assert result.returncode == 0, result.stderr
    assert "0.1.0" in result.stdout


def test_the_installed_wheel_knows_every_metric(installed: Path) -> None:
    metrics = {path.stem for path in (PACKAGE / "metrics").glob("[!_]*.py")}
    asked = "from streameval.catalogue import catalogue; print(*catalogue())"
    assert set(_python(installed, "-c", asked).stdout.split()) == metrics


def test_every_module_of_the_installed_wheel_imports(installed: Path) -> None:
    every = (
        "import importlib, pkgutil, streameval as s\n"
        "names = [m.name for m in pkgutil.walk_packages(s.__path__, 'streameval.')]\n"
        "for name in names:\n"
        "    name.endswith('__main__') or importlib.import_module(name)\n"
        "print(len(names))"
    )
    result = _python(installed, "-c", every)
    assert result.returncode == 0, result.stderr
    assert int(result.stdout) >= len(list(PACKAGE.rglob("*.py"))) - 1
