"""A log and a consumer group in memory, which keep the contract of sources.

A test drives them by hand and in order:

    log = Log()
    log.add_topic("events", partitions=2)
    log.append(Partition("events", 0), b"...", timestamp=1_700_000_000_000)
    group = Group(log, ["events"])
    a, b = LogSource(group, "a"), LogSource(group, "b")
    a.open(owner_a), b.open(owner_b)

What happens to a member is ordered on the group, and takes place in the member's next `poll`, which
calls its owner, and then delivers:

- `group.assign("a", partitions)`: `owner.assigned`. Refused while somebody holds one of them.
- `group.revoke("a", partitions)`: `owner.revoked`; "a" holds them until that has returned.
- `group.lose("a", partitions)`: they are nobody's at once, and "a" does not know it: a zombie,
  which goes on delivering, and whose commits are refused, until `group.tell("a")` (or until it is
  assigned something): `owner.lost`.
- `group.crash("a")`: all of its partitions are nobody's; its source is dead (its use raises
  AssertionError). A new LogSource takes its place, under the same name or another.
- `group.fail_commits("a", times, landed=False)`: the next commits of "a" answer with a sentence;
  landed: they are taken all the same, as when only the answer is lost.

An owner's error comes out of `poll`; the next `poll` does the same again.

`group.committed` and `group.holder` are what the group knows. `Group(..., automatic=True)` does
all that by itself, as Kafka does with the range assignor: everybody gives up everything whenever a
member opens or closes or a partition appears, and then all is shared out anew.

The log: `append`, and `skip` (offsets that hold nothing, as aborted transactions leave).
The contract of sources (tests/contract) is kept.
"""
