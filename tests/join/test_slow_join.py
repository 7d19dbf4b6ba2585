"""Streams of several logs, redelivered and disordered: the join equals the slow one."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from random import Random
from typing import Final, TypeAlias

import pytest

from streameval.join import joiner
from tests.cli.program import run
from tests.effort import thorough
from tests.join.offline import Case, Joined, Log, Record, joined
from tests.join.streams import Run

DAY: Final = 86_400
ITEMS: Final = [f"i{number}" for number in range(12)]
GAINS: Final = {"click": 1.0, "cart": 3.0, "purchase": 10.0}
METRICS: Final = [
    *("hit_rate@2", "precision@2", "recall@2", "mrr@2", "ndcg@2", "ctr"),
    *("value_per_list", "hit_rate(type=purchase)@2"),
]

Split: TypeAlias = Callable[[Random, int, int, int], int]
"""Number of the log for a record, from its place, the number of records and of logs."""

_SPLITS: Final[list[Split]] = [
    lambda _, place, records, logs: place * logs // records,
    lambda _, place, __, logs: place // 25 % logs,
    lambda _, place, __, logs: place % logs,
    lambda random, _, __, logs: random.randrange(logs),
]


def random_case(seed: int, lists: int) -> Case:
    """Streams of 1 to 4 logs, with redelivered, disordered, late and invalid records."""
    random = Random(seed)
    span = random.choice([lists // 4, lists * 4, 2 * DAY])
    users = [f"u{number}" for number in range(random.choice([3, 30, 300]))]
    window, lateness = random.choice([5, 60, 600]), random.choice([0, 10, 120])
    shown = [_list(random, number, span, users) for number in range(lists)]
    clicks = [
        [_click(random, random.choice(shown), number, window) for number in range(lists)]
        for _ in range(random.choice([1, 1, 2]))
    ]
    return Case(
        streams=[_logs(random, stream, lateness) for stream in (shown, *clicks)],
        key=random.choice(["request_id", "user_item"]),
        window=window,
        lateness=lateness,
        combine=random.choice(["max", "sum"]),
        per_variant=random.random() < 0.3,
        gains=GAINS,
        recent=21,
        max_ahead=60,
    )


def _list(random: Random, number: int, span: int, users: Sequence[str]) -> Record:
    return {
        "ts": random.randrange(span),
        # Some ids are used again, within the window or long after it.
        "request_id": f"r{number if random.random() < 0.9 else random.randrange(number + 1)}",
        "user": random.choice(users),
        "variant": random.choice(["x", "y"]),
        "shown": random.sample(ITEMS, random.randint(0, 4)),
    }


def _click(random: Random, of: Record, number: int, window: int) -> Record:
    after = window + 2 if random.random() < 0.9 else 4 * window
    return {
        "ts": max(0, of["ts"] + random.randint(-1, after)),
        "request_id": of["request_id"] if random.random() < 0.95 else "nobody",
        "user": of["user"],
        "item": random.choice([*of["shown"], random.choice(ITEMS)]),
        "type": random.choice([*GAINS, "view"]),
        "event_id": f"e{number if random.random() < 0.9 else random.randrange(number + 1)}",
    }


def _logs(random: Random, records: Sequence[Record], lateness: int) -> list[Log]:
    """The records by time of arrival, in 1 to 4 logs."""
    repeats, usual = random.choice([0.0, 0.3, 1.0]), random.choice([0, lateness, 2 * lateness + 3])
    again = [dict(record) for record in records if random.random() < repeats]
    arrivals: list[tuple[float, Record]] = [
        (record["ts"] + _delay(random, usual), record) for record in (*records, *again)
    ]
    logs: list[Log] = [[] for _ in range(random.randint(1, 4))]
    split = random.choice(_SPLITS)
    for index, (_, record) in enumerate(sorted(arrivals, key=lambda pair: pair[0])):
        log = logs[split(random, index, len(arrivals), len(logs))]
        log.append(_odd(random, record))
    return logs


def _delay(random: Random, usual: int) -> float:
    return random.random() * random.choice([0, usual, 200 if random.random() < 0.1 else usual])


def _odd(random: Random, record: Record) -> Record | None:
    """A record; rarely a tombstone, an invalid one, or one with a wrong clock."""
    chance = random.random()
    if chance < 0.01:
        return None if chance < 0.005 else {}
    return {**record, "ts": record["ts"] + 7 * DAY} if chance > 0.99 else record


CONFIG: Final = """
metrics = {metrics}
labels = ["variant"]
[source]
type = "files"
paths = {paths}
[event]
recommendations = "shown"
time = "ts"
time_unit = "s"
[attribution]
impressions = {impressions}
key = "{case.key}"
request_id = "request_id"
window = "{case.window}s"
lateness = "{case.lateness}s"
combine = "{case.combine}"
per = {per}
"""
INTERACTIONS: Final = """
[[attribution.interactions]]
source = {source}
event_id = "event_id"
types = {{ click = 1, cart = 3, purchase = 10 }}
"""


def written(case: Case, folder: Path) -> Path:
    """The logs as files, and a configuration that joins them."""
    names = [
        [f"{stream}-{number}.ndjson" for number in range(len(logs))]
        for stream, logs in enumerate(case.streams)
    ]
    for name, log in zip(chain(*names), chain(*case.streams), strict=True):
        (folder / name).write_text(
            "".join("\n" if record is None else f"{json.dumps(record)}\n" for record in log)
        )
    by_variant = case.per_variant and case.key == "user_item"
    config = CONFIG.format(
        metrics=json.dumps(METRICS),
        paths=json.dumps([*chain(*names)]),
        impressions=json.dumps(names[0]),
        case=case,
        per=["variant"] if by_variant else [],
    )
    config += "".join(INTERACTIONS.format(source=json.dumps(source)) for source in names[1:])
    path = folder / "streameval.toml"
    path.write_text(config)
    return path


def textbook(outcome: Joined, variant: str) -> dict[str, float]:
    """The metrics of a variant by their textbook formulas."""
    events = [event for event in outcome.events if event[1] == (variant,)]
    rows = [(shown, dict(gains), dict(typed)) for _, _, shown, gains, typed in events]
    clicked = [(shown, gains) for shown, gains, _ in rows if gains]
    ranks = [[rank for rank, item in enumerate(shown, 1) if item in of] for shown, of, _ in rows]
    bought = [any((item, "purchase") in typed for item in shown[:2]) for shown, _, typed in rows]
    return {
        "hit_rate@2": _mean([min(hits, default=9) <= 2 for hits in ranks]),
        "precision@2": _mean([sum(rank <= 2 for rank in hits) / 2 for hits in ranks]),
        "recall@2": _mean([len(set(shown[:2]) & set(of)) / len(of) for shown, of in clicked]),
        "mrr@2": _mean([1 / hits[0] if hits and hits[0] <= 2 else 0 for hits in ranks]),
        "ndcg@2": _mean([_ndcg(shown[:2], of) for shown, of in clicked]),
        "ctr": sum(map(len, ranks)) / max(1, sum(len(shown) for shown, _, _ in rows)),
        "value_per_list": _mean([sum(of.get(item, 0) for item in shown) for shown, of, _ in rows]),
        "hit_rate(type=purchase)@2": _mean(bought),
    }


def _ndcg(shown: Sequence[str], gains: dict[str, float]) -> float:
    ideal = sorted(gains.values(), reverse=True)[:2]
    return _dcg([gains.get(item, 0) for item in shown]) / _dcg(ideal)


def _dcg(gains: Sequence[float]) -> float:
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, 1))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else math.nan


def evaluated(config: Path) -> dict[tuple[str, str], float]:
    done = run("evaluate", "--config", config, "--format", "json", "--allow-invalid")
    assert done.returncode in (0, 1), done.stderr
    return {
        (reading["labels"]["variant"], reading["metric"]): math.nan
        if reading["value"] is None
        else reading["value"]
        for reading in json.loads(done.stdout)
    }


STREAMS, LISTS = (200, 400) if thorough() else (12, 60)


@pytest.mark.parametrize("seed", range(STREAMS))
def test_every_event_outcome_and_metric_equals_that_of_the_slow_join(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(joiner, "MANY_LISTS", seed % 2 * 4)
    case = random_case(seed, LISTS)
    expected, live = joined(case), Run(case).joined()
    assert live.outcomes == expected.outcomes
    assert live.events == expected.events
    values = evaluated(written(case, tmp_path))
    for variant in {labels[0] for _, labels, *_ in expected.events}:
        for name, value in textbook(expected, variant).items():
            assert values[variant, name] == pytest.approx(value, rel=1e-12, nan_ok=True), name


def shown(ts: int, number: int) -> Record:
    user = f"u{number}"
    return {"ts": ts, "request_id": f"r{number}", "user": user, "variant": "x", "shown": ["a"]}


def purchase(ts: int, number: int) -> Record:
    record = {"ts": ts, "request_id": f"r{number}", "user": f"u{number}", "item": "a"}
    return {**record, "type": "purchase", "event_id": f"e{number}"}


def outcomes(lists: Log, *logs: Log, recent: int = 21) -> tuple[int, int]:
    """Numbers of interactions counted and found to be duplicates."""
    case = Case(
        [[lists], [*logs]],
        window=60,
        lateness=10,
        combine="sum",
        gains=GAINS,
        recent=recent,
    )
    expected, live = joined(case), Run(case).joined()
    assert live == expected
    return live.outcomes[1]["counted"], live.outcomes[1]["duplicate"]


def test_a_redelivered_click_counts_once_when_another_log_of_its_stream_is_ahead() -> None:
    other = purchase(1_198, 7)
    assert outcomes([shown(1_078, 6)], [other], [purchase(1_079, 6)] * 2) == (1, 1)


def test_a_click_redelivered_into_another_log_counts_once() -> None:
    lists: Log = [shown(1_078, number) for number in range(40)]
    clicks: Log = [purchase(1_080, number) for number in range(40)]
    assert outcomes(lists, clicks, clicks[::-1]) == (40, 40)


def test_a_click_redelivered_long_after_among_the_first_records_of_a_log_counts_once() -> None:
    lists: Log = [shown(10 * number, number) for number in range(30)]
    clicks: Log = [purchase(10 * number + 1, number) for number in range(20)]
    clicks.insert(20, purchase(1, 0))
    clicks += [purchase(10 * number + 1, number) for number in range(20, 30)]
    assert outcomes(lists, clicks) == (30, 1)


def test_an_event_id_that_is_used_again_after_window_and_lateness_counts_again() -> None:
    lists: Log = [shown(at, 0) for at in (0, 70, 71, 300)]
    clicks: Log = [purchase(at, 0) for at in (0, 70, 71, 300, 301, 0)]
    assert outcomes(lists, clicks, recent=1) == (3, 2)


def test_an_id_is_remembered_for_window_and_lateness_after_its_time() -> None:
    joining = Run(Case([[[]], [[]]], window=60, lateness=10, gains=GAINS, recent=1))
    lists, clicks = joining.logs
    joining.feed(lists, [shown(at, at) for at in (0, 72, 73)])
    joining.feed(clicks, [purchase(0, 0), purchase(72, 1)])
    joining.feed(clicks, [purchase(70, 0)])
    joining.end()
    assert joining.state.outcomes[1].duplicate == 1


def test_ids_are_forgotten_once_their_repetition_would_be_late() -> None:
    joining = Run(Case([[[]], [[], []]], window=60, lateness=10, gains=GAINS, recent=1))
    first, *rest = joining.logs
    remembered = joining.state.joiner.interactions
    sizes = []
    for minute in range(50):
        joining.feed(first, [shown(60 * minute, minute)])
        for number, log in enumerate(rest):
            joining.feed(log, [purchase(60 * minute + 1 - number, minute + 100 * number)])
        sizes.append(len(remembered))
    assert max(sizes[10:]) == min(sizes[10:]) <= 8
