"""When a broker that was just started may be used."""

from __future__ import annotations

import socket
import subprocess
import time

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata

_COMMITS = TopicPartition("__consumer_offsets", 0)


def await_ready(address: str, process: subprocess.Popen[bytes], seconds: float) -> None:
    """Return once metadata is answered and an offset can be committed.

    Args:
        address: HOST:PORT of the broker.
        process: its process; when that ends, waiting is over.
        seconds: longest wait.

    Raises:
        TimeoutError: it ended, or did not answer in time.
    """
    deadline = time.monotonic() + seconds
    while not (_listening(address) and _answering(address)):
        if process.poll() is not None:
            raise TimeoutError(f"it ended with code {process.returncode} while starting")
        if time.monotonic() > deadline:
            raise TimeoutError(f"it did not answer within {seconds:g} s")
        time.sleep(0.1)


def _listening(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=1).close()
    except OSError:
        return False
    return True


def _answering(address: str) -> bool:
    """Whether a throw-away commit succeeds, which also makes the broker create its own topic."""
    try:
        consumer = KafkaConsumer(
            bootstrap_servers=address,
            group_id="streameval-readiness",
            enable_auto_commit=False,
            bootstrap_timeout_ms=10_000,
        )
    except KafkaError:
        return False
    try:
        consumer.commit({_COMMITS: OffsetAndMetadata(0, "", -1)}, timeout_ms=10_000)
    except KafkaError:
        return False
    finally:
        consumer.close(autocommit=False)
    return True
