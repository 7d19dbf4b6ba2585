"""One connection, and how long each step of it may take."""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Callable
from typing import Any, Final

from uvicorn import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from streameval.exporters.web.limits import Limits

_AHEAD: Final = 65_536
"""Bytes of further requests; uvicorn takes as many as come, and a client can send faster."""


class Step(enum.Enum):
    """Where a connection is."""

    OPENING = enum.auto()
    RECEIVING = enum.auto()
    ANSWERING = enum.auto()
    IDLE = enum.auto()


class Connection(H11Protocol):
    """uvicorn's, with an end to every wait; of its own it has one for the time between requests.

    Args:
        config: of uvicorn.
        state: of uvicorn.
        limits: how long each step may take.
        sans: the client's certificate is for one of these names; empty means any.
        closed: told when it has ended.

    Attributes:
        step: where it is.
        since: when that began, by the clock of the event loop.
    """

    def __init__(
        self,
        config: Config,
        state: ServerState,
        *,
        limits: Limits,
        sans: frozenset[str],
        closed: Callable[[Connection], None],
    ) -> None:
        super().__init__(config, state, {}, asyncio.get_running_loop())
        self.step = Step.OPENING
        self.since = self.loop.time()
        self._limits = limits
        self._sans = sans
        self._closed = closed
        self._ahead = 0
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn narrows it
        """Begin to wait for a request, or refuse the client."""
        super().connection_made(transport)
        if self._sans and not self._sans & _names(transport):
            transport.abort()
        else:
            self._enter(Step.RECEIVING, self._limits.request)

    def data_received(self, data: bytes) -> None:
        """Take a piece of a request; whoever asks on and on before we have answered is ended."""
        self._ahead += len(data) if self.step is Step.ANSWERING else 0
        if self._ahead > _AHEAD:
            self.drop()
            return
        super().data_received(data)
        self._observe()

    def on_response_complete(self) -> None:
        """Go on to the next request."""
        self.step = Step.IDLE
        super().on_response_complete()
        if self._answering:
            self._observe()
        else:
            self._ahead = 0
            self._enter(Step.IDLE, self._limits.idle)

    def connection_lost(self, exc: Exception | None) -> None:
        """Let go of everything."""
        super().connection_lost(exc)
        if self._timer is not None:
            self._timer.cancel()
        self._closed(self)

    @property
    def waiting(self) -> bool:
        """Whether it is the client who is waited for: to ask, or to take its answer."""
        return self.step is not Step.ANSWERING or self.clogged

    @property
    def clogged(self) -> bool:
        """Whether the client does not take its answer."""
        return self.step is not Step.OPENING and self.flow.write_paused

    def drop(self) -> None:
        """End it at once, whatever is under way."""
        if self.transport is not None:
            self.transport.abort()

    @property
    def _answering(self) -> bool:
        cycle = getattr(self, "cycle", None)  # None until the first request; uvicorn types it away
        return cycle is not None and not cycle.response_complete

    def _observe(self) -> None:
        if self._answering and not self.cycle.more_body:
            self._enter(Step.ANSWERING, self._limits.answer)
        else:
            self._enter(Step.RECEIVING, self._limits.request)

    def _enter(self, step: Step, seconds: float) -> None:
        # A piece more of the same step gives no more time for it.
        if step is self.step and step is not Step.IDLE:
            return
        if self._timer is not None:
            self._timer.cancel()
        self.step, self.since = step, self.loop.time()
        self._timer = self.loop.call_later(seconds, self.drop)


def _names(transport: asyncio.Transport) -> set[str]:
    """For whom the client's certificate is: names, addresses, e-mail addresses, URIs."""
    certificate: dict[str, Any] = transport.get_extra_info("peercert") or {}
    return {value for _, value in certificate.get("subjectAltName", ())}
