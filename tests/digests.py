"""`python -m tests.digests TREE` compares what this tree counts and reads with what another does.

It prints the cases whose digests differ: states, names, needs, readings, merges, cells, panes, and
readings after each event. TREE is a checkout with a compiled kernel, for example of the commit
before; both count the events of this tree's tests.
"""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import Any, Final

_ROOT: Final = Path(__file__).resolve().parent.parent
_SPANS: Final = {
    "pane": "of_pane",
    "past": "without_users",
    "day": "by_day",
    "lifetime": "of_users",
}
"""Scope of a plan -> its name before plans had scopes."""

_OPTIONS: Final = (
    *("ndcg(statistic=median)@5", "ndcg(statistic=maximum)@5", "recbole:map@5", "ranx:ndcg@5"),
    *(
        "ndcg(gain=exp2)@5",
        "recall(min_gain=2)@5",
        "ndcg(among=genre:news)@5",
        "ndcg(type=click)@5",
    ),
    *("hit_rate(per=user)@2", "mrr(per=user)@2", "ndcg(per=user,statistic=median)@5"),
    *("unexpectedness(per=user)@2", "ips(clip=0.5)@5", "snips(clip=0.5)@5", "dr@5"),
    *("item_coverage(by=genre)@5", "gini(by=genre)@5", "auc(type=click)", "rectools:map@5"),
    *("ctr(rank=2)@5", "ndcg(statistic=half_width)@5"),
)


def _digest(content: object) -> str:
    return blake2b(repr(content).encode(), digest_size=8).hexdigest()


def _reading(read: Callable[[], object]) -> str:
    try:
        return repr(read())
    except Exception as error:  # noqa: BLE001  errors are compared, too
        return f"{type(error).__name__}: {error}"


def _plan(plan: Any, scope: str) -> Any:
    return plan.at(scope) if hasattr(plan, "at") else getattr(plan, _SPANS[scope])


def _of(accumulator: Any) -> list[object]:
    """State, needs and readings of an accumulator."""
    result: list[object] = [json.dumps(accumulator.state_dict())]
    for metric in accumulator.metrics:
        result.append(_reading(lambda text=metric.text: sorted(accumulator.needs(text))))  # type: ignore[misc]  # mypy knows no type of a default
        result.append(_reading(lambda text=metric.text: accumulator.read(text)))  # type: ignore[misc]  # mypy knows no type of a default
    result.append(_reading(accumulator.advice))
    return result


def _texts() -> list[str]:
    from tests.contract.metric_cases import a_text_of_each  # noqa: PLC0415  after the tree is chosen

    return [*a_text_of_each(), *_OPTIONS]


def _made(texts: Sequence[str], **options: Any) -> Any:
    from streameval import Accumulator  # noqa: PLC0415  after the tree is chosen
    from tests.contract.metric_cases import inputs  # noqa: PLC0415  after the tree is chosen

    return Accumulator(*texts, **inputs().of_package, **options)


def _alone(text: str, events: Sequence[Any]) -> Iterator[tuple[str, object]]:
    from streameval import Intervals  # noqa: PLC0415  after the tree is chosen
    from streameval.testing.laws import update  # noqa: PLC0415  after the tree is chosen

    for name, options in (("", {}), (" with intervals", {"intervals": Intervals(groups=16)})):
        accumulator, after_each = _made([text], **options), []
        for event in events:
            update(accumulator, event)
            after_each.append(_reading(lambda made=accumulator: made.value(text)))  # type: ignore[misc]  # mypy knows no type of a default
        yield f"{text}{name}, read after each", after_each
        yield f"{text}{name}", _of(accumulator)


def _cells(name: str, made: Any, events: Sequence[Any]) -> Iterator[tuple[str, object]]:
    """Cells of a table, and what panes, days and lifetimes keep of them."""
    import numpy as np  # noqa: PLC0415  after the tree is chosen

    from streameval.accumulator.table import Table  # noqa: PLC0415  after the tree is chosen
    from streameval.events import columns_of  # noqa: PLC0415  after the tree is chosen

    empty = made.table
    table = Table(empty.plan, made.context, ids="text")
    wheres = np.arange(len(events)) % 7
    for start in range(0, len(events), 9):
        part = slice(start, start + 9)
        table.count(columns_of(list(events[part])), wheres[part])
    total = [*range(7)]
    yield f"{name}: cells", b"".join(table.dump(total)).hex()
    selected = table.select(np.array([1, 4, 5]))
    selected.rename({4: 1})
    yield f"{name}: renamed", b"".join(selected.dump([1, 5])).hex()
    for scope in _SPANS:
        part_of = table.empty(_plan(table.plan, scope))
        yield f"{name}: names of {scope}", sorted(part_of.statistics)
        if scope in ("pane", "past"):
            part_of.add(table)
        else:
            table.distribute(20, {0: part_of})
        yield f"{name}: {scope}", b"".join(part_of.dump(total)).hex()
    fresh = Table(empty.plan, made.context)
    yield f"{name}: missing", sorted(fresh.load(b"".join(selected.dump([1, 5])), [0, 3]))
    yield f"{name}: loaded", b"".join(fresh.dump([0, 3])).hex()


def _together(
    name: str, made: Callable[[], Any], events: Sequence[Any]
) -> Iterator[tuple[str, object]]:
    from streameval.events import columns_of  # noqa: PLC0415  after the tree is chosen

    first, second = made(), made()
    first.update_many(columns_of(list(events[:25])))
    second.update_many(columns_of(list(events[25:])))
    yield f"{name}: names", first.state_dict()["statistics"]
    yield f"{name}: first", _of(first)
    first.merge(second)
    yield f"{name}: merged", _of(first)
    yield f"{name}: pickled", _of(pickle.loads(pickle.dumps(first)))
    yield from _cells(name, made(), events)


def cases() -> Iterator[tuple[str, object]]:
    """What is compared, by name."""
    from streameval import Intervals, PrePeriod  # noqa: PLC0415  after the tree is chosen
    from streameval.catalogue import parse  # noqa: PLC0415  after the tree is chosen
    from tests.contract.metric_cases import stream  # noqa: PLC0415  after the tree is chosen

    events, texts = stream(45), []
    for text in _texts():
        made = _reading(lambda of=text: (parse(of), _made([of]))[0])  # type: ignore[misc]  # mypy knows no type of a default
        if made.startswith("Metric("):
            texts.append(text)
        else:
            yield f"{text}: refused", made
    for text in texts:
        yield from _alone(text, events)
    few = [text for text in texts if text.endswith("@5") or "@" not in text]
    period = PrePeriod(since=date(2026, 3, 1), days=40, metrics=("ctr@5", "hit_rate@5", "mrr@5"))
    groups = Intervals(groups=128)
    yield from _together("all", lambda: _made(texts), events)
    yield from _together("few", lambda: _made(few), events)
    yield from _together("intervals", lambda: _made(few, intervals=groups), events)
    yield from _together(
        "experiment", lambda: _made(few, intervals=groups, experiment=True), events
    )
    yield from _together(
        "pre-period", lambda: _made(["ctr@5", "mrr@5"], intervals=groups, experiment=period), events
    )
    yield from _together("unshown", lambda: _made([*few[:9], "overlap"]), stream(45, unshown=True))
    yield from _together("hits only", lambda: _made(["ndcg@5", "mrr@2"]), events)
    yield from _together("items only", lambda: _made(["item_coverage@3", "mrr@2"]), events)


def _run(tree: Path) -> dict[str, str]:
    """The digests of a tree, by the tests of this one."""
    code = (
        f"import sys; sys.path[:0] = [{str(tree)!r}]; import streameval;"
        f"assert streameval.__file__.startswith({str(tree)!r}), streameval.__file__;"
        f"sys.path[0] = {str(_ROOT)!r}; from tests import digests; digests.write()"
    )
    command = [sys.executable, "-W", "ignore", "-c", code]
    answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, cwd="/")
    digests: dict[str, str] = json.loads(answer.stdout)
    return digests


def write() -> None:
    """Write the digests of the tree that is imported, as JSON."""
    print(json.dumps({name: _digest(content) for name, content in cases()}))


def main() -> int:
    """Compare this tree with the one that is named."""
    if len(sys.argv) != 2:
        print("python -m tests.digests TREE")
        return 2
    here, there = _run(_ROOT), _run(Path(sys.argv[1]).resolve())
    unlike = [name for name in chain(here, there) if here.get(name) != there.get(name)]
    for name in dict.fromkeys(unlike):
        print(f"{name}: {here.get(name)} here, {there.get(name)} there")
    print(f"{len(here)} digests, {len(dict.fromkeys(unlike))} differ")
    return bool(unlike)


if __name__ == "__main__":
    raise SystemExit(main())
