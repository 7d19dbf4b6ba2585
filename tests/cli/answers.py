"""What the program prints and says: files of commands, of their folders, and of every line.

mistakes.toml has commands that go wrong, values.toml those that print values: a row for a command,
or several, before which may stand the files that they share.
`python -m tests.cli.answers` writes the answers anew; read the difference before you commit it.
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

FILES: Final = [Path(__file__).with_name(name) for name in ("mistakes.toml", "values.toml")]
STDIN: Final = "-"
_PREFIX: Final = "streameval: "
Content: TypeAlias = "str | list[Any]"
"""Text, or pieces of it, each with how often it stands there."""


class Answer(NamedTuple):
    """What a command answers.

    Attributes:
        about: what the command shows, in words.
        files: of the folder that it runs in.
        result: its status if it goes wrong, or is doubted; or else all that it prints.
        said: all of standard error; `...` for the words of another library.
    """

    about: str
    files: Mapping[str, Content]
    command: str
    result: int | str
    said: str

    def of_today(self, folder: Path) -> tuple[int | str, str]:
        """Result and standard error in an empty folder; a usage error prints nothing else."""
        for name, content in self.files.items():
            _write(folder / name, content)
        stdin = _text(self.files.get(STDIN, "")).encode("latin-1")
        with chdir(folder):
            done = run(*shlex.split(self.command), stdin=stdin)
        assert done.returncode != 2 or not done.stdout
        lines = done.stderr.splitlines()
        assert all(line.startswith((_PREFIX, "  ")) for line in lines), done.stderr
        message = "\n".join(line.removeprefix(_PREFIX) for line in lines).replace(
            str(folder), "{here}"
        )
        if done.returncode or not isinstance(self.result, str):
            return done.returncode, message
        return done.stdout.replace(str(folder), "{here}"), message


def answers(file: Path) -> Iterator[Answer]:
    """All of a file."""
    for about, rows, files in groups(file.read_text(encoding="utf-8")):
        for command, result, said, *more in rows:
            yield Answer(about, files | dict(*more), command, result, said)


def groups(text: str) -> Iterator[tuple[str, list[Any], dict[str, Content]]]:
    """What commands show, their rows, and the files that all of them find."""
    for about, rows in tomllib.loads(text).items():
        if isinstance(rows[0], str):
            yield about, [rows], {}
        elif isinstance(rows[0], dict):
            yield about, rows[1:], rows[0]
        else:
            yield about, rows, {}


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
    for file in FILES:
        text = file.read_text(encoding="utf-8")
        head, _, _ = text.partition("\n\n")
        lines, today = [head, ""], answers(file)
        for about, rows, files in groups(text):
            written = [f"  {_toml(files)},"] if files else []
            for row in rows:
                answer = next(today)
                with tempfile.TemporaryDirectory() as folder:
                    result, said = answer.of_today(Path(folder))
                row[1:3] = [result, row[2] if "..." in row[2] else said]
                written.append(f"  [{', '.join(map(_toml, row))}],")
            one = f"{json.dumps(about)} = {written[0].strip(' ,')}"
            several = [f"{json.dumps(about)} = [", *written, "]"]
            lines += [one] if len(written) == 1 else several
        file.write_text("\n".join([*lines, ""]), encoding="utf-8")


if __name__ == "__main__":
    main()
