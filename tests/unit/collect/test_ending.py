"""How the server over HTTP ends: what has come by then is answered, and nothing is reset.

And how a connection does on which nothing is asked.
"""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import uvicorn
from uvicorn.protocols.http import auto
from uvicorn.protocols.http.h11_impl import H11Protocol

from orchtrace_otel.collect import server as serving
from orchtrace_otel.collect.ending import Server
from orchtrace_otel.collect.server import Options

if TYPE_CHECKING:
    import pytest

ASK = b"GET / HTTP/1.1\r\nhost: collector\r\n\r\n"


async def answer(scope: Any, receive: Any, send: Any) -> None:
    """Say OK to whatever is asked."""
    assert scope["type"] == "http"
    await receive()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"OK"})


async def told(client: socket.socket) -> bytes:
    """Return what a client is told until its connection is closed."""
    loop = asyncio.get_running_loop()
    said = b""
    while piece := await loop.sock_recv(client, 4096):
        said += piece
    return said


def test_what_has_come_when_it_ends_is_answered() -> None:
    """On a connection that is kept, on one that nobody has accepted; silent ones are closed."""

    async def ending() -> list[bytes]:
        loop = asyncio.get_running_loop()
        listener = socket.create_server(("127.0.0.1", 0))
        config = uvicorn.Config(answer, log_config=None, lifespan="off", ws="none")
        server = Server(config, patience_s=10)
        config.load()
        server.lifespan = config.lifespan_class(config)
        await server.startup([listener])
        address = listener.getsockname()
        kept, silent, fresh = (socket.socket() for _ in range(3))
        for client in (kept, silent, fresh):
            client.setblocking(False)
        for client in (kept, silent):
            await loop.sock_connect(client, address)
            await loop.sock_sendall(client, ASK)
            assert (await loop.sock_recv(client, 4096)).startswith(b"HTTP/1.1 200")
        # All in one turn of the loop, so that the server has no chance to read before it ends.
        kept.send(ASK)
        fresh.connect_ex(address)
        fresh.send(ASK)
        await server.shutdown([listener])
        said = [await told(client) for client in (kept, silent, fresh)]
        for client in (kept, silent, fresh):
            client.close()
        return said

    kept, silent, fresh = asyncio.run(asyncio.wait_for(ending(), 30))
    assert kept.startswith(b"HTTP/1.1 200")
    assert silent in {b"", b"OK"}  # the rest of what it was told before
    assert fresh.startswith(b"HTTP/1.1 200")


def test_a_connection_on_which_no_request_begins_is_closed() -> None:
    """Before the first request, in the middle of one's head, or behind one; others are kept."""

    async def silence() -> list[bytes]:
        loop = asyncio.get_running_loop()
        listener = socket.create_server(("127.0.0.1", 0))
        config = uvicorn.Config(
            answer, log_config=None, lifespan="off", ws="none", timeout_keep_alive=1
        )
        server = Server(config, patience_s=0.1)
        running = asyncio.create_task(server.serve([listener]))
        clients = [socket.socket() for _ in range(4)]
        for client, said in zip(clients, (b"", ASK[:20], ASK + ASK[:20], ASK), strict=True):
            client.setblocking(False)
            await loop.sock_connect(client, listener.getsockname())
            await loop.sock_sendall(client, said)
        *silent, busy = clients
        reading = [asyncio.create_task(told(client)) for client in silent]
        while not all(one.done() for one in reading):
            await asyncio.sleep(0.2)
            await loop.sock_sendall(busy, ASK)
            assert await loop.sock_recv(busy, 4096)
        server.should_exit = True
        await running
        for client in clients:
            client.close()
        return [await one for one in reading]

    before, within, behind = asyncio.run(asyncio.wait_for(silence(), 30))
    assert before == within == b""
    assert behind.startswith(b"HTTP/1.1 200")


def test_headers_are_read_within_bounds_whatever_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What uvicorn chooses by itself may have none: senders without the token fill memory."""
    monkeypatch.setattr(auto, "AutoHTTPProtocol", None)
    collector: Any = SimpleNamespace(intake=None, metrics=None)
    config = serving._http(Options(tmp_path), collector).config
    config.load()
    assert config.http_protocol_class is H11Protocol
