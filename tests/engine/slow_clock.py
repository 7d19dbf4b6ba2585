"""A reference clock, written from the definition, event by event."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from statistics import median_low

NEVER = -(2**62)

Voters = Sequence[str | None] | None
"""Of each event; None for its own."""


def clocks(log: Sequence[int], max_ahead: int, recent: int, voters: Voters = None) -> list[int]:
    times, agreed, now = list[int](), NEVER, NEVER
    names = _named(voters, len(log))
    for end, time in enumerate(log, start=1):
        last = _run(names[:end], recent)
        if last is None:
            times.append(now)
            continue
        if now > NEVER and time <= agreed + max_ahead:
            now = max(now, time)
        else:
            votes = _votes(log[end - last : end], names[end - last : end], recent)
            middle = median_low(votes)
            spread = median_low(abs(vote - middle) for vote in votes)
            agreed = max(agreed, middle)
            limit = agreed + max(max_ahead, 3 * spread)
            now = max([now, *(vote for vote in votes if vote <= limit)])
        times.append(now)
    return times


def provisional(log: Sequence[int], max_ahead: int, recent: int, voters: Voters = None) -> int:
    """The clock of a log that is not final yet, from at least one event."""
    votes = _votes(log, _named(voters, len(log)), recent)
    middle = sorted(votes)[len(votes) // 2]
    spread = sorted(abs(vote - middle) for vote in votes)[len(votes) // 2]
    return max(vote for vote in votes if vote <= middle + max(max_ahead, 3 * spread))


def verdicts(events: int, recent: int, voters: Voters = None) -> list[int | None]:
    """For each event, the event with which enough voters have followed it, or None."""
    names = _named(voters, events)
    return [
        next(
            (
                end - 1
                for end in range(begin + 1, events + 1)
                if len(set(names[begin:end])) == recent or end - begin == 12 * recent
            ),
            None,
        )
        for begin in range(events)
    ]


def ahead(
    log: Sequence[int],
    log_clocks: Sequence[int],
    recent: int,
    voters: Voters = None,
    lateness: int = 0,
) -> list[bool]:
    """Whether the clock does not come near each event before enough voters have followed it."""
    pairs = zip(log, verdicts(len(log), recent, voters), strict=True)
    return [
        verdict is not None and time > log_clocks[verdict] + lateness for time, verdict in pairs
    ]


def refuted(
    starts: Sequence[int],
    log_clocks: Sequence[int],
    counted: Sequence[bool],
    recent: int,
    voters: Voters = None,
) -> list[bool]:
    """Whether each event is from the future: the clock does not reach its pane in time."""
    verdict_list, ends = [False] * len(starts), verdicts(len(starts), recent, voters)
    for start in set(starts):
        group: list[int] = []
        for row, clock in enumerate(log_clocks):
            if clock >= start:
                group = []
            elif starts[row] == start and counted[row]:
                group.append(row)
            if group and row == ends[group[-1]]:
                for row_of_group in group:
                    verdict_list[row_of_group] = True
                group = []
    return verdict_list


def _named(voters: Voters, events: int) -> list[object]:
    return [name or index for index, name in enumerate(voters or [None] * events)]


def _run(names: Sequence[object], recent: int) -> int | None:
    """Length of the shortest run of newest events with enough voters, or of the longest run."""
    lengths = range(recent, min(len(names), 12 * recent) + 1)
    enough = (length for length in lengths if len(set(names[-length:])) == recent)
    return next(enough, 12 * recent if len(names) >= 12 * recent else None)


def _votes(log: Sequence[int], names: Sequence[object], recent: int) -> list[int]:
    seats = ceil(recent / len(set(names)))
    votes = list[int]()
    for name in dict.fromkeys(names):
        votes_cast = [time for time, other in zip(log, names, strict=True) if other == name]
        votes += votes_cast[-seats:]
    return votes
