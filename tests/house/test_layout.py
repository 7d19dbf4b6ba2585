"""Layout of the repository, sizes of modules and functions, and forbidden text."""

from __future__ import annotations

import re
import tomllib

from streameval.catalogue import catalogue
from tests.effort import every_case
from tests.house.checkout import PACKAGE, ROOT, files, functions, modules, texts

TOP_LEVEL = {
    *("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "CONTRIBUTING.md"),
    *("streameval", "tests", "deploy", "docs"),
}
FILE_LINES = 500
BODY_LINES = 40

# One-letter character classes keep the patterns from matching this file.
FORBIDDEN = {
    "a marker for later": r"\b([T]ODO|[F]IXME|[X]XX|[H]ACK)\b",
    "an absolute path of one machine": r"(?<![\w.:/])/(root|home|work|Users)/[\w]",
    "a registry's host": (
        r"[p]ypi\.org|[p]ythonhosted|[n]pmjs\.|[r]epo1?\.maven|[d]ocker\.io/|[g]hcr\.io"
    ),
}


def test_the_top_level_has_the_agreed_entries_only() -> None:
    found = {path.relative_to(ROOT).parts[0] for path in files()}
    assert {name for name in found if not name.startswith(".")} == TOP_LEVEL


@every_case("what", FORBIDDEN)
def test_no_file_contains_forbidden_text(what: str) -> None:
    pattern = re.compile(FORBIDDEN[what])
    assert [
        (path, each[0]) for path, text in texts().items() for each in pattern.finditer(text)
    ] == []


@every_case(
    ("what", "text"),
    [
        ("a marker for later", "# todo: later".upper()),
        ("an absolute path of one machine", "open('/HOME/x/y')".lower()),
        ("a registry's host", "https://PYPI.ORG/simple".lower()),
    ],
)
def test_every_pattern_finds_its_example(what: str, text: str) -> None:
    assert re.search(FORBIDDEN[what], text)


def test_every_suppression_has_a_rule_and_a_reason() -> None:
    pattern = re.compile(r"#\s*(?:[n]oqa|[t]ype:\s*ignore)(?P<rest>.*)")
    said = re.compile(r"^(?:: ?[A-Z]+\d+(?:, ?[A-Z]+\d+)*|\[[a-z-]+(?:, ?[a-z-]+)*\])\s+#?\s*\w.*")
    found = [
        (path, each[0])
        for path, text in texts().items()
        if path.suffix == ".py"
        for each in pattern.finditer(text)
        if not said.match(each["rest"])
    ]
    assert found == []


def test_no_module_of_the_package_is_too_long() -> None:
    sizes = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in modules()}
    assert {str(path): lines for path, lines in sizes.items() if lines > FILE_LINES} == {}


def test_no_function_of_the_package_is_too_long() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {name} has {lines} lines"
        for path in modules()
        for name, lines in functions(path)
        if lines > BODY_LINES
    ]
    assert found == []


def test_no_file_has_a_catch_all_name() -> None:
    drawers = {"utils", "util", "helpers", "helper", "common", "manager", "misc", "base"}
    found = [str(path) for path in files() if path.stem in drawers]
    assert found == []


def test_the_linter_requires_docstrings_in_the_package() -> None:
    lint = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["ruff"]
    rules = lint["lint"]
    asked = {"D", "D1", "D101", "D102", "D103", "D106"}
    assert rules["select"] == ["ALL"]
    assert asked.isdisjoint(rules["ignore"])
    assert not [path for path in rules["per-file-ignores"] if not path.startswith("tests/")]


def test_mypy_is_strict_over_the_package_and_the_tests() -> None:
    mypy = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["mypy"]
    assert mypy["strict"] is True
    assert mypy["files"] == ["streameval", "tests"]
    assert not [entry for entry in mypy["overrides"] if "ignore_errors" in entry]


def test_every_metric_has_a_file_of_its_name() -> None:
    found = (PACKAGE / "metrics").glob("[!_]*.py")
    assert {path.stem for path in found} == set(catalogue())


def test_every_folder_of_tests_is_a_package() -> None:
    folders = {path.parent for path in (ROOT / "tests").rglob("*.py")}
    assert [str(folder) for folder in folders if not (folder / "__init__.py").is_file()] == []
