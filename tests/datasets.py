"""Data sets made from a seed, in the shape of public logs; each process makes them once.

`slots` is like the Open Bandit sample: a list is one item at one of three positions, and clicks are
rare and late. `sessions` is like OTTO's: two replayed policies and a log without request ids.
`judged` is like trec_eval's test: three topics, many tied scores.
"""

from __future__ import annotations

import atexit
import gzip
import json
import shutil
import tempfile
from bisect import bisect
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import accumulate
from pathlib import Path
from random import Random
from typing import Any, Final

Record = dict[str, Any]

PRINTED: Final = Path(__file__).parent / "metrics" / "trec_eval.txt"
"""What trec_eval 9.0.8, in pytrec_eval-terrier 0.5.11, gives for `judged`."""

SLOTS_PER_ARM: Final = 5_000
_CAMPAIGNS: Final = {"men": 34, "women": 46}
_COHORTS: Final = 800
_EXAMINED: Final = (1.0, 0.8, 0.6)
"""How often a position is looked at."""

_SESSIONS, _ACTIONS, _CATALOGUE = 20, 862, 510
_RANKS: Final = 10
_TOPICS: Final = ("301", "302", "303")
_SCORED: Final = 500


@cache
def dataset(name: str) -> Path:
    """The folder of a data set: "slots", "sessions" or "judged"."""
    folder = _folder() / name
    folder.mkdir()
    {"slots": _write_slots, "sessions": _write_sessions, "judged": _write_judged}[name](folder)
    return folder


@cache
def _folder() -> Path:
    folder = tempfile.mkdtemp(prefix="streameval-datasets-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def _write_slots(folder: Path) -> None:
    """Lists of one item for four arms, their clicks minutes later, and both joined."""
    draw = Random(20191124)
    cohorts = _chooser([1 / (rank + 30) for rank in range(_COHORTS)])
    times = sorted(draw.random() * 7 for _ in range(4 * SLOTS_PER_ARM))
    arms = [(policy, campaign) for policy in ("bts", "random") for campaign in _CAMPAIGNS]
    turns = [arm for arm in arms for _ in range(SLOTS_PER_ARM)]
    turns.sort(key=lambda _: draw.random())
    events, clicks, clicked = list[Record](), list[tuple[float, Record]](), Counter[Any]()
    for number, (day, (policy, campaign)) in enumerate(zip(times, turns, strict=True)):
        size = _CAMPAIGNS[campaign]
        item = int(size * draw.random() ** (2 if policy == "bts" else 1))
        position = int(3 * draw.random())
        event = {
            "ts": _moment(day),
            "request_id": f"{policy}-{campaign}-{number}",
            "user": f"c{cohorts(draw):04d}",
            "recommendations": [f"{campaign[0]}{item}"],
            "positions": [position + 1],
            "propensities": [1 / size],
            "interactions": [],
            "variant": policy,
            "campaign": campaign,
        }
        if draw.random() < 0.02 * _EXAMINED[position] * (1 - item / size):
            event["interactions"] = event["recommendations"]
            clicked[policy, campaign] += 1
            later = day + 20 / 1440 * draw.random()
            clicks.append((later, {**event, "ts": _moment(later)}))
        events.append(event)
    clicks.sort(key=lambda click: click[0])
    _save(folder / "events", events)
    _save(folder / "impressions", (_without(event, "interactions") for event in events))
    _save(folder / "interactions", (_click(record) for _, record in clicks))
    counts = [
        {"policy": policy, "campaign": campaign, "n": SLOTS_PER_ARM, "clicks": clicked[arm]}
        for arm in arms
        for policy, campaign in [arm]
    ]
    (folder / "expected.json").write_text(json.dumps(counts))


def _click(event: Record) -> Record:
    kept = {name: event[name] for name in ("ts", "request_id", "user")}
    return {**kept, "item": event["recommendations"][0], "type": "click"}


def _write_sessions(folder: Path) -> None:
    """What the sessions did, and what two replayed policies would have shown after each action."""
    draw = Random(1659304800)
    popular = _chooser([1 / (rank + 5) for rank in range(_CATALOGUE)])
    sessions: list[list[str]] = [[] for _ in range(_SESSIONS)]
    log, seen = list[Record](), Counter[str]()
    impressions = list[Record]()
    for number in range(_ACTIONS):
        user = number if number < _SESSIONS else int(_SESSIONS * draw.random() ** 1.5)
        session = sessions[user]
        again = bool(session) and draw.random() < 0.55
        item = session[int(len(session) * draw.random())] if again else f"{10_000 + popular(draw)}"
        at = 1_659_304_800_025 + 47_000 * number
        kind = ("clicks", "carts", "orders")[bisect((0.93, 0.988), draw.random())]
        session.append(item)
        seen[item] += 1
        log.append({"ts": at, "user": str(user), "item": item, "type": kind})
        recent = list(dict.fromkeys(reversed(session)))[:_RANKS]
        pop = sorted(seen, key=lambda name: (-seen[name], name))[:_RANKS]
        for variant, ranked in (("recent", recent), ("pop", pop)):
            index = len(session) - 1
            request = f"{variant}-{user}-{index}"
            impressions.append(
                {
                    "ts": at,
                    "request_id": request,
                    "user": str(user),
                    "recommendations": ranked,
                    "variant": variant,
                }
            )
    joined = ({**record, "interactions": _next_items(record, sessions)} for record in impressions)
    events = [event for event in joined if event["interactions"]]
    _save(folder / "interactions", log)
    _save(folder / "impressions", (_without(event, "interactions") for event in events))
    _save(folder / "events", events)
    _save_hits(folder, events)


def _next_items(shown: Record, sessions: Sequence[Sequence[str]]) -> list[str]:
    """The distinct items of the next three actions of the session."""
    _, user, place = shown["request_id"].split("-")
    return list(dict.fromkeys(sessions[int(user)][int(place) + 1 : int(place) + 4]))


def _save_hits(folder: Path, events: Iterable[Record]) -> None:
    lists, hits = Counter[str](), Counter[str]()
    for event in events:
        lists[event["variant"]] += 1
        hits[event["variant"]] += not set(event["recommendations"]).isdisjoint(
            event["interactions"]
        )
    counts = {variant: [hits[variant], lists[variant]] for variant in lists}
    (folder / "expected.json").write_text(json.dumps(counts))


def _write_judged(folder: Path) -> None:
    """A run and its judgements in trec_eval's forms; some scored documents have no judgement."""
    draw = Random(301)
    run, judgements = list[str](), list[str]()
    for topic in _TOPICS:
        for number in range(_SCORED + 100):
            document, luck = f"D{number:04d}", draw.random()
            if luck < 0.7:
                relevant = draw.random() < (0.4 if luck < 0.3 else 0.15)
                judgements.append(f"{topic} 0 {document} {int(relevant)}")
            if number < _SCORED:
                score = round(3 * draw.random() + 0.6 * (luck < 0.3), 2)
                run.append(f"{topic} Q0 {document} 0 {score:.2f} seeded")
    _write(folder / "results.test.gz", run)
    _write(folder / "qrels.test.gz", judgements)


def _moment(day: float) -> str:
    start = datetime(2019, 11, 24, tzinfo=UTC)
    moment = (start + timedelta(days=day)).isoformat(timespec="microseconds")
    return moment.replace("+00:00", "Z")


def _chooser(weights: Sequence[float]) -> Callable[[Random], int]:
    """Draws an index by its weight, with one call of `random`: the same in each Python."""
    sums = list(accumulate(weights))
    return lambda draw: min(bisect(sums, sums[-1] * draw.random()), len(sums) - 1)


def _without(record: Record, name: str) -> Record:
    return {key: value for key, value in record.items() if key != name}


def _save(path: Path, records: Iterable[Record]) -> None:
    _write(path.with_suffix(".ndjson.gz"), map(json.dumps, records))


def _write(path: Path, lines: Iterable[str]) -> None:
    text = "".join(f"{line}\n" for line in lines)
    path.write_bytes(gzip.compress(text.encode(), compresslevel=1, mtime=0))
