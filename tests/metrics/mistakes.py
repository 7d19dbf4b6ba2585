"""What Python says of mistakes: mistakes.toml has each call, the error, and its words.

`python -m tests.metrics.mistakes` writes the words anew; read the difference before you commit it.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from streameval.events.errors import StreamevalError

FILE: Final = Path(__file__).with_suffix(".toml")


class Mistake(NamedTuple):
    """A call that is refused.

    Attributes:
        about: what the mistake is, in words.
        setup: what runs before the call.
        error: the name of the class.
        said: the whole message; `...` for a long list of names, or the words of another library.
    """

    about: str
    setup: str
    call: str
    error: str
    said: str

    def answer(self) -> tuple[str, str]:
        """The error, and its message."""
        names: dict[str, Any] = {}
        exec(self.setup, names)
        try:
            eval(self.call, names)
        except StreamevalError as error:
            return type(error).__name__, str(error)
        return "", "nothing is refused"


def mistakes() -> Iterator[Mistake]:
    """All of mistakes.toml."""
    for about, part in tomllib.loads(FILE.read_text(encoding="utf-8")).items():
        for row in part["said"]:
            yield Mistake(about, part["setup"], *row)


def main() -> None:
    """Write the answers of today; those with `...` stay as they are."""
    text = FILE.read_text(encoding="utf-8")
    for mistake in mistakes():
        if "..." not in mistake.said:
            row, answer = (mistake.call, *mistake[3:]), (mistake.call, *mistake.answer())
            text = text.replace(json.dumps(row), json.dumps(answer))
    FILE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
