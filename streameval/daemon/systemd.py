"""The pulse of the loop, and reports of readiness and progress to systemd with sd_notify(3)."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Mapping
from typing import Final

from streameval.daemon.log import emit

_SEND_TIMEOUT: Final = 1.0
"""Seconds for which a message may wait for room in systemd's queue."""

_KEEPALIVE_SECONDS: Final = 1.0
"""Seconds between keep-alives, unless the watchdog asks for more."""


class Pulse:
    """The time of the last progress; safe to read from any thread."""

    def __init__(self, clock: Callable[[], float], on_beat: Callable[[], None]) -> None:
        self._clock = clock
        self._on_beat = on_beat
        self._beat_at = clock()

    def beat(self) -> None:
        """Record progress."""
        self._beat_at = self._clock()
        self._on_beat()

    @property
    def silence(self) -> float:
        """Seconds since the last beat."""
        return self._clock() - self._beat_at


class Supervisor:
    """Notifies the service manager that started this process.

    Keep-alives follow the pulse that /-/healthy reads, so a stalled loop sends none even if other
    threads still run.

    Args:
        environment: of the process; NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID are read.
        clock: monotonic seconds.
    """

    def __init__(self, environment: Mapping[str, str], clock: Callable[[], float]) -> None:
        self._socket = environment.get("NOTIFY_SOCKET", "")
        self._clock = clock
        self._interval = _interval(environment) if self._socket else None
        self._next = clock()
        self._status = ""
        self._reached = True

    def ready(self) -> None:
        """The daemon has started."""
        self._send("READY=1")

    def alive(self) -> None:
        """Send a keep-alive if one is due. Safe to call from any thread."""
        if self._interval is not None and (now := self._clock()) >= self._next:
            self._next = now + self._interval
            self._send("WATCHDOG=1")

    def status(self, sentence: str) -> None:
        """Send the sentence that `systemctl status` shows, if it changed."""
        if sentence != self._status:
            self._status = sentence
            self._send("STATUS=" + " ".join(sentence.split()))

    def stopping(self) -> None:
        """The daemon is shutting down."""
        self._send("STOPPING=1")

    def _send(self, message: str) -> None:
        if not self._socket:
            return
        # A leading "@" means Linux's abstract namespace.
        address = self._socket.replace("@", "\0", 1) if self._socket[0] == "@" else self._socket
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                sender.settimeout(_SEND_TIMEOUT)
                sender.sendto(message.encode(), address)
        except OSError as error:
            if self._reached:
                emit(logging.WARNING, "supervisor_unreachable", socket=self._socket, error=error)
            self._reached = False
        else:
            self._reached = True


def _interval(environment: Mapping[str, str]) -> float | None:
    limit = environment.get("WATCHDOG_USEC", "")
    pid = environment.get("WATCHDOG_PID", str(os.getpid()))
    if not limit.isdecimal() or pid != str(os.getpid()):
        return None
    return min(_KEEPALIVE_SECONDS, int(limit) / 4_000_000)
