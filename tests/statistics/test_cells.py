"""Tables of cells, small and large: what waits, what is alike and what is shared adds up."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from streameval.statistics.cells import Cells

_SIZES = (1, 63, 64, 65, 300)
"""Below, at and beyond what may wait."""


def _table(size: int, shift: int = 0) -> Cells:
    cells = Cells(keys=1, counts=1)
    keys = np.arange(size) + shift
    cells.add([keys], [keys + 1])
    return cells


def _expected(*tables: tuple[int, int]) -> list[list[int]]:
    total: Counter[int] = Counter()
    for size, shift in tables:
        total.update({key: key + 1 for key in range(shift, shift + size)})
    return [[key, total[key]] for key in sorted(total)]


@pytest.mark.parametrize("size", _SIZES)
@pytest.mark.parametrize("times", [2, 3, 10])
def test_tables_with_the_same_keys_add_up(size: int, times: int) -> None:
    whole = Cells(keys=1, counts=1)
    for _ in range(times):
        whole.merge(_table(size))
    assert whole.rows() == _expected(*[(size, 0)] * times)


@pytest.mark.parametrize("first", _SIZES)
@pytest.mark.parametrize("second", _SIZES)
@pytest.mark.parametrize("shift", [0, 1, 1_000])
def test_tables_with_other_keys_add_up(first: int, second: int, shift: int) -> None:
    whole = _table(first)
    for _ in range(3):
        whole.merge(_table(second, shift))
    assert whole.rows() == _expected((first, 0), *[(second, shift)] * 3)


@pytest.mark.parametrize("size", _SIZES)
def test_a_table_added_to_itself_is_twice_it(size: int) -> None:
    cells = _table(size)
    cells.merge(cells)
    assert cells.rows() == _expected((size, 0), (size, 0))


@pytest.mark.parametrize("size", _SIZES)
def test_whoever_shares_a_part_does_not_notice(size: int) -> None:
    part = _table(size)
    whole = Cells(keys=1, counts=1)
    whole.merge(part)
    twin = whole.copy()
    whole.merge(_table(size, 7))
    twin.merge(_table(3, 9))
    assert part.rows() == _expected((size, 0))
    assert whole.rows() == _expected((size, 0), (size, 7))
    assert twin.rows() == _expected((size, 0), (3, 9))
