"""The process: garbage collection and stopping."""

from __future__ import annotations

import gc
import signal

from streameval.config import Config, WebOptions
from streameval.daemon import Daemon, Stop
from streameval.sources.options import SimulatorOptions
from tests.daemon.hands import Hands
from tests.effort import every_case


@every_case("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_only_requests_a_stop(number: signal.Signals) -> None:
    with Stop().on_signals() as stop:
        assert not stop()
        signal.raise_signal(number)
        assert stop()
        assert stop.signal == number.name


def test_a_second_signal_is_not_handled() -> None:
    with Stop().on_signals():
        signal.raise_signal(signal.SIGTERM)
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        assert signal.getsignal(signal.SIGINT) is signal.SIG_DFL


def test_signal_handlers_are_restored() -> None:
    before = signal.getsignal(signal.SIGINT)
    with Stop().on_signals():
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_the_stop_is_due_after_the_given_seconds() -> None:
    hands = Hands()
    stop = Stop(2.5, hands.read)
    hands.turn(2.0)
    assert not stop()
    hands.turn(0.5)
    assert stop()


def test_garbage_collection_is_rare_while_counting() -> None:
    found: list[tuple[int, int]] = []

    def until() -> bool:
        found.append((gc.get_freeze_count(), gc.get_threshold()[0]))
        return True

    web = WebOptions(listen="127.0.0.1:0")
    config = Config(metrics=["ndcg@10"], source=SimulatorOptions(), web=web)
    before = gc.get_threshold()
    Daemon(config, {}).run(until)
    frozen, young = found[0]
    assert frozen > len(gc.get_objects()) / 2
    assert young > 10 * before[0]
    assert (gc.get_freeze_count(), gc.get_threshold()) == (0, before)
