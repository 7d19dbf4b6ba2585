"""Finding the user in a record that is otherwise left alone."""

from __future__ import annotations

from typing import Any

import msgspec


class UserKey:
    """The user of a JSON record as the key of a Kafka record.

    An integer and the text of its digits give the same key, as they are the same user.

    Args:
        path: of the field, with dots between the names of nested objects.

    >>> UserKey("payload.user")(b'{"payload": {"user": 7}}')
    b'7'
    """

    def __init__(self, path: str) -> None:
        self._depth = len(path.split("."))
        self._decoder = msgspec.json.Decoder(_shape(path))

    def __call__(self, record: bytes) -> bytes | None:
        """The key; None where no user is found."""
        try:
            found: Any = self._decoder.decode(record)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None
        for _ in range(self._depth):
            found = found.value
        return str(found).encode()


def _shape(path: str) -> Any:
    """A struct with this one field; all others are passed over undecoded."""
    kind: Any = int | str
    for name in reversed(path.split(".")):
        kind = msgspec.defstruct("Object", [("value", kind)], rename={"value": name})
    return kind
