"""How the two ways in close: where nothing is unread, and nobody waits for an answer.

Over HTTP that goes for each connection too: who asks for nothing must not keep it for ever,
for there are only so many.

The kernel resets a connection with bytes that nobody read, and one that nobody accepted.
Senders cannot tell what became of a call on it, and some give up what was in it.
"""

from __future__ import annotations

import asyncio
import os
import select
import socket
import stat
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from typing import Any, Final

import uvicorn

_LOOK_S: Final = 0.002
_TICKS: Final = 10
"""Of uvicorn's, ten a second, between two looks for connections that ask for nothing."""


class Server(uvicorn.Server):
    """Uvicorn that reads what has come before it closes, and leaves signals to others.

    It closes connections on which no request begins, too: uvicorn's own keep-alive counts
    from an answer, and ends with the first byte of what may never become a request.

    Args:
        config: As of uvicorn.
        patience_s: Seconds that it may take until nothing is unread.
    """

    def __init__(self, config: uvicorn.Config, patience_s: float) -> None:
        super().__init__(config)
        self._patience_s = patience_s
        self._waiting: dict[Any, tuple[Any, float]] = {}

    async def on_tick(self, counter: int) -> bool:
        """Close who is silent; say whether to exit, as uvicorn asks."""
        if counter % _TICKS == 0:
            self._close_silent(time.monotonic())
        return await super().on_tick(counter)

    def _close_silent(self, now: float) -> None:
        waiting: dict[Any, tuple[Any, float]] = {}
        for connection in list[Any](self.server_state.connections):
            request = connection.cycle  # the last one; None before the first
            if request is not None and not request.response_complete:
                continue
            known = self._waiting.get(connection)
            since = known[1] if known is not None and known[0] is request else now
            waiting[connection] = request, since
            if now - since > self.config.timeout_keep_alive:
                connection.transport.close()
        self._waiting = waiting

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Catch none: what ends this server ends the other way in too."""
        yield

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept and read what has come, then close; what was read is answered first.

        Args:
            sockets: What is listened on.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(self._patience_s):
                await _until_not(lambda: _are_readable(sockets or ()))
                for server in self.servers:
                    server.close()
                await asyncio.sleep(_LOOK_S)  # until who was accepted is among the connections
                await _until_not(self._is_asked)
        await super().shutdown(sockets)

    def _is_asked(self) -> bool:
        """Whether a connection has something that is unread, or has only come."""
        connections: list[Any] = list(self.server_state.connections)
        if any(connection.cycle is None for connection in connections):
            return True
        return _are_readable(
            connection.transport.get_extra_info("socket")
            for connection in connections
            if connection.cycle.response_complete and not connection.transport.is_closing()
        )


async def _until_not(condition: Callable[[], bool]) -> None:
    """Look again and again, for what is asked has no event to wait for."""
    while condition():  # noqa: ASYNC110 - see above
        await asyncio.sleep(_LOOK_S)


def _are_readable(sockets: Iterable[socket.socket]) -> bool:
    """Whether one has something that is unread, or somebody who is not accepted."""
    waiting = select.poll()
    for one in sockets:
        waiting.register(one, select.POLLIN)
    return bool(waiting.poll(0))


def hang_up() -> None:
    """Close all sockets of this process, under whoever holds them; for its very end.

    The kernel frees the memory of a process before it closes them, and what comes meanwhile
    would be on a connection that is reset. A server of gRPC cannot be asked to: it says
    CANCELLED to who comes just then.
    """
    with suppress(OSError):  # where there is no such folder the kernel does it, later
        with os.scandir("/dev/fd") as found:
            numbers = [int(entry.name) for entry in found]
        for number in numbers:
            with suppress(OSError):
                if stat.S_ISSOCK(os.fstat(number).st_mode):
                    os.close(number)
