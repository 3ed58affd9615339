"""A receiver that misbehaves on purpose, in front of one that does not."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx


class Faulty(ThreadingHTTPServer):
    """Forwards OTLP over HTTP, and does what `fault` says before or after.

    Args:
        target: Where it forwards to.
        fault: `refuse` answers 503 with Retry-After to half of the requests; `forget` forwards
            half of them and says that it did not; `double` forwards each twice; `shuffle` holds
            a few back and forwards them in another order.
        dice: What decides.
    """

    daemon_threads = True

    def __init__(self, target: str, fault: str, dice: random.Random) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.target, self.fault, self.dice = target, fault, dice
        self.client = httpx.Client(timeout=30)
        self.lock = threading.Lock()
        self.held: list[threading.Event] = []
        self.faults = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def happens(self) -> bool:
        """Whether the fault strikes now."""
        with self.lock:
            strikes = self.dice.random() < 0.5 or self.faults == 0
            self.faults += strikes
            return strikes

    def wait_for_others(self) -> None:
        """Hold a request back until others came, then let them go in another order."""
        mine = threading.Event()
        with self.lock:
            self.held.append(mine)
            if len(self.held) == 3:
                self.release()
        mine.wait(0.2)

    def release(self) -> None:
        self.dice.shuffle(self.held)
        self.faults += 1
        for one in self.held:
            one.set()
        self.held.clear()


class _Handler(BaseHTTPRequestHandler):
    server: Faulty
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        server = self.server
        if server.fault == "shuffle":
            server.wait_for_others()
        strikes = server.happens() if server.fault != "shuffle" else False
        if strikes and server.fault == "refuse":
            return self.answer(503, b"", {"retry-after": "1"})
        for _ in range(1 + (strikes and server.fault == "double")):
            told = self.forward(body)
        if strikes and server.fault == "forget":
            return self.answer(503, b"", {})
        return self.answer(told.status_code, told.content, dict(told.headers))

    def forward(self, body: bytes) -> httpx.Response:
        kept = ("content-type", "content-encoding")
        headers = {key: self.headers[key] for key in kept if key in self.headers}
        return self.server.client.post(
            self.server.target + self.path, content=body, headers=headers
        )

    def answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for key in ("content-type", "retry-after"):
            if key in headers:
                self.send_header(key, headers[key])
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None: ...


@contextmanager
def faulty(target: str, fault: str, dice: random.Random) -> Iterator[Faulty]:
    """Run one for the block."""
    server = Faulty(target, fault, dice)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
        server.client.close()
