"""In a user's program nothing is printed unless logging is configured, and no garbage is made."""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest

from streameval import Accumulator

_USE = """
import importlib
import logging
{listen}
import streameval
importlib.reload(streameval)
from prometheus_client import CollectorRegistry, generate_latest
from streameval.asgi import app
from streameval.prometheus import Collector

lists = streameval.Accumulator("ndcg@10")
registry = CollectorRegistry()
registry.register(Collector(lists))
app(lists)
lists.update_many([(["a"], ["b"])] * 10_000)
generate_latest(registry)
lists.update(["a"], ["b"])
generate_latest(registry)
logging.getLogger("streameval.checkpoints").error("a file is damaged")
assert len(logging.getLogger("streameval").handlers) == 1
"""


def _said(listen: str) -> tuple[str, str]:
    command = [sys.executable, "-W", "error", "-c", _USE.format(listen=listen)]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    return result.stdout, result.stderr


def test_nothing_is_printed_by_default() -> None:
    assert _said("") == ("", "")


@pytest.mark.parametrize(
    "listen",
    [
        "logging.basicConfig()",
        "logging.getLogger('streameval').addHandler(logging.StreamHandler())",
    ],
)
def test_a_configured_log_gets_a_warning_once(listen: str) -> None:
    printed, logged = _said(listen)
    assert printed == ""
    assert logged.count("lists with interactions and no hit") == 1
    assert logged.count("a file is damaged") == 1


_METRICS = ("ndcg@5", "mrr(statistic=median)@5", "item_coverage@5", "mae", "auc", "personalization")


def test_counted_events_are_freed_without_the_garbage_collector() -> None:
    _counted()
    gc.collect()
    gc.disable()
    try:
        _counted()
        assert gc.collect() == 0
    finally:
        gc.enable()


def _counted() -> None:
    first, second = (Accumulator(*_METRICS, catalog=9) for _ in "ab")
    first.update(["a", "b"], {"b": 2.0})
    first.update(["c"], ["c"])
    second.merge(first.copy())
    second.adopt(b"".join(first.dump()))
    second.compute()
