"""Logs that are more than one record after the other."""

from __future__ import annotations

from tests.chaos.check import Faults
from tests.chaos.stage import Stage


def transactions(stage: Stage) -> Faults:
    """Committed, aborted and open transactions in the log, and kills in between."""
    setting = stage.setting(member="one", events=200)
    plain = stage.writer(setting)
    writer = stage.writer(setting, transactional_id=setting.topic, transaction_timeout_ms=600_000)
    writer.content = plain.content
    writer.producer.init_transactions()
    for number in range(2 * stage.times):
        plain.write(200)
        writer.producer.begin_transaction()
        writer.write(200, counts=False)
        writer.producer.abort_transaction()
        writer.producer.begin_transaction()
        writer.write(200)
        plain.write(50)
        with stage.daemon(setting) as daemon:
            daemon.until(daemon.ready)
            stage.settled(setting, daemon)
            if number % 2:
                writer.producer.commit_transaction()
        stage.look(setting)
        if not number % 2:
            writer.producer.commit_transaction()
    return stage.finished(setting, plain)
