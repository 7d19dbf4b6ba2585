"""The clients that can read: kafka-python, and confluent-kafka if its extra is installed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import Any, TypeAlias

from kafka import KafkaConsumer

from streameval.errors import MissingExtraError
from streameval.sources.kafka.client import connect
from streameval.sources.kafka.consumer import Consumer, Rebalances
from streameval.sources.kafka.kafka_python import KafkaPythonConsumer
from streameval.sources.kafka.settings import KAFKA_PYTHON, client_of
from streameval.sources.kafka.watchdog import ClusterMonitor
from streameval.sources.options import KafkaOptions

Subscribe: TypeAlias = Callable[[Sequence[str], Rebalances, ClusterMonitor], Consumer]
"""Makes a consumer of these topics; raises KafkaError where no broker answers."""


def subscribing(
    options: KafkaOptions, environment: Mapping[str, str], config: Mapping[str, Any]
) -> Subscribe:
    """What makes consumers of the client that is asked for.

    Raises:
        ConfigError: the client has no such setting, or does not take its value.
        MissingExtraError: the client is not installed.
    """
    if client_of(options) == KAFKA_PYTHON:
        return partial(KafkaPythonConsumer, config)
    settings = _module("librdkafka").librdkafka_config(options, environment, config)
    return partial(_module("confluent").ConfluentConsumer, settings, config)


def try_reader(
    options: KafkaOptions, environment: Mapping[str, str], config: Mapping[str, Any]
) -> None:
    """Let the client connect once, as it would to read.

    Raises:
        ConfigError: the client has no such setting, or does not take its value.
        KafkaError: no broker answers it.
        MissingExtraError: the client is not installed.
    """
    if client_of(options) == KAFKA_PYTHON:
        connect(KafkaConsumer, config).close(autocommit=False)
        return
    named = {**config, "group_id": options.group}
    librdkafka = _module("librdkafka")
    librdkafka.try_connection(librdkafka.librdkafka_config(options, environment, named))


def _module(name: str) -> ModuleType:
    """One of those that need the extra."""
    try:
        return import_module(f"streameval.sources.kafka.{name}")
    except ImportError as error:
        raise MissingExtraError('client = "confluent" of [source.kafka]', "fast", error) from error
