from __future__ import annotations

import os
import pickle
import sys
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from streameval import Accumulator
from streameval.accumulator.event_checks import FIRST_OBSERVED
from streameval.exporters.embedded import Collector
from tests.embedding.examples import lists, scraped
from tests.processes import finished

METRICS = ("ndcg@10", "hit_rate@3", "item_coverage@10", "ndcg(statistic=median)@10")
THREADS = 4
EACH = 3_000


@pytest.fixture(autouse=True)
def _restless() -> Iterator[None]:
    """Threads switch as often as possible, so that races show."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def _new() -> Accumulator:
    return Accumulator(*METRICS, catalog=50)


def _alone() -> Accumulator:
    """Everything counted by one thread."""
    total = _new()
    for number in range(THREADS):
        for shown_and_clicked in lists(EACH, number):
            total.update(*shown_and_clicked)
    return total


def _count(accumulator: Accumulator) -> None:
    """As many threads as there are, each its own lists."""

    def run(number: int) -> None:
        for shown_and_clicked in lists(EACH, number):
            accumulator.update(*shown_and_clicked)

    with ThreadPoolExecutor(THREADS) as threads:
        list(threads.map(run, range(THREADS)))


def _scrapes(registry: CollectorRegistry, over: threading.Event) -> list[dict[str, float]]:
    scrapes = [scraped(registry)]
    while not over.is_set():
        scrapes.append(scraped(registry))
    return [*scrapes, scraped(registry)]


def test_scrapes_while_several_threads_count_lose_nothing_and_never_fall() -> None:
    accumulator, over = _new(), threading.Event()
    registry = CollectorRegistry()
    registry.register(Collector(accumulator, first_exposure=0))
    with ThreadPoolExecutor(2) as readers:
        looking = [readers.submit(_scrapes, registry, over) for _ in range(2)]
        _count(accumulator)
        over.set()
        looks = [future.result() for future in looking]
    assert accumulator.state_dict() == _alone().state_dict()
    count, total = "streameval_hit_rate_count{k=3}", "streameval_hit_rate_sum{k=3}"
    for shown in looks:
        counters = [(look[count], look[total]) for look in shown]
        assert counters == sorted(counters)
        assert counters[-1][0] == THREADS * EACH
        assert len(set(counters)) > 2


class _Held(list[str]):
    """A list that is looked through when it is let go, and says when somebody began to."""

    def __init__(self, items: list[str]) -> None:
        super().__init__(items)
        self.begun, self.go = threading.Event(), threading.Event()

    def __iter__(self) -> Iterator[str]:
        self.begun.set()
        self.go.wait(60)
        return super().__iter__()


def test_a_scrape_waits_for_the_list_that_is_being_counted() -> None:
    accumulator, shown = Accumulator("hit_rate@1"), _Held(["a"])
    registry = CollectorRegistry()
    registry.register(Collector(accumulator, first_exposure=0))
    scraped(registry)
    # What changed is copied; what did not is not, and waits for nobody.
    accumulator.update(["a"], ["a"])
    with ThreadPoolExecutor(2) as threads:
        counting = threads.submit(accumulator.update, shown, ["a"])
        assert shown.begun.wait(60)
        scrape = threads.submit(scraped, registry)
        done, _ = wait([scrape], timeout=0.3)
        shown.go.set()
        counting.result()
    assert not done
    assert scrape.result()["streameval_hit_rate_count{k=1}"] == 2


def test_a_scrape_is_consistent() -> None:
    accumulator, over = Accumulator("hit_rate@1", "precision@1"), threading.Event()
    registry = CollectorRegistry()
    registry.register(Collector(accumulator, first_exposure=0))
    with ThreadPoolExecutor(1) as reader:
        looking = reader.submit(_scrapes, registry, over)
        for _ in range(20_000):
            accumulator.update(["a", "b"], ["a"])
        over.set()
        looks = looking.result()
    for shown in looks:
        assert len(set(shown.values())) == 1


def test_asking_for_statistics_while_another_thread_counts_loses_nothing() -> None:
    accumulator = Accumulator("hit_rate@1", "ndcg@2")

    def count() -> None:
        for _ in range(10_000):
            accumulator.update(["a", "b"], ["a"])

    with ThreadPoolExecutor(1) as counter:
        counting = counter.submit(count)
        while not counting.done():
            assert accumulator.needs("ndcg@2")
            assert accumulator.table.ids in (None, "text")
        counting.result()
    assert accumulator.read("ndcg@2").count == accumulator.lists == 10_000


def test_two_accumulators_that_merge_each_other_do_not_deadlock() -> None:
    first, other = Accumulator("ctr"), Accumulator("ctr")
    for accumulator in (first, other):
        accumulator.update(["a"], ["a"])

    def merged(pair: tuple[Accumulator, Accumulator]) -> None:
        for _ in range(30):
            pair[0].merge(pair[1])

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(merged, [(first, other), (other, first)], timeout=60))
    assert first.lists > 30


def test_a_copy_has_a_lock_of_its_own() -> None:
    accumulator = Accumulator("hit_rate@3")
    accumulator.update(["a"], ["a"])
    with ThreadPoolExecutor(1) as thread, accumulator.lock:
        duplicate = accumulator.copy()
        thread.submit(duplicate.update, ["a"], ["a"]).result(60)
    assert (accumulator.lists, duplicate.lists) == (1, 2)


def test_a_shared_one_can_be_pickled_and_saved() -> None:
    shared = Accumulator(*METRICS, catalog=50)
    for shown_and_clicked in lists(20):
        shared.update(*shown_and_clicked)
    again = pickle.loads(pickle.dumps(shared))
    again.update(["a"], ["a"])
    shared.update(["a"], ["a"])
    assert again.state_dict() == shared.state_dict()
    fresh = _new()
    assert not fresh.adopt(b"".join(shared.dump()))
    assert fresh.state_dict() == shared.state_dict()


class Watched(AbstractContextManager[None]):
    """A lock that counts how often it is taken."""

    def __init__(self) -> None:
        self.taken = 0

    def __enter__(self) -> None:
        self.taken += 1

    def __exit__(self, *_: object) -> None:
        return


_CALLS: Mapping[str, tuple[Any, ...]] = {
    "update": (["a"], ["a"]),
    "update_many": ([(["a"], ["a"])],),
    "read": ("hit_rate@1",),
    "value": ("hit_rate@1",),
    "interval": ("hit_rate@1",),
    "groups": ("hit_rate@1",),
    "merge": (Accumulator("hit_rate@1"),),
    "load_state_dict": (Accumulator("hit_rate@1").state_dict(),),
    "adopt": (b"".join(Accumulator("hit_rate@1").dump()),),
    "needs": ("hit_rate@1",),
}
"""Method -> arguments; others have none."""


def test_every_method_that_reads_or_counts_takes_the_lock() -> None:
    """Members that are not listed here neither read nor change counts."""
    harmless = {"ids", "version"}
    accumulator = Accumulator("hit_rate@1")
    for _ in range(FIRST_OBSERVED + 5):
        accumulator.update(["a"], ["a"])
    watched: Any = Watched()
    accumulator.lock = watched
    for name in {name for name in vars(Accumulator) if not name.startswith("_")} - harmless:
        for _ in range(4):  # Then a mean follows the events, and its value needs no table.
            accumulator.update(["a"], ["a"])
            accumulator.value("hit_rate@1")
        before = watched.taken
        member = getattr(accumulator, name)
        if callable(member):
            member(*_CALLS.get(name, ()))
        assert watched.taken > before, name


_FORKS = """
import os, signal, threading
from prometheus_client import CollectorRegistry, generate_latest
from streameval import Accumulator
from streameval.prometheus import Collector

counted, other = Accumulator("ndcg@10", "ctr"), Accumulator("ndcg@10", "ctr")
registry = CollectorRegistry()
collector = Collector({"a": counted, "b": other}, labels="variant", first_exposure=0)
registry.register(collector)
shown = [[str(item) for item in range(20)]] * 2_000
over = threading.Event()

def count():
    # With a pause, in which the thread that forks may find every lock free.
    while not over.wait(0.002):
        counted.update_many(shown, [["3"]] * 2_000)
        counted.merge(other)

def scrape():
    while not over.is_set():
        generate_latest(registry)

threads = [threading.Thread(target=work) for work in (count, count, scrape)]
for thread in threads:
    thread.start()
children = []
for _ in range(10):
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        before = counted.lists
        counted.update(["1", "2"], ["1"])
        counted.update_many(shown, [["3"]] * 2_000)
        # The lock of a registry is not ours: another thread may have held it.
        fresh = CollectorRegistry()
        fresh.register(collector)
        generate_latest(fresh)
        whole = counted.lists == before + 2_001 == counted.read("ctr").lists
        os._exit(0 if whole and before % 2_000 == 0 else 1)
    children.append(child)
ended = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
over.set()
for thread in threads:
    thread.join()
print(ended)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_child_that_is_forked_while_threads_count_counts_on() -> None:
    command = [sys.executable, "-W", "ignore", "-c", _FORKS]
    done = finished(command)
    assert done.stdout == f"{[0] * 10}\n", done.stderr


_FORKS_IN_AN_IMPORT = """
import os, signal, sys, threading, types
from streameval.events.extras import LazyModule

sys.path.insert(0, sys.argv[1])
begun = sys.modules["begun"] = types.ModuleType("begun")
begun.event = threading.Event()
thread = threading.Thread(target=lambda: LazyModule("slow").value)
thread.start()
begun.event.wait()
child = os.fork()
if child == 0:
    signal.alarm(20)
    os._exit(LazyModule("slow").value)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
thread.join()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_child_that_is_forked_while_a_thread_imports_a_late_module_uses_it(
    tmp_path: Path,
) -> None:
    source = "import begun, time\nbegun.event.set()\ntime.sleep(0.2)\nvalue = 7\n"
    (tmp_path / "slow.py").write_text(source)
    command = [sys.executable, "-W", "ignore", "-c", _FORKS_IN_AN_IMPORT, str(tmp_path)]
    done = finished(command)
    assert done.stdout == "7\n", done.stderr
