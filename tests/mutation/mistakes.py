"""Mistakes in the source of the package, and an import that makes one of them.

As a plugin of pytest (`-p tests.mutation.mistakes`) it makes the mistake whose words are in the
variable `STREAMEVAL_MISTAKE`. A process of its own is the only one that sees it.
"""

from __future__ import annotations

import os
import sys
import tomllib
from collections.abc import Iterator, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Final, NamedTuple

VARIABLE: Final = "STREAMEVAL_MISTAKE"
_TESTS: Final = Path(__file__).parents[1]


class Mistake(NamedTuple):
    """A mistake.

    Attributes:
        file: of the package.
        what: in words, unlike all others.
        right: the text that is replaced.
        wrong: what it becomes.
        test: the node of pytest that must fail then, below tests/.
    """

    file: str
    what: str
    right: str
    wrong: str
    test: str

    def source(self) -> str:
        """The source with the mistake; AssertionError if the right text does not stand once."""
        text = (_TESTS.parent / "streameval" / self.file).read_text(encoding="utf-8")
        assert text.count(self.right) == 1, f"{self.file}: {self.right!r} stands not once"
        return text.replace(self.right, self.wrong)


def mistakes() -> Iterator[Mistake]:
    """All of mistakes.toml."""
    with (_TESTS / "mutation" / "mistakes.toml").open("rb") as file:
        for name, rows in tomllib.load(file).items():
            yield from (Mistake(name, *row) for row in rows)


class _Loader(SourceFileLoader):
    def __init__(self, spec: ModuleSpec, mistake: Mistake) -> None:
        super().__init__(spec.name, spec.origin or "")
        self._mistake = mistake

    def get_code(self, fullname: str) -> CodeType:
        """The code of the source with the mistake."""
        return compile(self._mistake.source(), self.get_filename(fullname), "exec")


class _Finder(MetaPathFinder):
    def __init__(self, mistake: Mistake) -> None:
        self._mistake = mistake
        stem = self._mistake.file.removesuffix(".py").removesuffix("/__init__")
        self._module = f"streameval.{stem.replace('/', '.')}"

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module, with a loader that makes the mistake."""
        if fullname != self._module:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        assert spec is not None, fullname
        spec.loader = _Loader(spec, self._mistake)
        return spec


if VARIABLE in os.environ:
    (_MADE,) = (mistake for mistake in mistakes() if mistake.what == os.environ[VARIABLE])
    sys.meta_path.insert(0, _Finder(_MADE))
