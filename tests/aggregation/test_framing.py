from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streameval.aggregation.framing import framed, unframed
from streameval.errors import DamagedStateError

texts = st.lists(st.binary(max_size=9) | st.sampled_from([b"x" * 65_536, b"y" * 65_535]))


@given(st.lists(texts, max_size=3))
def test_byte_strings_come_back_one_by_one(strings: list[list[bytes]]) -> None:
    data = b"".join(block for pieces in strings for block in framed(pieces))
    assert list(unframed("name", data)) == [b"".join(pieces) for pieces in strings]


@given(texts)
def test_the_pieces_make_no_difference(pieces: list[bytes]) -> None:
    assert b"".join(framed(pieces)) == b"".join(framed([b"".join(pieces)]))


@given(texts, st.integers(1, 5))
def test_an_end_that_is_missing_is_seen(pieces: list[bytes], missing: int) -> None:
    data = b"".join(framed([*pieces, b"12345"]))
    with pytest.raises(DamagedStateError, match="name"):
        list(unframed("name", data[:-missing]))
