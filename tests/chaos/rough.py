"""A broker of its own that may be killed, and that daemons reach over a network that is hurt."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from streameval.testing.broker import Broker, free_ports
from tests.chaos.proxy import Proxy


@contextmanager
def rough_broker() -> Iterator[tuple[Broker, Proxy]]:
    """The broker itself, for whoever writes and checks; the proxy, for the daemons."""
    broker = Broker()
    with Proxy() as proxy:
        (proxy.target,) = free_ports(1)
        # Clients go where the broker says that it is: a listener of its own says the proxy.
        properties = broker._prepare() / "server.properties"
        text = properties.read_text()
        for key, added in (
            ("listeners", f"PROXIED://127.0.0.1:{proxy.target}"),
            ("advertised.listeners", f"PROXIED://{proxy.address}"),
            ("listener.security.protocol.map", "PROXIED:PLAINTEXT"),
        ):
            text = text.replace(f"\n{key}=", f"\n{key}={added},")
        properties.write_text(text)
        try:
            broker.start()
            yield broker, proxy
        finally:
            broker.remove()
