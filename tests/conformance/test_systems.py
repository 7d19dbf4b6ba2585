"""Under a system's convention a metric gives the number that the system's own code returned."""

from __future__ import annotations

from collections import Counter

import pytest

from streameval.catalogue import parse
from streameval.conventions import CONVENTIONS
from tests.conformance.claims import undefined
from tests.conformance.recorded import FOLDER, OURS, Case, cases, files
from tests.conformance.systems import ANSWERS
from tests.conformance.ways import streamed, three_ways

CASES = cases()
PUBLIC = 673
every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@every_case
def test_three_ways_give_the_recorded_numbers_and_the_same_bits(case: Case) -> None:
    for part in case.parts:
        ways = three_ways(case, part)
        assert ways[0].state_dict() == ways[1].state_dict() == ways[2].state_dict()
        for claim in part.claims:
            if not claim.raises:
                assert len({way.read(claim.text).value.hex() for way in ways}) == 1
            assert [claim.mistake(way, case.tolerance) for way in ways] == [None] * 3


@every_case
def test_each_user_alone_has_the_recorded_number(case: Case) -> None:
    for part in case.alone:
        texts = list(dict.fromkeys(claim.text for claim in part.claims))
        accumulator = streamed(texts, part.events, case.once)
        for claim in part.claims:
            assert claim.mistake(accumulator, case.tolerance) is None, part.events
