"""Forbidden text, names, imports of the core, and what CI requires."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from streameval.catalogue import catalogue
from tests.house.checkout import PACKAGE, ROOT, modules, texts
from tests.processes import finished

# One-letter character classes keep the patterns from matching this file.
FORBIDDEN = {
    "a marker for later": r"\b([T]ODO|[F]IXME|[X]XX|[H]ACK)\b",
    "an absolute path of one machine": r"(?<![\w.:/])/(root|home|work|Users)/[\w]",
    "a registry's host": (
        r"[p]ypi\.org|[p]ythonhosted|[n]pmjs\.|[r]epo1?\.maven|[d]ocker\.io/|[g]hcr\.io"
    ),
}


@pytest.mark.parametrize("what", FORBIDDEN)
def test_no_file_contains_forbidden_text(what: str) -> None:
    pattern = re.compile(FORBIDDEN[what])
    assert [
        (path, match[0]) for path, text in texts().items() for match in pattern.finditer(text)
    ] == []


PRIVATE_NAMES = {
    "_sender": "tests/kafka/test_trouble.py::"
    "test_a_producer_closes_its_thread_while_the_broker_is_silent",
    "_coordinator": "tests/kafka/test_group.py::"
    "test_a_topic_created_later_is_assigned_even_with_short_polls",
}
"""Private name of a library that the package uses -> the test that fails without it."""


def test_a_test_needs_each_private_name_of_a_library_that_the_package_uses() -> None:
    # Ruff finds them all, and each needs a suppression.
    used = re.compile(r".*\.(_[a-z]\w*).*[n]oqa: SLF001|getattr\(\w+, \"(_[a-z]\w*)\"")
    package = "\n".join(_package().values())
    names = {next(filter(None, match.groups())) for match in used.finditer(package)}
    own = {name for name in names if re.search(rf"\bself\.{name}\b", package)}
    assert names - own == PRIVATE_NAMES.keys()
    for place in PRIVATE_NAMES.values():
        path, name = place.split("::")
        assert f"def {name}(" in (ROOT / path).read_text(encoding="utf-8")


def test_no_object_is_changed_behind_its_class() -> None:
    behind = re.compile(
        r"\.__class__ = |object\.__[n]ew__|__dict__\.(update|setdefault)|vars\(\w+\)\["
    )
    assert [
        (path, match[0])
        for path, text in texts().items()
        if path.parts[0] == "streameval"
        for match in behind.finditer(text)
    ] == []


def test_every_suppression_has_a_rule_and_a_reason() -> None:
    pattern = re.compile(r"#\s*(?:[n]oqa|[t]ype:\s*ignore)(?P<rest>.*)")
    said = re.compile(r"^(?:: ?[A-Z]+\d+(?:, ?[A-Z]+\d+)*|\[[a-z-]+(?:, ?[a-z-]+)*\])\s+#?\s*\w.*")
    bare = [
        (path, match[0])
        for path, text in texts().items()
        if path.suffix == ".py"
        for match in pattern.finditer(text)
        if not said.match(match["rest"])
    ]
    assert bare == []


@pytest.mark.parametrize("declaration", [r"^ *class (\w+)", r"^([A-Z]\w+)(?:: .*)? = "])
def test_no_class_alias_or_constant_stands_twice_in_the_package(declaration: str) -> None:
    assert _twice(declaration) == {}


def _twice(declaration: str) -> dict[str, list[Path]]:
    """What the package declares in more than one file, by name."""
    result: dict[str, list[Path]] = {}
    for path, text in _package().items():
        for name in dict.fromkeys(re.findall(declaration, text, re.MULTILINE)):
            result.setdefault(name, []).append(path)
    return {name: paths for name, paths in result.items() if len(paths) > 1}


def _package() -> dict[Path, str]:
    """File of the package, below it -> its text."""
    return {path.relative_to(PACKAGE): path.read_text(encoding="utf-8") for path in modules()}


_ROLES = {
    # A command has the name of what it calls; subcommands have those of their verbs.
    *("changes", "compare", "evaluate", "plan", "show"),
    # Each analysis has its section and its alerts, each kind of schema its reader, each kernel both
    # matches.
    *("match", "match_codes", "monitoring", "reader", "section"),
    # Each kind of statistic has its specifications, their names, and its readings.
    *("names", "read", "specs"),
    # What a source can do, asked by its kind.
    *("newest_records", "probe", "rights"),
}
"""Functions of one name that do the same for different things."""


def test_no_function_of_the_package_has_the_name_of_another_but_by_its_role() -> None:
    assert _twice(r"^def ([a-z]\w*)").keys() == _ROLES


def test_a_class_inherits_from_a_class_of_the_package_only_once() -> None:
    parents = {
        name: set(re.findall(r"\w+", _outside_brackets(bases)))
        for text in _package().values()
        for name, bases in re.findall(r"^ *class (\w+)\(([^)]*)\):", text, re.MULTILINE)
        # A caller may catch an error by its family, which is a tree.
        if not name.endswith("Error")
    }
    declared = {
        name
        for text in _package().values()
        for name in re.findall(r"^ *class (\w+)", text, re.MULTILINE)
    }
    heirs = {name for name, bases in parents.items() if bases & declared}
    assert {name: bases & heirs for name, bases in parents.items() if bases & heirs} == {}
    assert {"Hits", "Values", "HashSample"} <= heirs


def _outside_brackets(text: str) -> str:
    while "[" in text:
        text = re.sub(r"\[[^\[\]]*\]", "", text)
    return text


def test_every_metric_has_a_file_of_its_name() -> None:
    metric_files = (PACKAGE / "metrics").glob("[!_]*.py")
    assert {path.stem for path in metric_files} == set(catalogue())


# msgspec imports typing_extensions if it is installed.
ALLOWED = {"numpy", "msgspec", "streameval", "typing_extensions"}
_WHICH = """
import json, sys
before = set(sys.modules)
import streameval
streameval.Accumulator
new = {name.partition(".")[0] for name in set(sys.modules) - before}
print(json.dumps(sorted(new - set(sys.stdlib_module_names))))
"""


def test_the_package_imports_numpy_and_msgspec_only() -> None:
    command = [sys.executable, "-I", "-c", _WHICH]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert set(json.loads(result.stdout)) <= ALLOWED


_CONFTEST = """
from tests.real_parts import pytest_report_header, pytest_runtest_makereport
"""
_TESTS = """
import pytest

@pytest.fixture
def broker():
    pytest.skip("no real Kafka here")

@pytest.mark.kafka
def test_of_a_broker(broker): ...

@pytest.mark.kafka
@pytest.mark.xfail(strict=True)
def test_that_is_known_to_fail(): assert False
"""


def test_a_missing_service_fails_in_ci_and_the_header_lists_services(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = kafka: a broker\n")
    (tmp_path / "conftest.py").write_text(_CONFTEST)
    (tmp_path / "test_parts.py").write_text(_TESTS)
    environment = {**os.environ, "CI": "true", "PYTHONPATH": str(ROOT)}
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    command = [sys.executable, "-m", "pytest", "-rs", "-p", "no:cacheprovider"]
    result = finished(command, cwd=tmp_path, env=environment)
    assert result.returncode == 1
    assert "no real Kafka here" in result.stdout
    assert "1 xfailed, 1 error" in result.stdout
    for part in ("kafka broker: ", "prometheus: ", "promtool: ", "browser: "):
        assert part in result.stdout


@pytest.mark.parametrize("script", ["tests/run", "tests/nightly", ".ci/run"])
def test_a_script_is_executable_and_valid_bash(script: str) -> None:
    assert os.access(ROOT / script, os.X_OK)
    subprocess.run(["bash", "-n", str(ROOT / script)], check=True)


def test_ci_runs_the_command_in_the_readme_only() -> None:
    lines = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    commands = [line for line in lines if line and not line.startswith(("#", "set "))]
    assert len(commands) == 1
    assert commands[0].endswith('/../tests/run"')
    assert "`tests/run`" in (ROOT / "README.md").read_text(encoding="utf-8")
