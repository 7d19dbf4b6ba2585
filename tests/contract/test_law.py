"""One law: by every door, in every split and with both kernels a metric text has the same bits."""

from __future__ import annotations

import hashlib
import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streameval import Intervals
from streameval.catalogue.conventions import CONVENTIONS
from streameval.events import Event
from streameval.statistics.kernel import COMPILED
from streameval.testing import traffic
from tests.contract import laws
from tests.contract.metric_cases import NAMES, stream
from tests.effort import few_examples, sampled, thorough
from tests.house.checkout import ROOT
from tests.strategies import streams, takes_k, texts, texts_of

_SUMS = Intervals(groups=16)
_PARTS = 24
"""Accumulators among which the texts are dealt out; in `tests/run` some are drawn."""

_ALIKE = [event for event in traffic(150, seed=5, plain=True) if len(event.recommendations) == 6]
"""Lists of one length, without which some systems have no personalization."""


def _dealt() -> list[list[str]]:
    """Every text of every metric, and every name of every convention, beside any others."""
    dealt = [text for name in NAMES for text in texts_of(name, 3 if takes_k(name) else None)]
    dealt += [f"{name}:{metric}" for name in CONVENTIONS for metric in CONVENTIONS[name].metrics]
    Random(1).shuffle(dealt)
    return [dealt[part::_PARTS] for part in range(_PARTS)]


@pytest.mark.parametrize("part", sampled(range(_PARTS), 4))
def test_every_text_has_the_same_bits_by_any_door_in_any_split(part: int) -> None:
    events = _ALIKE if part % 3 == 1 else stream(20)
    intervals = None if part % 8 else _SUMS
    laws.however_counted(_dealt()[part], events, Random(part), intervals)


@few_examples()
@given(
    texts=texts(),
    events=streams(),
    intervals=st.sampled_from([None, _SUMS]),
    draw=st.randoms(use_true_random=False),
)
def test_any_metrics_have_the_same_bits_for_any_events(
    texts: tuple[str, ...], events: list[Event], intervals: Intervals | None, draw: Random
) -> None:
    laws.however_counted(texts, events, draw, intervals)


@pytest.mark.parametrize("seed", [3, 4])
def test_lists_that_were_not_shown_keep_the_law(seed: int) -> None:
    texts, events = texts_of("overlap", 3), stream(12, seed=seed, unshown=True)
    laws.however_counted(texts, events, Random(seed))
    pickled = pickle.loads(pickle.dumps(laws.made(texts)))  # ours
    pickled.update_many(events)
    assert laws.bits(pickled) == laws.bits(laws.counted(texts, events))


def digests(step: int) -> list[str]:
    """Of all bits of every so many-th part, counted one event after the other."""
    return [
        hashlib.sha256(repr(laws.bits(laws.counted(texts, stream(20)))).encode()).hexdigest()
        for texts in _dealt()[::step]
    ]


@pytest.mark.skipif(not COMPILED, reason="there is one kernel here")
def test_both_kernels_count_the_same_bits() -> None:
    step = 1 if thorough() else 4
    program = f"from tests.contract.test_law import digests; print(*digests({step}))"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        cwd=ROOT,
        env={**os.environ, "STREAMEVAL_PURE": "1"},
        stdout=subprocess.PIPE,
        check=True,
    )
    assert done.stdout.decode().split() == digests(step)


SHARING = (
    *("ndcg(statistic=median)@5", "ndcg(statistic=maximum)@5", "ips", "ips(statistic=median)"),
    *("hit_rate(per=user)@5", "hit_rate(per=user,statistic=median)@5", "overlap(per=user)"),
)
"""Metrics of which several share one statistic."""


@pytest.mark.parametrize("order", [SHARING[::-1], sorted(SHARING)], ids=["reversed", "sorted"])
def test_the_same_metrics_in_another_order_merge(order: Sequence[str]) -> None:
    events = stream(30)
    first, other = laws.counted(SHARING, events[:15]), laws.counted(order, events[15:])
    first.merge(other)
    assert laws.dumped(first) == laws.dumped(laws.counted(order, events))
