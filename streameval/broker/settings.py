"""The files a single-node broker starts from."""

from __future__ import annotations

from pathlib import Path

PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={data}
num.partitions=4
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
transaction.abort.timed.out.transaction.cleanup.interval.ms=1000
num.network.threads=2
num.io.threads=2
background.threads=2
log.cleaner.backoff.ms=500
"""

LOGGING = """\
<Configuration status="OFF">
  <Appenders>
    <Console name="out"><PatternLayout pattern="%d %p %c{1}: %m%n%throwable"/></Console>
  </Appenders>
  <Loggers><Root level="WARN"><AppenderRef ref="out"/></Root></Loggers>
</Configuration>
"""


def write_settings(directory: Path, port: int, controller: int) -> Path:
    """Write the broker's configuration into `directory`; returns the path of its properties."""
    properties = directory / "server.properties"
    properties.write_text(
        PROPERTIES.format(port=port, controller=controller, data=directory / "data")
    )
    (directory / "log4j2.xml").write_text(LOGGING)
    return properties
