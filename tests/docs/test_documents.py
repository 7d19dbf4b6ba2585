"""Code, links, commands and queries in the documents work, and their tables are complete."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import msgspec
import pytest
import typer

from streameval.catalogue.conventions import CONVENTIONS
from streameval.catalogue.signature import readable
from streameval.cli.app import app
from streameval.cli.metrics import STATISTICS
from streameval.config import load
from streameval.config.config import configuration
from streameval.config.tables import WebOptions
from streameval.decoding.decode import Decoder
from streameval.events import Event
from streameval.exporters.web.openapi import attribute_texts
from streameval.exporters.web.webconfig import TlsServerConfig, WebConfig
from streameval.sources.kafka.diagnosis import FAILURE_REASONS as CONNECTION_REASONS
from tests.decoding.records import read
from tests.docs.generated import MIGRATE
from tests.docs.markdown import anchors, fences, indented, label, links, pages
from tests.house.checkout import ROOT, files
from tests.processes import finished
from tests.prometheus.server import program

README = (ROOT / "README.md").read_text(encoding="utf-8")
_THREATS = ROOT / "docs" / "explanation" / "threat-model.md"


def _blocks(language: str) -> list[tuple[str, str]]:
    return [
        (f"{label(page)}-{number}", block.code)
        for page in pages()
        for number, block in enumerate(fences(page.read_text(encoding="utf-8")), 1)
        if block.language == language and not block.name
    ]


def _table(page: str, heading: str) -> dict[str, str]:
    """First column, without its quotes -> the rest of each row below a heading."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    section = text.partition(f"{heading}\n")[2]
    section = re.split(r"^#", section, maxsplit=1, flags=re.MULTILINE)[0]
    return dict(re.findall(r"^\| `([^`]+)` \| (.*) \|$", section, re.MULTILINE))


_SCRIPTS = _blocks("python")


@pytest.mark.parametrize(("name", "code"), _SCRIPTS, ids=[name for name, _ in _SCRIPTS])
def test_a_script_in_the_documents_runs(name: str, code: str, tmp_path: Path) -> None:
    script = tmp_path / f"{name.replace('/', '_').replace('.', '_')}.py"
    script.write_text(code, encoding="utf-8")
    command = [sys.executable, "-W", "error", str(script)]
    result = finished(command, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    promised = re.findall(r"print\(.*# ([0-9.]+|\[.*?\])", code)
    assert result.stdout.splitlines() == promised


@pytest.mark.parametrize(("name", "code"), _blocks("toml"))
def test_a_configuration_in_the_documents_loads(name: str, code: str, tmp_path: Path) -> None:
    path = tmp_path / "streameval.toml"
    metrics = "" if "metrics" in tomllib.loads(code) else 'metrics = ["mrr"]\n'
    path.write_text(metrics + code, encoding="utf-8")
    assert load(path).metrics, name


def test_the_record_of_the_readme_is_valid_under_its_configuration(tmp_path: Path) -> None:
    block = {fence.language: fence.code for fence in fences(README)}
    path = tmp_path / "streameval.toml"
    path.write_text(block["toml"])
    config = load(path)
    event = read(Decoder(config.event, config.dimensions()), block["json"].encode())
    assert isinstance(event, Event)
    assert (event.labels, event.interactions) == (("a",), ["b"])
    assert event.ts is not None


def test_every_test_that_the_threat_model_names_exists() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", _THREATS.read_text(encoding="utf-8"))
    texts = {path: (ROOT / path).read_text(encoding="utf-8") for path, _ in named}
    assert named
    assert [pair for pair in named if f"def {pair[1]}(" not in texts[pair[0]]] == []


def test_the_runbook_has_every_reason_of_a_failed_connection() -> None:
    assert set(_table("runbook.md", "## StreamevalKafkaFailing")) == set(CONNECTION_REASONS)


CONTRIBUTING = " ".join((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split())
_FILE = re.compile(r"`([a-z_/]+/(?:[a-z_]+|<\w+>)\.(?:py|js|md))`")
_GROUP = re.compile(r"`([a-z/]+)/` \(([^)]+)\)")


def _named(text: str) -> set[str]:
    """Files that a text names, singly or grouped by folder."""
    groups = {
        f"{folder}/{name}.py"
        for folder, modules in _GROUP.findall(text)
        for name in re.findall(r"`(\w+)`", modules)
    }
    return groups | set(_FILE.findall(text))


def test_every_file_that_contributing_names_exists() -> None:
    named = {path for path in _named(CONTRIBUTING) if "<" not in path}
    roots = (ROOT, ROOT / "streameval")
    assert named
    assert [path for path in named if not any((root / path).is_file() for root in roots)] == []


def _broken(page: Path, text: str) -> list[str]:
    inside = [link for link in links(text) if "://" not in link and not link.startswith("mailto:")]
    return [link for link in inside if not _leads(page, text, unquote(link))]


def _leads(page: Path, text: str, link: str) -> bool:
    path, _, section = link.partition("#")
    goal = (page.parent / path).resolve() if path else page
    # Only files of the checkout count; others exist on this machine only.
    if not goal.is_dir() and goal not in files():
        return False
    if not section:
        return goal.is_relative_to(ROOT)
    other = text if goal == page else goal.read_text(encoding="utf-8")
    return goal.suffix != ".md" or section in anchors(other)


def test_every_internal_link_has_a_target() -> None:
    broken = {label(page): _broken(page, page.read_text(encoding="utf-8")) for page in pages()}
    assert {name: targets for name, targets in broken.items() if targets} == {}


def test_every_page_is_in_an_index() -> None:
    docs = ROOT / "docs"
    index = {
        (docs / link.partition("#")[0]).resolve()
        for link in links((docs / "README.md").read_text(encoding="utf-8"))
    }
    inside = [page for page in pages() if page.is_relative_to(docs) and page != docs / "README.md"]
    missing = [page for page in inside if not {page, page.parent} & index]
    listed = {(docs / "reference" / "metrics.md").resolve()} <= index
    assert [label(page) for page in missing if not (listed and page.parent.name == "metrics")] == []


PROGRAM = typer.main.get_command(app)
_START = re.compile(r"(?:^|(?<=\|)|(?<=&&)|(?<=\bdo)) *(?:\S*/)?streameval(?= [a-z-])")
_END = re.compile(r" *(?:\d?>|\||&&|\|\||; |&$|  +[^-\s]| #).*")
_LANGUAGES = ("sh", "bash", "console", "text")


def _commands(text: str) -> Iterator[str]:
    shown = [
        line
        for fence in fences(text)
        if fence.language in _LANGUAGES
        for line in fence.code.splitlines()
    ]
    joined = "\n".join([*shown, *indented(text)]).replace("\\\n", " ")
    for line in joined.splitlines():
        for match in _START.finditer(line):
            yield _END.sub("", line[match.end() :]).strip()


def _problem(line: str) -> str:
    words = [re.sub(r"^\$\w+", "file", word) for word in shlex.split(line)]
    try:
        _parsed(words)
    except typer.TyperException as error:
        return f"streameval {line}: {error}"
    return ""


def _parsed(words: list[str]) -> None:
    context = PROGRAM.make_context("streameval", list(words))
    command: Any = PROGRAM
    while hasattr(command, "commands"):
        rest = [*context._protected_args, *context.args]
        name, command, rest = command.resolve_command(context, rest)
        context = command.make_context(name, rest, parent=context)


def test_every_command_in_the_documents_parses() -> None:
    commands = [line for page in pages() for line in _commands(page.read_text(encoding="utf-8"))]
    assert len(commands) > 30
    assert [problem for line in commands if (problem := _problem(line))] == []


def _queries(text: str) -> Iterator[str]:
    """Lines that begin with a query, each with the more indented lines below it."""
    lines = list(indented(text))
    for number, line in enumerate(lines):
        if not line.startswith(" ") and re.match(r"sum |sum\(|rate\(|streameval_", line):
            rest = lines[number + 1 :]
            end = next(
                (i for i, following in enumerate(rest) if not following.startswith(" ")), len(rest)
            )
            yield " ".join([line, *(following.strip() for following in rest[:end])])


def _checked(queries: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    rules = [f"    - record: q{n}\n      expr: '{query}'" for n, query in enumerate(queries)]
    path = folder / "rules.yml"
    path.write_text("\n".join(["groups:\n- name: a\n  rules:", *rules, ""]), encoding="utf-8")
    command = [program("promtool"), "check", "rules", str(path)]
    return finished(command)


@pytest.mark.prometheus
def test_prometheus_parses_every_query(tmp_path: Path) -> None:
    queries = [query for page in pages() for query in _queries(page.read_text(encoding="utf-8"))]
    assert len(queries) > 5
    done = _checked(queries, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_generated_file_is_up_to_date() -> None:
    # In a process of its own: equal Literals have the order that was evaluated first.
    command = [sys.executable, "-m", "tests.docs"]
    done = finished(command, cwd=ROOT)
    assert done.stdout == "all files are up to date\n", "write them: python -m tests.docs --write"


def test_every_statistic_is_explained() -> None:
    assert set(STATISTICS) == set(readable())


@pytest.mark.parametrize("struct", [configuration(), WebOptions])
def test_every_key_is_documented(struct: type[msgspec.Struct]) -> None:
    names = {field.name for field in msgspec.structs.fields(struct)}
    assert set(attribute_texts(struct)) >= names


def test_every_key_of_the_web_configuration_file_is_documented() -> None:
    text = (ROOT / "docs" / "how-to" / "web.md").read_text(encoding="utf-8")
    keys = [
        field.name
        for struct in (WebConfig, TlsServerConfig)
        for field in msgspec.structs.fields(struct)
    ]
    assert [key for key in keys if f"`{key}`" not in text] == []


def test_the_page_of_migration_has_a_list_for_every_system() -> None:
    listed = set(re.findall(r"<!-- names of (\w+) -->", MIGRATE.read_text(encoding="utf-8")))
    assert listed == set(CONVENTIONS) - {"replay_0_9", "replay_0_11"}
