"""Every streameval command in the documents parses."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from streameval.cli.app import app
from tests.docs.markdown import fences, indented, label, pages
from tests.effort import every_case

PROGRAM = typer.main.get_command(app)
_START = re.compile(r"(?:^|(?<=\|)|(?<=&&)|(?<=\bdo)) *(?:\S*/)?streameval(?= [a-z-])")
_END = re.compile(r" *(?:\d?>|\||&&|\|\||; |&$|  +[^-\s]| #).*")
_LANGUAGES = ("sh", "bash", "console", "text")


def _commands(text: str) -> Iterator[str]:
    lines = [line for each in fences(text) if each.language in _LANGUAGES for line in _joined(each)]
    for line in [*lines, *_whole(indented(text))]:
        for found in _START.finditer(line):
            yield _END.sub("", line[found.end() :]).strip()


def _joined(block: object) -> list[str]:
    return list(_whole(getattr(block, "code", "").splitlines()))


def _whole(lines: Iterator[str] | list[str]) -> Iterator[str]:
    """Lines, with continuation lines joined."""
    return iter("\n".join(lines).replace("\\\n", " ").splitlines())


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


def test_every_command_in_the_documents_parses(subtests: pytest.Subtests) -> None:
    for page in pages():
        with subtests.test(label(page)):
            commands = _commands(page.read_text(encoding="utf-8"))
            assert [found for line in commands if (found := _problem(line))] == []


def test_commands_are_found_in_indented_and_fenced_blocks() -> None:
    piped = "```sh\ncat x | streameval evaluate - \\\n -m ctr > y\n```\n"
    text = f"a\n\n    streameval check a.toml   # why\n\n{piped}"
    assert list(_commands(text)) == ["evaluate -   -m ctr", "check a.toml"]


@every_case("line", ["evaluate --nothing", "nothing", "state nothing", "run"])
def test_an_unknown_command_is_reported(line: str) -> None:
    assert _problem(line) != ""
