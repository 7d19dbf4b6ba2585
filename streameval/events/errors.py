"""All errors of the package: each carries its data and a message that says what to do."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import msgspec

from streameval.events.printable import printable

_USER_INFORMATION = re.compile(r"(?<=//)[^/?#\s\"]*@")


def without_user(text: str) -> str:
    """The text with user and password of each URL replaced by ***, as in http://***@host/path."""
    return _USER_INFORMATION.sub("***@", text)


class StreamevalError(Exception):
    """Base class of all errors that this package raises.

    A message has no password of a URL, and no character that controls a terminal: it may quote
    whatever a record, a file or a state holds.
    """

    def __init__(self, *arguments: object) -> None:
        super().__init__(
            *(printable(without_user(x)) if isinstance(x, str) else x for x in arguments)
        )

    @property
    def lines(self) -> list[str]:
        """The message; several problems have a line each."""
        return [str(self)]

    def __reduce__(self) -> tuple[object, ...]:
        return type(self).__new__, (type(self), *self.args), self.__dict__  # with data, for pickle


class PermanentError(StreamevalError):
    """A restart cannot help: a person must decide first."""


class ProblemError(StreamevalError):
    """A problem at one place, and its remedy."""

    def __init__(self, where: str, problem: str, remedy: str) -> None:
        self.where, self.problem, self.remedy = where, problem, remedy
        super().__init__(f"{where}: {problem}; {remedy}.")


def nearest(text: str, candidates: Iterable[str]) -> list[str]:
    """The known names closest to a misspelt one, best first; at most three."""
    from difflib import get_close_matches  # noqa: PLC0415  slow, and for a mistake only

    return get_close_matches(text.lower(), list(candidates), n=3, cutoff=0.6)


def suggestion(text: str, candidates: Iterable[str]) -> str:
    """The question "Did you mean ...?" for a misspelt name; empty if no known name is close."""
    names = nearest(text, candidates)
    return f" Did you mean {' or '.join(repr(name) for name in names)}?" if names else ""


def unknown_name_problem(name: str, among: Sequence[str], called: str) -> str | None:
    """The problem with a name that is not among the allowed names, or None."""
    if name in among:
        return None
    choices = ", ".join(map(repr, among)) or "none yet"
    return f"not among {called} ({choices}).{suggestion(name, among)}"


class MetricError(PermanentError):
    """A metric cannot be parsed or read."""


class MetricSyntaxError(MetricError):
    """The text of a metric does not follow the grammar."""

    def __init__(self, text: str, problem: str) -> None:
        self.text, self.problem = text, problem
        super().__init__(
            f"metric {text!r}: {problem}. Write [convention:]name[(parameter=value,...)][@k], "
            "for example 'ndcg@10' or 'ndcg(gain=exp2)@10'."
        )


class UnknownMetricError(MetricError):
    """No metric, convention or module has that name."""

    def __init__(self, text: str, known: Iterable[str] = (), problem: str | None = None) -> None:
        self.text, self.known = text, sorted(known)
        # The whole catalogue would fill the screen.
        few = len(self.known) <= 40
        listed = f"Known: {', '.join(self.known)}." if few else "`streameval metrics` lists all."
        bare = re.split(r"[(@]", text.rpartition(":")[2])[0]
        hint = suggestion(text, self.known) or suggestion(bare, self.known)
        super().__init__(problem or f"unknown metric {text!r}.{hint} {listed}")


class MetricModuleError(MetricError):
    """The module of a user's own metric is not loaded, or fails while it is imported."""

    def __init__(self, module: str, problem: str) -> None:
        self.module, self.problem = module, problem
        super().__init__(problem)


class MetricDeclarationError(MetricError, TypeError):
    """A function is no metric: its @metric lacks something, its name is taken, or there is none."""

    def __init__(self, problem: str, *functions: object) -> None:
        self.problem, self.functions = problem, functions
        names = [getattr(function, "__name__", repr(function)) for function in functions]
        super().__init__(f"@metric of {', '.join(names)}: {problem}." if names else problem)


class MetricValueError(MetricError, TypeError):
    """A user's metric returned a value of the wrong type for its first argument."""

    def __init__(self, metric: str, found: object, needed: str) -> None:
        self.metric, self.found, self.needed = metric, f"{found!r:.80}", needed
        super().__init__(f"metric {metric!r} returned {self.found}; return {needed}.")


class MetricLawError(MetricError, AssertionError):
    """A metric breaks a law that holds for every metric."""

    def __init__(self, metric: str, law: str, detail: str, events: Sequence[object]) -> None:
        self.metric, self.law, self.detail, self.events = metric, law, detail, events
        super().__init__(f"metric {metric!r} breaks the law {law!r}: {detail}.")

    def __str__(self) -> str:
        on = ["On:", *map(str, self.events)] if self.events else []
        return "\n    ".join([" ".join([self.args[0], *on[:1]]), *on[1:]])


class MetricParameterError(MetricError):
    """A metric does not have this parameter, or does not allow this value."""

    def __init__(self, metric: str, parameter: str, found: object, allowed: str) -> None:
        self.metric, self.parameter, self.found, self.allowed = metric, parameter, found, allowed
        super().__init__(f"metric {metric!r}: {parameter} = {found!r} is not allowed; {allowed}.")


class CutoffExceedsDepthError(MetricError):
    """A cut-off exceeds the ranks kept."""

    def __init__(self, metric: str, k: int | None, depth: int) -> None:
        self.metric, self.k, self.depth = metric, k, depth
        needed = "the whole list" if k is None else f"rank {k}"
        super().__init__(
            f"metric {metric!r} needs {needed}, but only the first {depth} ranks are kept. "
            "Name it when you create the Accumulator, or pass a larger depth=."
        )


class NotKeptError(MetricError):
    """A metric needs a statistic that was not kept."""

    def __init__(self, metric: str, why: str) -> None:
        self.metric, self.why = metric, why
        super().__init__(
            f"metric {metric!r} cannot be read: {why}. Name it when you create the Accumulator."
        )


class MissingInputError(MetricError):
    """A metric lacks an input, for example a catalogue or scores."""

    def __init__(self, metric: str, needs: str, remedy: str) -> None:
        self.metric, self.needs, self.remedy = metric, needs, remedy
        super().__init__(f"metric {metric!r} needs {needs}; {remedy}.")


class MissingAttributeError(MissingInputError):
    """A metric names an attribute of items that is not among those `given`."""

    def __init__(self, metric: str, attribute: str, given: Sequence[str]) -> None:
        self.attribute, self.given = attribute, given
        listed = ", ".join(dict.fromkeys((*nearest(attribute, given), *given)))
        what = f"the attribute {attribute!r} of items" + (f", and there is {listed}" * bool(listed))
        super().__init__(metric, what, f"give attributes={{{attribute!r}: item -> values}}")


class UndefinedMetricError(MetricError):
    """A convention has no value for these lists; the original raises an error."""

    def __init__(self, metric: str, why: str) -> None:
        self.metric, self.why = metric, why
        super().__init__(f"metric {metric!r} is undefined: {why}.")


class NotComparableError(MetricError):
    """A metric has no sums by user group to compare, because of `why` or without `intervals`."""

    def __init__(self, metric: str, why: str | None = None) -> None:
        why = (
            why or "Create the Accumulator with intervals: Accumulator(..., intervals=Intervals())."
        )
        self.metric, self.why = metric, why
        super().__init__(f"metric {metric!r} cannot be compared. {why}")


class SuspiciousEventsWarning(UserWarning):
    """The events look wrong; for example, many lists without a hit."""


class UnlikeStateError(StreamevalError):
    """States made with different settings cannot be merged or loaded."""

    def __init__(self, what: str, left: object, right: object) -> None:
        self.what, self.left, self.right = what, left, right
        super().__init__(
            f"different {what}: here {_only_in(left, right)}; there {_only_in(right, left)}. Only "
            "states made with the same settings can be merged or loaded."
        )


def _only_in(first: object, other: object) -> str:
    if isinstance(first, Mapping) and isinstance(other, Mapping):
        extras = [f"{name} = {first[name]}" for name in first if first[name] != other.get(name)]
    elif isinstance(first, list | tuple) and isinstance(other, list | tuple):
        extras = [str(entry) for entry in first if entry not in other]
    else:
        return repr(first)
    return ", ".join(extras) or "nothing more"


class BackfillError(ProblemError):
    """A backfill cannot be merged into a state."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__("this backfill cannot be merged", problem, remedy)


class StateVersionError(PermanentError):
    """This release cannot read the version of a saved state; `writer` wrote it."""

    def __init__(
        self, what: str, found: object, known: int, writer: str = "the release that wrote it"
    ) -> None:
        self.what, self.found, self.known, self.writer = what, found, known, writer
        super().__init__(
            f"{what}: state version {found!r} is not known; this release reads version {known}. "
            f"Use {writer}, or count its events again."
        )


class DamagedStateError(StreamevalError):
    """A saved state is damaged."""

    def __init__(self, what: str, problem: str) -> None:
        self.what, self.problem = what, problem
        super().__init__(
            f"{what}: the saved state is damaged ({problem}). Nothing was loaded; use another copy."
        )


@contextmanager
def damage_as_error(what: str) -> Iterator[None]:
    """The one door for saved data: whatever content that nobody wrote so raises is damage.

    A digest says that bytes are as written, not by whom: a forged state has the right ones, and
    its values may be of any kind, size and depth.

    Args:
        what: the name of what is read.

    Raises:
        DamagedStateError: reading it failed.

    Example:
        >>> with damage_as_error("meta"):
        ...     {}["clock"]
        Traceback (most recent call last):
            ...
        streameval.events.errors.DamagedStateError: meta: the saved state is damaged (KeyError: ...
    """
    try:
        yield
    except StreamevalError:
        raise
    except _DAMAGE as error:
        raise DamagedStateError(what, f"{type(error).__name__}: {error}") from error


_DAMAGE = (
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
    msgspec.MsgspecError,
)


class HalfCountedError(ProblemError):
    """The counts of an Accumulator are in the middle of a change, or one stopped there."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__("counts are half-way through a change", problem, remedy)


class StoreError(ProblemError):
    """Checkpoints cannot be written or read; `where` names the store."""


class ForeignStoreError(StoreError, PermanentError):
    """The store holds the state of another cluster or group."""

    def __init__(self, store: str, what: str, here: str, there: str) -> None:
        self.what, self.here, self.there = what, here, there
        problem = f"its state belongs to {what} {there!r}, and this process reads {here!r}"
        super().__init__(store, problem, "give another [state] path")


class UnownedStoreError(StoreError, PermanentError):
    """The store has checkpoints, but no readable file with their owner."""


class UnsavedStateError(StreamevalError):
    """The process ends before its last records are in a checkpoint.

    Attributes:
        kept: place -> whether the store has an earlier checkpoint; None if it cannot be read.
    """

    def __init__(self, kept: Mapping[str, bool | None], problem: str) -> None:
        self.places, self.kept, self.problem = tuple(kept), kept, problem
        bare = [place for place, earlier in kept.items() if earlier is False]
        if bare:
            then = f"The store has no earlier checkpoint of {', '.join(bare)} to resume at"
        elif None in kept.values():
            then = "The next start resumes at the checkpoint before it, if the store still has one"
        else:
            then = "The next start resumes at the checkpoint before it"
        problem = problem.rstrip(".")
        super().__init__(
            f"the last checkpoint of {', '.join(kept)} was not written: {problem}. {then}."
        )


class TooManyOpenError(PermanentError):
    """More lists wait for interactions than the configured limit."""

    def __init__(self, limit: str, waiting: int, allowed: int) -> None:
        self.limit, self.waiting, self.allowed = limit, waiting, allowed
        what = "bytes of lists and interactions" if limit == "max_bytes" else "records"
        super().__init__(
            f"{waiting:,} {what} wait for the end of their window, and [attribution] {limit} = "
            f"{allowed}. Nothing was dropped. Raise {limit}, or make the window shorter; reading "
            "more slowly does not help."
        )


class UncountableRecordsError(StreamevalError):
    """Counting valid records fails because of a bug, and the counts are unusable.

    Attributes:
        records: partition, first and last offset of the records counted together.
    """

    def __init__(self, records: Sequence[tuple[str, int, int]], problem: str) -> None:
        self.records, self.problem = records, problem
        where = ", ".join(
            f"{partition} offset {first}"
            if first == last
            else f"{partition} offsets {first} to {last}"
            for partition, first, last in records[:3]
        )
        if len(records) > 3:
            where += f" and {len(records) - 3:,} more partitions"
        super().__init__(
            f"{where}: counting fails ({problem}). Report this, with the records. With [state], "
            "the next start tries each record alone, and makes a dead letter of one that fails."
        )


class RefusedStateError(PermanentError):
    """Resuming from a checkpoint would be wrong, and no policy allows it."""

    def __init__(self, where: str, problem: str, policy: str, choices: Mapping[str, str]) -> None:
        self.where, self.problem, self.policy, self.choices = where, problem, policy, choices
        offered = " or ".join(f'{policy} = "{it}" ({does})' for it, does in choices.items())
        super().__init__(f"{where}: {problem}. To continue, set [state] {offered}.")


class InvalidEventError(StreamevalError):
    """An event given to an Accumulator is not valid."""

    def __init__(self, reason: str, detail: str) -> None:
        self.reason, self.detail = reason, detail
        super().__init__(f"invalid event ({reason}): {detail}.")


class UsageError(PermanentError):
    """The arguments of a command, or of a function that evaluates, are wrong."""


class ConfigError(PermanentError):
    """The configuration is not valid; `others` are further problems, a line each in the text."""

    def __init__(self, path: str, key: str, problem: str, *others: ConfigError) -> None:
        self.path, self.key, self.problem, self.others = path, key, problem, others
        sentence = ": ".join(filter(None, (path, key, problem)))
        super().__init__(sentence)

    @property
    def lines(self) -> list[str]:
        """Its problem, and those of the others."""
        return [self.args[0], *(line for error in self.others for line in error.lines)]

    def __str__(self) -> str:
        return "\n".join(self.lines)


class SourceError(ProblemError):
    """A source cannot be read; `where` names it."""


class RefusedMemberError(SourceError, PermanentError):
    """With its current settings, this process cannot join the consumer group."""


class OptionError(ConfigError, ValueError):
    """A configuration table is not valid; `key` is relative to the table.

    Also a ValueError, because msgspec then adds the path of the table.
    """

    def __init__(self, key: str, problem: str) -> None:
        super().__init__("", key, problem)


class MissingExtraError(PermanentError, ImportError):
    """A feature needs an optional extra of the package."""

    def __init__(
        self, what: str, extra: str, error: ImportError, requirements: Sequence[str]
    ) -> None:
        self.what, self.extra, self.error = what, extra, error
        problem = " ".join(str(error).split()) or type(error).__name__
        install = " ".join(f"'{requirement}'" for requirement in requirements)
        super().__init__(
            f"{what} needs the extra {extra!r}, which cannot be imported ({problem}); "
            f"pip install {install}."
        )


class BrokerError(ProblemError):
    """The Kafka broker does not start."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__("the Kafka broker does not start", problem, remedy)


class PublishError(ProblemError):
    """Records could not be written to a topic; `published` were written before."""

    def __init__(self, topic: str, published: int, problem: str, remedy: str) -> None:
        self.topic, self.published = topic, published
        super().__init__(f"topic {topic!r}, after {published:,} records", problem, remedy)


class AddressInUseError(PermanentError):
    """The address to listen on is in use or not permitted."""

    def __init__(self, address: str, problem: str) -> None:
        self.address, self.problem = address, problem
        super().__init__(
            f"cannot listen on {address}: {problem}; choose another address with "
            "[web] listen, --web.listen (run) or --listen (demo)."
        )


class DeadLetterError(ProblemError):
    """Dead letters could not be written; no record was skipped.

    Attributes:
        durable: indices of the letters of this write that are durable nevertheless.
    """

    def __init__(self, destination: str, problem: str, remedy: str) -> None:
        self.destination = destination
        self.durable: frozenset[int] = frozenset()
        super().__init__(f"writing dead letters to {destination}", problem, remedy)


class UnevenStreamsError(PermanentError):
    """The streams of a join do not have the same partitions."""

    def __init__(
        self, number: int, counts: Mapping[str, int | None], missing: Sequence[str]
    ) -> None:
        self.number, self.counts, self.missing = number, counts, missing
        difference = f"partition {number} of {', '.join(missing)} was not assigned with it"
        if not missing:
            counted = ", ".join(f"{topic} has {count}" for topic, count in counts.items())
            difference = f"their partition counts differ: {counted}"
        super().__init__(
            f"[attribution] joins partition {number} of all its topics, but {difference}. Give all "
            "topics the same number of partitions, write records of one key to the same one "
            "(request id or user as the record's key, the same partitioner), and use the range "
            "assignor."
        )


class SplitKeyError(PermanentError):
    """Records of one key are in different partitions of joined streams."""

    def __init__(self, key: str, places: Mapping[str, int]) -> None:
        self.key, self.places = key, places
        listing = " and ".join(f"partition {number} of {topic}" for topic, number in places.items())
        super().__init__(
            f"{key!r} is in {listing}, so its records are never joined. Write all topics with the "
            "join key (request id or user) as the record's key and with the same partitioner "
            "(murmur2 in Java and kafka-python; partitioner=murmur2_random in librdkafka), then "
            "start over."
        )


class TooManyInvalidError(PermanentError):
    """Too many records are invalid; consuming has stopped."""

    def __init__(self, invalid: int, of: int, limit: str, example: str) -> None:
        self.invalid, self.of, self.limit, self.example = invalid, of, limit, example
        super().__init__(
            f"{invalid:,} of the last {of:,} records are invalid, more than {limit}: consuming "
            f"has stopped; no record was skipped. The last one: {example}. Check that [event] "
            "describes what producers write, or raise the limit under [dead_letters]."
        )


class NotShownError(ProblemError):
    """These accumulators cannot be exported together."""

    def __init__(self, found: str, remedy: str) -> None:
        super().__init__("these accumulators cannot be exported", found, remedy)
