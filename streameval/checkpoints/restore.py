"""Resumes from checkpoints: plans the start of an assigned partition, and loads its state.

`resume` is the only way from a stored state to a running one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from threading import Lock
from typing import Any, Final

import msgspec

from streameval.accumulator.inputs import UnlikeInputsError
from streameval.checkpoints.format import Header, Shard
from streameval.checkpoints.settings import CheckpointSettings, LogEvent, Policies
from streameval.checkpoints.store import Listing, SavedCheckpoint, Store
from streameval.decoding.fields import MAX_HISTORY
from streameval.decoding.values import MAX_ID_BYTES, MAX_LABEL_BYTES
from streameval.engine.ingest import Ingest
from streameval.engine.partition import META, tally_in
from streameval.engine.stored_states import StoredStates
from streameval.engine.windows.times import span_text
from streameval.events.errors import StateVersionError
from streameval.events.records import Assignment, Partition


def resume(
    ingest: Ingest,
    partition: Partition,
    saved: SavedCheckpoint,
    *,
    offsets: Mapping[Partition, int] | None = None,
    states: StoredStates | None = None,
    unchanged: Collection[str] = (),
    policies: Policies | None = None,
) -> str | None:
    """Load a checkpoint into an ingest, as that partition.

    A daemon calls it at its start and at a takeover, commands to check, read or merge states. Every
    part is compared with its digest before the ingest changes. Then the partition has the counts of
    the checkpoint and continues at `offsets`, as if it had never stopped; a log that starts above
    the checkpoint's offset has skipped the records between. After an error the ingest is as before.

    Args:
        ingest: takes the counts.
        partition: its name in the ingest.
        saved: whose settings have been compared with those of the ingest (`other_settings`).
        offsets: the next offset of each log; None: those of the checkpoint.
        states: makes a state for reading, of which only the needed parts are read; None to count.
        unchanged: parts that have not changed since the partition was loaded last.
        policies: decide whether metrics of other inputs may start over; None: they may not.

    Returns:
        A sentence about metrics that start over, because their inputs differ; None without any.

    Raises:
        DamagedStateError: a part is not as written.
        UnlikeStateError: the state has other options, or other inputs without `policies`.
        RefusedStateError: it has other inputs, and the policy does not allow that.
    """
    digests = {
        name: digest
        for name, digest in sorted(saved.digests.items())
        if name not in unchanged and (states is None or states.reads(name))
    }
    # Parts of equal content are read once: a forged table may name one blob many times.
    names = {digest: name for name, digest in digests.items()}
    contents = {digest: saved.read(name) for digest, name in names.items()}
    parts = {name: contents[digest] for name, digest in digests.items()}
    offsets = offsets or offsets_saved(saved.header, partition)
    try:
        ingest.restore(partition, offsets, parts, states, unchanged=unchanged)
    except UnlikeInputsError as error:
        if policies is None:
            raise
        problem = str(error).rstrip(".")
        policies.enforce("on_other_inputs", str(saved.header.shard), problem)
        ingest.restore(partition, offsets, parts, states, empty_unlike=True)
        return problem
    return None


class RestorePlan(msgspec.Struct, frozen=True, kw_only=True):
    """The start of a partition: its offsets, and the checkpoint to load.

    Attributes:
        counted: of each log, the offset below which other checkpoints may have been exported, if
            they may hold more than this one: the state is rebuilt up to there, and counters begin
            behind the lists below. Empty if it has all that was exported.
        saved: the checkpoint to load; None to start empty.
        restart: the policy under which it starts over, and the problem, as fields of a log event;
            the checkpoints of its shard are archived first. Empty if it does not start over.
        partitions: number of partitions of the topic when this state began; None if unknown.
        skipped: number of offsets that the log lost before they were counted.
        same_settings: True if the checkpoint has those of this process; others were accepted.
        generation: number of times that the state of this shard has started over.
    """

    assignment: Assignment
    offsets: Mapping[Partition, int]
    counted: Mapping[Partition, int] = {}
    saved: SavedCheckpoint | None = None
    restart: Mapping[str, str] = {}
    partitions: int | None = None
    skipped: int = 0
    same_settings: bool = True
    generation: int = 0
    log_events: Sequence[LogEvent] = ()

    @property
    def shard(self) -> Shard:
        """The shard of its checkpoints."""
        return shard_of(self.assignment)


def shard_of(assignment: Assignment) -> Shard:
    """The shard of a partition's checkpoints."""
    topic, number = assignment.partition
    return Shard(topic, assignment.identity, number)


class RestorePlanner:
    """Plans the start of assigned partitions; changes nothing. Thread-safe.

    `exported`: shard -> offset of each log up to which this process has exported counters.
    """

    def __init__(
        self,
        store: Store,
        settings: CheckpointSettings,
        exported: Mapping[Shard, Mapping[Partition, int]],
    ) -> None:
        self._store = store
        self._settings = settings
        self._policies = settings.policies
        self._exported = exported
        self._reading = Lock()
        self._headers: Mapping[Shard, Header | None] | None = None

    def plans(self, assignments: Sequence[Assignment], listing: Listing) -> list[RestorePlan]:
        """Plan several assignments; see `plan`."""
        return self._store.gather(lambda assignment: self.plan(assignment, listing), assignments)

    def plan(self, assignment: Assignment, listing: Listing | None = None) -> RestorePlan:
        """Find the newest valid checkpoint; check it against log, group and settings.

        Raises:
            RefusedStateError: resuming would be wrong, and no policy allows it.
            StoreError: the store cannot be read.
        """
        shard = shard_of(assignment)
        listing = listing or self._store.listing()
        generation = max((at.generation for at in listing.shards.get(shard, ())), default=0)
        torn: Sequence[LogEvent] = ()
        try:
            newest = self._store.newest(shard, listing)
        except StateVersionError as error:
            plan = self.restart(assignment, "on_unknown_version", str(error).rstrip("."))
        else:
            torn = [
                _warning(shard, "a damaged checkpoint was skipped", problem=problem)
                for problem in newest.damaged
            ]
            if newest.saved is None and torn:
                problem = f"no checkpoint of it is valid: {'; '.join(newest.damaged)}"
                plan = self.restart(assignment, "on_damaged", problem)
            elif newest.saved is None:
                plan = self._start(assignment)
            else:
                plan = self._resume(assignment, newest.saved, torn=bool(torn))
        # A higher generation wins over all archived checkpoints, whatever their offsets.
        return msgspec.structs.replace(
            plan, generation=generation + bool(plan.restart), log_events=[*torn, *plan.log_events]
        )

    def restart(self, assignment: Assignment, policy: str, problem: str) -> RestorePlan:
        """Start over and archive the saved state, where the policy allows it.

        Raises:
            RefusedStateError: the policy does not allow it.
        """
        self._policies.enforce(policy, str(shard_of(assignment)), problem)
        return self._over(assignment, policy, problem)

    def _over(self, assignment: Assignment, policy: str, problem: str) -> RestorePlan:
        """A plan that starts over at `start`, and archives the saved state."""
        shard = shard_of(assignment)
        offsets = {log.partition: log.start for log in assignment.logs}
        return RestorePlan(
            assignment=assignment,
            offsets=offsets,
            restart={"partition": str(shard), "policy": policy, "problem": problem},
            partitions=assignment.partitions,
        )

    def _start(self, assignment: Assignment) -> RestorePlan:
        shard, log_events = shard_of(assignment), list[LogEvent]()
        offsets = {log.partition: log.start for log in assignment.logs}
        with self._reading:
            # Read once, when the first partition starts empty.
            if self._headers is None:
                self._headers = self._store.headers()
            headers = self._headers
        counts = [
            header.partitions
            for other, header in headers.items()
            if other[:2] == shard[:2] and header is not None and header.partitions is not None
        ]
        # When its oldest state began.
        partition_count = min(counts, default=None)
        former = {
            other.identity
            for other, header in headers.items()
            # A state without records loses nothing: the first line of a file may come later.
            if other.topic == shard.topic and (header is None or header.offset > 0)
        }
        former.discard(shard.identity)
        if partition_count is not None and shard.number >= partition_count:
            problem = (
                f"the topic had {partition_count} partitions when its state began, and this one is "
                "new: keys may have moved to it"
            )
            self._policies.enforce("on_new_partitions", str(shard), problem)
            log_events.append(_warning(shard, "a new partition was accepted", problem=problem))
            offsets = {log.partition: log.begin for log in assignment.logs}
        elif former:
            return self.restart(assignment, "on_recreated", _replacement(assignment, former))
        counted = self._rebuilt(assignment, offsets, {}, log_events)
        return RestorePlan(
            assignment=assignment,
            offsets=offsets,
            counted=counted,
            partitions=assignment.partitions,
            log_events=log_events,
        )

    def _resume(self, assignment: Assignment, saved: SavedCheckpoint, *, torn: bool) -> RestorePlan:
        header, log_events = saved.header, list[LogEvent]()
        difference = other_settings(self._settings.fingerprint, header.state.settings)
        if difference is not None:
            if self._policies.on_other_settings == "fail" and has_no_valid_record(saved):
                problem = f"{difference}; no valid record was counted"
                return self._over(assignment, "on_other_settings", problem)
            if self._policies.on_other_settings != "accept":
                return self.restart(assignment, "on_other_settings", difference)
            if not same_shape(self._settings.fingerprint, header.state.settings):
                # More than decoding differs, which "accept" does not cover.
                Policies().enforce("on_other_settings", str(header.shard), difference)
            event = "other decoding was accepted"
            log_events.append(_warning(header.shard, event, problem=difference))
        # A log of a join that is new to the state begins at its start.
        known = offsets_saved(header, assignment.partition)
        saved_at = {log.partition: known.get(log.partition, log.start) for log in assignment.logs}
        for log in assignment.logs:
            offset = saved_at[log.partition]
            if offset > log.end:
                ends = f"its state ends at offset {offset} and its log at {log.end}"
                return self.restart(assignment, "on_truncated", f"{ends}: the log has lost records")
        offsets = dict(saved_at)
        for log in assignment.logs:
            offset = saved_at[log.partition]
            if offset < log.begin:
                problem = (
                    f"its state ends at offset {offset} and its log begins at {log.begin}: "
                    f"{log.begin - offset} offsets were never counted"
                )
                self._policies.enforce("on_retention", _where(log, header.shard), problem)
                event = "records were lost before they were counted"
                log_events.append(_warning(header.shard, event, problem=problem))
                offsets[log.partition] = log.begin
        skipped = sum(offsets.values()) - sum(saved_at.values())
        # A rebuild continues even if its reason, such as a damaged file, is gone.
        begun = {Partition.of(log): offset for log, offset in header.counted.items()}
        counted = self._rebuilt(
            assignment, offsets, begun, log_events, newest=header.offset, torn=torn
        )
        return RestorePlan(
            assignment=assignment,
            offsets=offsets,
            counted=counted,
            saved=saved,
            partitions=header.partitions,
            skipped=skipped,
            same_settings=difference is None,
            log_events=log_events,
        )

    def _rebuilt(
        self,
        assignment: Assignment,
        offsets: Mapping[Partition, int],
        begun: Mapping[Partition, int],
        log_events: list[LogEvent],
        *,
        newest: int | None = None,
        torn: bool = False,
    ) -> Mapping[Partition, int]:
        """Up to where the state must be rebuilt before counters begin; see `RestorePlan.counted`.

        Args:
            assignment: with the commit of each log.
            offsets: of each log, where counting goes on.
            begun: where an earlier rebuild was to end.
            log_events: gets a warning for each log whose commit is ahead.
            newest: position of the checkpoint; None without one.
            torn: whether a newer checkpoint is damaged.
        """
        shard = shard_of(assignment)
        exported = self._exported.get(shard, {})
        committed = {log.partition: log.committed or 0 for log in assignment.logs}
        # Two owners may have read the logs of a join to different offsets, and the one whose
        # commit was accepted need not have the newest checkpoint.
        is_newest = newest is not None and newest >= sum(committed.values())
        is_known = (
            torn
            or is_newest
            or all(
                offset <= max(offsets[log], begun.get(log, 0)) for log, offset in committed.items()
            )
        )
        for log in assignment.logs:
            at = offsets[log.partition]
            if committed[log.partition] <= at:
                continue
            found = "none is valid" if newest is None else f"the newest valid one ends at {at}"
            reason = (
                "another process had read its logs to other offsets"
                if is_newest
                else "another store was in use, or files are missing"
            )
            problem = (
                f"the group has committed offset {committed[log.partition]}, and of its "
                f"checkpoints {found}: {reason}"
            )
            if not is_known:
                self._policies.enforce("on_foreign_progress", _where(log, shard), problem)
            event = "state is rebuilt up to the group's commit"
            log_events.append(_warning(shard, event, problem=problem))
        counted = {
            log: max(at, committed[log], begun.get(log, 0), exported.get(log, 0))
            for log, at in offsets.items()
        }
        # Another checkpoint of a join may have closed more lists at the same or lower offsets: a
        # damaged one, or that of the commit, whose owner did not wait for idle logs.
        lags = any(
            log.committed is not None and log.committed < offsets[log.partition]
            for log in assignment.logs
        )
        return counted if torn or begun or lags or counted != offsets else {}


def has_no_valid_record(saved: SavedCheckpoint) -> bool:
    """True if a state has counted invalid records only, as under a wrong configuration.

    Under other settings it then starts over, unless `on_other_settings` is "accept".
    """
    return tally_in(saved.read(META)).valid == 0


def _where(log: Assignment, shard: Shard) -> str:
    """The name of a log for messages; the shard itself if it has a single log."""
    return str(log.partition if log.partition.topic != shard.topic else shard)


def _replacement(assignment: Assignment, former: Collection[str]) -> str:
    """The message that a log differs from that of all earlier states.

    `former`: identities of those states; those of a join are joined by dots.
    """
    earlier = [identity.split(".") for identity in sorted(former)]
    replaced = [
        log.partition.topic
        for log, *identities in zip(assignment.logs, *earlier, strict=False)
        if log.kind == "file" and log.identity not in identities
    ]
    if replaced:
        return (
            f"the first line of {' and '.join(replaced)} is not the one that was counted: the file "
            "was truncated, rotated or replaced"
        )
    return (
        f"the topic was deleted and recreated: its id is {assignment.identity}, and there is state "
        f"of {', '.join(sorted(former))}"
    )


def offsets_saved(header: Header, partition: Partition) -> dict[Partition, int]:
    """The next offset of each log that a checkpoint has counted; `partition`: the only one."""
    joined = {Partition.of(log): offset for log, offset in header.offsets.items()}
    return joined or {partition: header.offset}


def _warning(shard: Shard, event: str, **fields: str) -> LogEvent:
    return LogEvent("warning", event, {"partition": str(shard), **fields})


_LONGEST = 120

_CONSTANT: Final = {
    "event.max_history": (None, MAX_HISTORY),
    "event.max_id_bytes": (MAX_ID_BYTES,),
    "event.max_label_bytes": (MAX_LABEL_BYTES,),
}
"""Settings of release 0.2.0 that are constants now, and the values that mean the same."""


def other_settings(current: Mapping[str, Any], saved: Mapping[str, Any]) -> str | None:
    """A message with all settings that differ, or None.

    Example:
        >>> other_settings({"pane": 60_000_000}, {"pane": 300_000_000})
        'settings have changed since its state was made: pane: "5m" → "1m"'
        >>> new, old = ({"streams": [{"item": "a", "id": name}]} for name in ("rid", "id"))
        >>> other_settings(new, old)
        'settings have changed since its state was made: streams[0].id: "id" → "rid"'
    """
    depth = saved.get("depth")
    names_depth = depth is not None and depth != current.get("depth")
    current, saved = _flat(current), _flat(saved)
    saved = {key: value for key, value in saved.items() if value not in _CONSTANT.get(key, ())}
    difference = [
        f"{key}: {_setting_text(saved, key)} → {_setting_text(current, key)}"
        for key in sorted({*current, *saved})
        if _setting_text(current, key, None) != _setting_text(saved, key, None)
    ]
    if not difference:
        return None
    message = f"settings have changed since its state was made: {'; '.join(difference)}"
    if not names_depth:
        return message
    return f"{message} (it can be kept with depth = {depth} and no cut-off beyond that)"


def same_shape(current: Mapping[str, Any], saved: Mapping[str, Any]) -> bool:
    """True if only decoding differs, so that counting can continue.

    Example:
        >>> same_shape({"event": {"time": "ts"}, "pane": 60}, {"event": {"time": "at"}, "pane": 60})
        True
        >>> same_shape({"pane": 60}, {"pane": 30})
        False
    """
    return _shape(current) == _shape(saved)


def _shape(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings without decoding; rankers have a label, and positions in the lists of a join."""
    rankers = [*((settings.get("event") or {}).get("rankers") or ())]
    return {**settings, "event": rankers if settings.get("attribution") else bool(rankers)}


def _flat(value: Any, key: str = "") -> dict[str, Any]:
    """Settings with nested tables as table.key, and tables in lists as list[0].key."""
    inner: dict[str, Any] = {}
    if isinstance(value, Mapping):
        inner = {f"{key}.{name}".lstrip("."): nested for name, nested in value.items()}
    elif isinstance(value, list) and all(isinstance(entry, Mapping) for entry in value):
        inner = {f"{key}[{index}]": entry for index, entry in enumerate(value)}
    if not inner:
        return {key: value} if key else {}
    return {
        name: nested_value
        for at, nested in inner.items()
        for name, nested_value in _flat(nested, at).items()
    }


def _setting_text(settings: Mapping[str, Any], key: str, longest: int | None = _LONGEST) -> str:
    if key not in settings:
        return "absent"
    value = settings[key]
    # The state has microseconds, the configuration a text.
    readable = span_text(value) if key == "pane" and isinstance(value, int) else value
    text = msgspec.json.encode(readable, order="sorted").decode()
    return text if longest is None or len(text) <= longest else f"{text[:longest]}..."
