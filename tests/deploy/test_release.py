"""What a release is made of: locks, versions, distributions, bills of materials."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from platform import machine
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import streameval
from streameval.building.hook import ABI, COMPILED_MODULE, NPM
from tests.deploy.examples import (
    DEPLOY,
    KUBERNETES,
    document,
    instructions,
    of_the_environment,
)
from tests.effort import PATIENCE
from tests.house.checkout import ROOT, files
from tests.processes import finished

LOCK = DEPLOY / "requirements.txt"
GROUPS = {name: DEPLOY / f"requirements-{name}.txt" for name in ("build", "wheels", "publish")}
LOCKS = {"runtime": LOCK, **GROUPS}
PLATFORMS = (
    "manylinux_2_17_x86_64.manylinux2014_x86_64",
    "manylinux_2_17_aarch64.manylinux2014_aarch64",
    "musllinux_1_2_x86_64",
    "musllinux_1_2_aarch64",
    "macosx_11_0_x86_64",
    "macosx_11_0_arm64",
)
PYTHONS = (11, 12, 13, 14)


def _pyproject() -> dict[str, Any]:
    with (ROOT / "pyproject.toml").open("rb") as file:
        return tomllib.load(file)


VERSION = str(_pyproject()["project"]["version"])


def test_the_classifiers_name_each_release_of_python_that_is_tested() -> None:
    named = re.findall(r"Python :: 3\.(\d+)", "\n".join(_pyproject()["project"]["classifiers"]))
    assert tuple(map(int, named)) == PYTHONS


def _locked(lock: Path) -> Iterator[tuple[Requirement, str]]:
    """Each requirement of a lock, with what stands below it."""
    for part in re.split(r"^(?=\w)", lock.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        requirement, _, rest = part.partition("\\\n")
        yield Requirement(requirement.strip()), rest


def _pinned(lock: Path) -> dict[str, Version]:
    """What a lock installs on this Python."""
    return {
        canonicalize_name(requirement.name): Version(next(iter(requirement.specifier)).version)
        for requirement, _ in _locked(lock)
        if requirement.marker is None or requirement.marker.evaluate()
    }


def _groups() -> list[tuple[Path, list[str]]]:
    pyproject = _pyproject()
    extras = re.findall(r"--extra (\w+)", (ROOT / "tests" / "release").read_text(encoding="utf-8"))
    optional = pyproject["project"]["optional-dependencies"]
    return [
        (
            LOCK,
            [
                *pyproject["project"]["dependencies"],
                *(requirement for x in extras for requirement in optional[x]),
            ],
        ),
        *((lock, pyproject["dependency-groups"][name]) for name, lock in GROUPS.items()),
    ]


@pytest.mark.parametrize(("lock", "needed"), _groups(), ids=LOCKS)
def test_a_lock_has_all_that_is_needed_in_a_version_that_is_allowed(
    lock: Path, needed: list[str]
) -> None:
    pinned = _pinned(lock)
    for requirement in map(Requirement, needed):
        if requirement.marker is not None and not requirement.marker.evaluate():
            continue
        assert canonicalize_name(requirement.name) in pinned, (
            f"{requirement}: run tests/release lock"
        )
        assert requirement.specifier.contains(pinned[canonicalize_name(requirement.name)]), (
            requirement
        )


@pytest.mark.parametrize("lock", LOCKS.values(), ids=LOCKS)
def test_a_lock_pins_everything_by_digest(lock: Path) -> None:
    for requirement, rest in _locked(lock):
        assert [specifier.operator for specifier in requirement.specifier] == ["=="], requirement
        assert re.search(r"--hash=sha256:[0-9a-f]{64}\b", rest), requirement


def test_what_is_locked_for_the_build_is_what_the_build_asks_for() -> None:
    pyproject = _pyproject()
    assert pyproject["dependency-groups"]["build"] == [*pyproject["build-system"]["requires"], NPM]


def test_the_image_installs_the_locks_and_nothing_else() -> None:
    steps = [step for word, rest in instructions() if word == "RUN" for step in rest.split("&&")]
    installing = [step for step in steps if re.search(r"\bpip\b.* (install|wheel) ", step)]
    assert len(installing) == 4
    locks = [step for step in installing if "--require-hashes" in step]
    assert [step.split()[-1] for step in locks] == [
        str(path.relative_to(ROOT)) for path in (GROUPS["build"], LOCK)
    ]
    rest = [step for step in installing if step not in locks]
    assert all("--no-index" in step and "--no-deps" in step for step in rest)


def test_a_version_is_that_of_a_release_only_if_the_changelog_has_it() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    newest, *others = re.findall(r"^## (.*)$", text, re.MULTILINE)
    released = [re.fullmatch(r"\[([\d.]+)\] - \d{4}-\d\d-\d\d", heading) for heading in others]
    versions = [match and Version(match[1]) for match in released]
    assert None not in versions, others
    assert all(version < Version(VERSION) for version in versions if version)
    if newest == "[Unreleased]":
        assert re.fullmatch(r"[\d.]+\.dev0", VERSION)
    else:
        assert re.fullmatch(rf"\[{re.escape(VERSION)}\] - \d{{4}}-\d\d-\d\d", newest)


def test_the_package_says_this_version() -> None:
    assert streameval.__version__ == VERSION


@pytest.mark.parametrize("folder", ["base", "reader"])
def test_the_cluster_takes_the_image_of_this_version(folder: str) -> None:
    (image,) = document(KUBERNETES / folder / "kustomization.yaml")["images"]
    assert image["newTag"] == VERSION


def test_the_conda_package_has_the_version_and_the_requirements_of_the_project() -> None:
    recipe = document(ROOT / "deploy" / "conda" / "recipe.yaml")
    project = _pyproject()["project"]
    # conda builds it for Linux and macOS.
    unix = [text for text in project["dependencies"] if "win32" not in text]
    needs = {f"python{project['requires-python']}", *unix}
    assert recipe["context"]["version"] == VERSION
    assert {text.replace(" ", "") for text in recipe["requirements"]["run"]} == needs


def test_the_workflow_is_one_and_pins_each_action_by_a_commit() -> None:
    workflow = ROOT / ".github" / "workflows" / "release.yml"
    tool = of_the_environment("check-jsonschema")
    done = finished([tool, "--builtin-schema", "vendor.github-workflows", workflow])
    assert (done.returncode, done.stdout) == (0, "ok -- validation done\n")
    jobs = document(workflow)["jobs"]
    steps = [step for job in jobs.values() for step in job["steps"]]
    actions = [step["uses"] for step in steps if "uses" in step]
    assert actions == [used for used in actions if re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", used)]
    trusted = [name for name, job in jobs.items() if "id-token" in job["permissions"]]
    assert trusted == ["publish"]
    assert set(jobs["publish"]["needs"]) == {*jobs} - {"publish"}


def _run_command(*command: str | Path, folder: Path, **environment: str) -> str:
    # A release is seven wheels, one of which runs in an emulator.
    patience = 30 * PATIENCE
    done = finished(
        [*map(str, command)], cwd=folder, env={**os.environ, **environment}, timeout=patience
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _released(checkout: Path, *arguments: str) -> str:
    programs = of_the_environment("uv").parent
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    return _run_command(checkout / "tests" / "release", *arguments, folder=checkout, PATH=path)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _checked_out(tmp_path_factory.mktemp("checkout"))


def _checked_out(goal: Path) -> Path:
    """The files of the checkout and nothing else."""
    for path in files():
        copy = goal / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    return goal


@pytest.fixture(scope="module")
def dist(checkout: Path) -> Path:
    _released(checkout)
    return checkout / "dist"


@pytest.mark.nightly
def test_the_locks_are_what_their_command_writes(checkout: Path) -> None:
    _released(checkout, "lock")
    for lock in LOCKS.values():
        written = checkout / lock.relative_to(ROOT)
        assert written.read_text(encoding="utf-8") == lock.read_text(encoding="utf-8")


@pytest.mark.nightly
def test_a_release_is_whole_and_its_digests_are_right(dist: Path) -> None:
    name = f"streameval-{VERSION}"
    assert {path.name for path in dist.iterdir()} == {
        f"{name}.tar.gz",
        *(f"{name}-{ABI}-{platform}.whl" for platform in PLATFORMS),
        f"{name}-py3-none-any.whl",
        f"{name}.cdx.json",
        f"{name}-page.cdx.json",
        "SHA256SUMS",
    }
    assert _run_command("sha256sum", "--check", "SHA256SUMS", folder=dist).count(": OK") == 10


@pytest.mark.nightly
def test_another_clone_gives_the_same_bytes(dist: Path, tmp_path: Path) -> None:
    other = _checked_out(tmp_path / "another" / "folder")
    _released(other)
    ours, theirs = (
        [
            line
            for line in (folder / "SHA256SUMS").read_text(encoding="ascii").splitlines()
            # npm dates its bill of materials.
            if line.endswith((".whl", ".tar.gz"))
        ]
        for folder in (dist, other / "dist")
    )
    assert len(ours) == 8
    assert ours == theirs


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("damaged", "with_kernel_of", "said"),
    [
        ("macosx_11_0_arm64", None, "its signature is not that of its pages"),
        ("macosx_11_0_x86_64", "macosx_11_0_arm64", "macOS (11, 0) on arm64 for macosx_11_0_x86"),
        ("musllinux_1_2_x86_64", "manylinux2014_x86_64", "loads ['libc.so.6']"),
        ("musllinux_1_2_aarch64", "musllinux_1_2_x86_64", "x86_64 for musllinux_1_2_aarch64"),
    ],
)
def test_a_kernel_that_its_platform_would_not_load_is_refused(
    dist: Path, tmp_path: Path, damaged: str, with_kernel_of: str | None, said: str
) -> None:
    (wheel,) = dist.glob(f"*{damaged}.whl")
    (source,) = dist.glob(f"*{with_kernel_of or damaged}.whl")
    with zipfile.ZipFile(source) as archive:
        kernel = bytearray(archive.read(COMPILED_MODULE.as_posix()))
    if with_kernel_of is None:
        kernel[len(kernel) // 2] ^= 1
    with (
        zipfile.ZipFile(wheel) as archive,
        zipfile.ZipFile(tmp_path / wheel.name, "w") as changed,
    ):
        for name in archive.namelist():
            changed.writestr(
                name, kernel if name == COMPILED_MODULE.as_posix() else archive.read(name)
            )
    tools = ("--no-project", "--with-requirements", GROUPS["wheels"])
    command = (of_the_environment("uv"), "run", "--quiet", *tools)
    done = finished([*command, "python", "-m", "tests.deploy.wheels", tmp_path], cwd=ROOT)
    assert done.returncode == 1
    assert said in done.stderr


@pytest.mark.nightly
def test_the_bills_of_materials_name_all_that_the_image_holds(dist: Path) -> None:
    python = json.loads((dist / f"streameval-{VERSION}.cdx.json").read_text(encoding="utf-8"))
    page = json.loads((dist / f"streameval-{VERSION}-page.cdx.json").read_text(encoding="utf-8"))
    named = {
        canonicalize_name(component["name"]): component["version"]
        for component in python["components"]
    }
    named.pop(canonicalize_name("streameval"), None)
    assert named == {name: str(version) for name, version in _pinned(LOCK).items()}
    assert python["metadata"]["component"]["version"] == VERSION
    assert [component["name"] for component in page["components"]] == ["uplot"]


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("kind", "compiler", "kernel"),
    [
        (f"*.manylinux2014_{machine()}.whl", None, "compiled"),
        ("*-none-any.whl", None, "python"),
        ("*.tar.gz", "cc", "compiled"),
        ("*.tar.gz", None, "python"),
    ],
    ids=["wheel", "pure wheel", "sdist", "sdist without compiler"],
)
@pytest.mark.parametrize("minor", PYTHONS)
def test_a_distribution_works_in_an_empty_environment(
    dist: Path, tmp_path: Path, minor: int, kind: str, compiler: str | None, kernel: str
) -> None:
    _run_command(_interpreter(minor), "-m", "venv", "env", folder=tmp_path)
    programs = tmp_path / "env" / "bin"
    pip = (programs / "pip", "install", "--quiet")
    _run_command(*pip, "--require-hashes", "-r", LOCK, folder=tmp_path)
    if kind == "*.tar.gz":
        _run_command(*pip, *_pyproject()["build-system"]["requires"], folder=tmp_path)
    # Neither a registry nor Node, from here on.
    (built,) = dist.glob(kind)
    alone = ("--no-index", "--no-deps", "--no-build-isolation", built)
    path = str(programs) if compiler is None else f"{programs}{os.pathsep}{os.environ['PATH']}"
    _run_command(*pip, *alone, folder=tmp_path, PATH=path)
    _run_command(programs / "pip", "check", folder=tmp_path)
    streameval = programs / "streameval"
    said = _run_command(streameval, "--version", folder=tmp_path)
    assert said == f"streameval {VERSION} (kernel: {kernel})\n"
    demo = ("demo", "--seconds", "3", "--listen", "127.0.0.1:0")
    output = _run_command(streameval, *demo, folder=tmp_path, PATH=str(programs))
    assert re.search(r"ctr .* 0\.\d+ ", output)
    config = DEPLOY / "config" / "simulator.toml"
    checked = _run_command(streameval, "check", config, folder=tmp_path, PATH=str(programs))
    assert checked.startswith("valid ")


@pytest.mark.nightly
@pytest.mark.parametrize("kernel", ["compiled", "python"])
def test_the_first_command_of_the_readme_works_with_and_without_a_c_compiler(
    checkout: Path, tmp_path: Path, kernel: str
) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"^    (python3 -m venv .+/streameval demo)$", text, re.MULTILINE)
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "python3").symlink_to(sys.executable)
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    compiler = {} if kernel == "compiled" else {"CC": "false"}
    goal = shutil.copytree(checkout, tmp_path / "checkout", ignore=shutil.ignore_patterns("dist"))
    once = f"{command} --seconds 3 --listen 127.0.0.1:0"
    output = _run_command("sh", "-c", once, folder=goal, PATH=path, **compiler)
    assert re.search(r"ctr .* 0\.\d+ ", output)
    said = _run_command(goal / ".venv" / "bin" / "streameval", "--version", folder=tmp_path)
    assert said == f"streameval {VERSION} (kernel: {kernel})\n"


_USERS = [
    "cli",
    "columnar",
    "config",
    "contract",
    "decoding",
    "engine",
    "exporters",
    "fuzz",
    "schemas",
    "sources",
    "stores",
]
"""Folders of the tests of what uses other packages."""
_RUNTIME = [
    "broker",
    "daemon",
    "fast",
    "objectstore",
    "otlp",
    "plot",
    "report",
    "schemas",
    "tables",
]
"""The extras whose lower bounds are tried; those of Beam and Spark are large."""


@pytest.mark.nightly
def test_the_oldest_versions_that_are_allowed_suffice(tmp_path: Path) -> None:
    checkout = _checked_out(tmp_path / "checkout")
    python, uv = tmp_path / "env" / "bin" / "python", of_the_environment("uv")
    _run_command(uv, "venv", "--quiet", "--python", sys.executable, "env", folder=tmp_path)
    install = (uv, "pip", "install", "--quiet", "--python", python)
    product = ("--editable", f".[{','.join(_RUNTIME)}]")
    _run_command(*install, "--resolution", "lowest-direct", *product, folder=checkout)
    frozen = _run_command(uv, "pip", "freeze", "--python", python, folder=tmp_path)
    project = _pyproject()["project"]
    optional = project["optional-dependencies"]
    direct = {
        canonicalize_name(Requirement(requirement).name)
        for requirements in (project["dependencies"], *(optional[extra] for extra in _RUNTIME))
        for requirement in requirements
    }
    pins = [pin for pin in frozen.splitlines() if canonicalize_name(pin.split("==")[0]) in direct]
    assert {canonicalize_name(pin.split("==")[0]) for pin in pins} == direct
    (tmp_path / "pins.txt").write_text("\n".join(pins), encoding="utf-8")
    # The newest tools that leave these as they are.
    _, *tools = optional["test"]
    pinned = ("--constraint", tmp_path / "pins.txt")
    _run_command(*install, *pinned, *product, *tools, "pandas>=2.2,<3", folder=checkout)
    # New tools warn of what the old versions import.
    quick = ("-m", "not nightly and not kafka and not browser", "--hypothesis-profile", "quick")
    command = (python, "-m", "pytest", "-q", "-W", "ignore::DeprecationWarning", *quick)
    path = f"{python.parent}{os.pathsep}{os.environ['PATH']}"
    _run_command(
        *(*command, "--numprocesses", "4", "--dist", "loadgroup"),
        *(f"tests/{folder}" for folder in _USERS),
        folder=checkout,
        PATH=path,
    )


def _interpreter(minor: int) -> Path:
    """A Python of this release that can make environments; skips where there is none."""
    name = f"python3.{minor}"
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    interpreters = [*pyenv.glob(f"versions/3.{minor}.*/bin/{name}")]
    on_the_path = shutil.which(name)
    interpreters += [] if on_the_path is None else [Path(on_the_path)]
    for interpreter in interpreters:
        command = [str(interpreter), "-c", "import venv, ensurepip"]
        if subprocess.run(command, capture_output=True, check=False).returncode == 0:
            return interpreter
    pytest.skip(f"no {name} here")
