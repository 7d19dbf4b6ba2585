"""One try of a connection, for whoever checks a configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing

from kafka import KafkaConsumer
from kafka.errors import KafkaError

from streameval.errors import SourceError
from streameval.sources.kafka_client import UNUSABLE, connect, explanation, hush, unusable
from streameval.sources.kafka_cluster import Cluster
from streameval.sources.kafka_settings import source_config, source_topics
from streameval.sources.kafka_start import EARLIEST, LATEST, start_spec
from streameval.sources.options import KafkaOptions


def probe(options: KafkaOptions, environment: Mapping[str, str]) -> str:
    """Try the connection once.

    Returns:
        One sentence: which topics there are, with how many partitions and records.

    Raises:
        ConfigError: a setting is unknown or not a user's to set.
        SourceError: no broker answers, or a topic does not exist or may not be read.
    """
    start_spec(options.start)
    names, config = source_topics(options), source_config(options, environment)
    hush()
    try:
        with closing(Cluster(config)) as cluster:
            findings = _findings(cluster, names)
        # The reader's settings are more than those of the questions asked so far.
        connect(KafkaConsumer, config).close(autocommit=False)
    except UNUSABLE as error:
        raise unusable(error, config) from error
    except (KafkaError, OSError) as error:
        remedy = "start the broker, or correct [source.kafka]"
        raise SourceError("kafka", explanation(error, config), remedy) from error
    return findings


def _findings(cluster: Cluster, names: Sequence[str]) -> str:
    topics = cluster.topics(names)
    for name in topics.missing:
        remedy = "create it, or correct [source] topics"
        raise SourceError(f"topic {name!r}", "there is none on this cluster", remedy)
    for name, why in topics.refused.items():
        raise SourceError(f"topic {name!r}", f"Kafka says {why}", "allow this user to read it")
    ends = cluster.offsets(topics.partitions, LATEST)
    begins = cluster.offsets(topics.partitions, EARLIEST)
    count = sum(ends[partition] - begins[partition] for partition in ends)
    listed = ", ".join(names)
    return f"Kafka answers: {listed}: {len(ends)} partitions, {count:,} offsets in use."
