"""What lies in deploy/, read as those read it for whom it is."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.house.checkout import ROOT

DEPLOY = ROOT / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
BASE = KUBERNETES / "base"


def changed(path: Path, changes: Mapping[str, str]) -> str:
    """The text of a file with these replacements, each of which it has room for once."""
    text = path.read_text(encoding="utf-8")
    for before, after in changes.items():
        assert text.count(before) == 1, before
        text = text.replace(before, after)
    return text


def documents(path: Path) -> list[dict[str, Any]]:
    return [*yaml.safe_load_all(path.read_text(encoding="utf-8"))]


def document(path: Path) -> dict[str, Any]:
    (only,) = documents(path)
    return only


def compose() -> dict[str, Any]:
    """compose.yaml, with its merges carried out."""
    return document(DEPLOY / "compose.yaml")


def instructions(path: Path = DEPLOY / "Dockerfile") -> Iterator[tuple[str, str]]:
    """Each instruction of a Dockerfile with its arguments, continuation lines joined."""
    text = re.sub(r"(?m)^#.*\n", "", path.read_text(encoding="utf-8"))
    for line in text.replace("\\\n", " ").splitlines():
        if line.strip():
            word, _, rest = line.partition(" ")
            yield word.upper(), " ".join(rest.split())


def instruction(name: str) -> str:
    """What the last instruction of that name in our Dockerfile says."""
    return [rest for word, rest in instructions() if word == name][-1]


def image_arguments() -> list[str]:
    """What the image starts: the program of its entry point, and its command."""
    program = re.findall(r"exec (\S+) ", image_script())
    return [*program, *json.loads(instruction("CMD"))]


def image_script() -> str:
    """What the shell of the entry point runs, with the arguments of the container."""
    shell, option, script, name = json.loads(instruction("ENTRYPOINT"))
    assert (shell, option, name) == ("/bin/sh", "-c", "streameval")
    return str(script)


def of_the_environment(name: str) -> Path:
    """A program that pip has put beside Python."""
    return Path(sys.executable).parent / name


def of_the_system(name: str) -> str:
    """A program of the system; skips where it is not there."""
    program = shutil.which(name)
    if program is None:
        pytest.skip(f"no {name} here")
    return program
