"""Events, configuration, sources and addresses that cannot be used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from streameval.errors.root import StreamevalError


class InvalidEventError(StreamevalError):
    """An event handed to an Accumulator is not a valid event."""

    def __init__(self, reason: str, detail: str) -> None:
        self.reason = reason
        self.detail = detail
        super().__init__(f"invalid event ({reason}): {detail}.")


class ConfigError(StreamevalError):
    """The configuration does not say something that can be done."""

    def __init__(self, path: str, key: str, problem: str) -> None:
        self.path = path
        self.key = key
        self.problem = problem
        where = f"{path}: {key}" if key else path
        super().__init__(f"{where}: {problem}")


class SourceError(StreamevalError):
    """A source cannot be read; carries where and what to do."""

    def __init__(self, source: str, problem: str, remedy: str) -> None:
        self.source = source
        self.problem = problem
        self.remedy = remedy
        super().__init__(f"{source}: {problem}; {remedy}.")


class MissingExtraError(StreamevalError):
    """Something was asked for that an optional extra of the package brings."""

    def __init__(self, what: str, extra: str, error: ImportError) -> None:
        self.what = what
        self.extra = extra
        self.error = error
        problem = " ".join(str(error).split()) or type(error).__name__
        install = " ".join(f"'{each}'" for each in _requirements(extra))
        super().__init__(
            f"{what} needs the extra {extra!r}, which cannot be imported ({problem}); "
            f"pip install {install}."
        )


def _requirements(extra: str) -> list[str]:
    """What an extra consists of, as pip takes it: right wherever the package itself is from."""
    from importlib.metadata import PackageNotFoundError, requires  # noqa: PLC0415  slow, and rare

    try:
        known = requires("streameval") or []
    except PackageNotFoundError:
        known = []
    parts = (each.partition(";") for each in known)
    chosen = (f'extra == "{extra}"', f"extra == '{extra}'")
    found = [name.strip() for name, _, marker in parts if marker.strip() in chosen]
    return found or [f"streameval[{extra}]"]


class BrokerError(StreamevalError):
    """The broker that was to be started here does not start."""

    def __init__(self, problem: str, remedy: str) -> None:
        self.problem = problem
        self.remedy = remedy
        super().__init__(f"the Kafka broker does not start: {problem}; {remedy}.")


class PublishError(StreamevalError):
    """Records could not be written to a topic; carries how many were before that."""

    def __init__(self, topic: str, published: int, problem: str, remedy: str) -> None:
        self.topic = topic
        self.published = published
        self.problem = problem
        self.remedy = remedy
        super().__init__(f"topic {topic!r}, after {published:,} records: {problem}; {remedy}.")


class AddressInUseError(StreamevalError):
    """The address to listen on is taken, or is not ours to take."""

    def __init__(self, address: str, problem: str) -> None:
        self.address = address
        self.problem = problem
        super().__init__(
            f"cannot listen on {address}: {problem}; choose another address with "
            "[web] listen, --web.listen (run) or --listen (demo)."
        )


class DeadLetterError(StreamevalError):
    """Invalid records could not be written where they are kept; nothing was passed over."""

    def __init__(self, destination: str, problem: str, remedy: str) -> None:
        self.destination = destination
        self.problem = problem
        self.remedy = remedy
        super().__init__(f"dead letters to {destination}: {problem}; {remedy}.")


class UnevenStreamsError(StreamevalError):
    """Streams that are to be joined do not lie in the same partitions."""

    def __init__(
        self, number: int, counts: Mapping[str, int | None], missing: Sequence[str]
    ) -> None:
        self.number = number
        self.counts = counts
        self.missing = missing
        told = ", ".join(f"{topic} has {count}" for topic, count in counts.items())
        found = (
            f"partition {number} of {', '.join(missing)} did not come with it"
            if missing
            else (f"their numbers of partitions differ: {told}")
        )
        super().__init__(
            f"[attribution] joins partition {number} of all its topics, and {found}. Give all "
            "topics the same number of partitions, write records of one key to the same one "
            "(request id or user as the record's key, the same partitioner), and let the range "
            "assignor share them out."
        )


class SplitKeyError(StreamevalError):
    """Records of one key lie in different partitions of streams that are to be joined."""

    def __init__(self, key: str, places: Mapping[str, int]) -> None:
        self.key = key
        self.places = places
        told = " and ".join(f"partition {number} of {topic}" for topic, number in places.items())
        super().__init__(
            f"{key!r} is in {told}, so its records can never meet. Write all topics with the join "
            "key (request id or user) as the record's key and with the same partitioner (murmur2 "
            "in Java and kafka-python; partitioner=murmur2_random in librdkafka), then begin anew."
        )


class TooManyInvalidError(StreamevalError):
    """So many records are invalid that the fault lies elsewhere; consuming has stopped."""

    def __init__(self, invalid: int, of: int, limit: str, example: str) -> None:
        self.invalid = invalid
        self.of = of
        self.limit = limit
        self.example = example
        super().__init__(
            f"{invalid:,} of the last {of:,} records are invalid, more than {limit}: consuming "
            f"has stopped, and nothing was passed over. The last one: {example}. See that [event] "
            "describes what producers write, or raise the limit under [dead_letters]."
        )
