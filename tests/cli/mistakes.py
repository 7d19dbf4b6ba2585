"""What the program says of mistakes: mistakes.toml has the files, the commands and every line.

`python -m tests.cli.mistakes` writes the answers anew; read the difference before you commit it.
"""

from __future__ import annotations

import json
import shlex
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import chdir
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from tests.cli.program import run

FILE: Final = Path(__file__).with_suffix(".toml")
STDIN: Final = "-"
_PREFIX: Final = "streameval: "
Content: TypeAlias = "str | list[Any]"
"""Text, or pieces of it, each with how often it stands there."""


class Mistake(NamedTuple):
    """A command that goes wrong, or is doubted.

    Attributes:
        about: what the mistake is, in words.
        files: of the folder that it runs in.
        said: all of standard error; `...` for the words of another library.
    """

    about: str
    files: Mapping[str, Content]
    command: str
    status: int
    said: str

    def answer(self, folder: Path) -> tuple[int, str]:
        """Status and standard error in an empty folder; a usage error prints nothing else."""
        for name, content in self.files.items():
            _write(folder / name, content)
        stdin = _text(self.files.get(STDIN, "")).encode("latin-1")
        with chdir(folder):
            done = run(*shlex.split(self.command), stdin=stdin)
        assert done.returncode != 2 or not done.stdout
        lines = done.stderr.splitlines()
        assert all(line.startswith((_PREFIX, "  ")) for line in lines), done.stderr
        said = "\n".join(line.removeprefix(_PREFIX) for line in lines)
        return done.returncode, said.replace(str(folder), "{here}")


def mistakes() -> Iterator[Mistake]:
    """All of mistakes.toml."""
    for about, part in tomllib.loads(FILE.read_text(encoding="utf-8")).items():
        for command, status, said, *files in part["said"]:
            yield Mistake(about, part.get("files", {}) | dict(*files), command, status, said)


def _text(content: Content) -> str:
    if isinstance(content, str):
        return content
    return "".join(text * times for text, times in zip(content[::2], content[1::2], strict=True))


def _write(path: Path, content: Content) -> None:
    """A file, a folder if it is called so, or a table of parquet of lines of JSON."""
    text = _text(content)
    if path.name == STDIN:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    if text == "a folder":
        path.mkdir()
    elif path.suffix in {".parquet", ".pq"} and text:
        pq.write_table(pa.Table.from_pylist([*map(json.loads, text.splitlines())]), path)
    else:
        path.write_bytes(text.encode("latin-1"))


def _toml(value: object) -> str:
    if isinstance(value, Mapping):
        pairs = ", ".join(f'"{name}" = {_toml(content)}' for name, content in value.items())
        return f"{{ {pairs} }}"
    return json.dumps(value)


def main() -> None:
    """Write the answers of today; those with words of another library stay as they are."""
    parts = tomllib.loads(FILE.read_text(encoding="utf-8"))
    head, _, _ = FILE.read_text(encoding="utf-8").partition("\n\n")
    lines = [head]
    answers = iter(mistakes())
    for about, part in parts.items():
        lines += ["", f"[{json.dumps(about)}]"]
        lines += [f"files = {_toml(part['files'])}"] if "files" in part else []
        lines.append("said = [")
        for row in part["said"]:
            mistake = next(answers)
            with tempfile.TemporaryDirectory() as folder:
                status, said = mistake.answer(Path(folder))
            row[1:3] = [status, row[2] if "..." in row[2] else said]
            lines.append(f"  [{', '.join(map(_toml, row))}],")
        lines.append("]")
    FILE.write_text("\n".join([*lines, ""]), encoding="utf-8")


if __name__ == "__main__":
    main()
