"""How the server over HTTP ends: what has come by then is answered, and nothing is reset."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import uvicorn

from orchtrace_otel.collect.ending import Server

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
