"""A saved state that is not what was saved is refused whole, with a sentence."""

from __future__ import annotations

from typing import Any

import pytest

from streameval import Accumulator
from streameval.errors import DamagedStateError, StreamevalError
from tests.effort import every_case


def _counted() -> Accumulator:
    accumulator = Accumulator("ndcg@2", "distinct_items@2", "mae", "auc")
    accumulator.update(["a", "b"], {"a": 2.0}, scores=[0.5, 0.1])
    return accumulator


@every_case("key", sorted(_counted().state_dict()))
def test_a_state_without_a_part_is_refused_and_nothing_changes(key: str) -> None:
    accumulator = _counted()
    before = accumulator.state_dict()
    damaged = {name: part for name, part in before.items() if name != key}
    if key == "metrics":
        accumulator.load_state_dict(damaged)
    else:
        with pytest.raises(StreamevalError):
            accumulator.load_state_dict(damaged)
    assert accumulator.state_dict() == before


@every_case("part", [None, {}, "text", "dGV4dA==", [1, 2]])
def test_a_part_of_another_kind_is_refused(part: Any) -> None:
    accumulator = _counted()
    with pytest.raises(DamagedStateError, match="Nothing was loaded"):
        accumulator.load_state_dict(accumulator.state_dict() | {"content": part})
